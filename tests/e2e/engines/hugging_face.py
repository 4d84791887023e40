"""Write the model of a GGUF file as a folder that vLLM reads. Runs in vLLM's environment.

python hugging_face.py FILE.gguf FOLDER
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="bfloat16")
    configuration = loaded.config
    if hasattr(configuration, "quantization_config"):
        del configuration.quantization_config
    # What came from a GGUF file can't be saved; one of the same weights can.
    plain = type(loaded)(configuration).to(loaded.dtype)
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
