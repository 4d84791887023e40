"""An engine as a process."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.e2e.matrix.environments import LLAMA_CPP
from tests.e2e.matrix.install import install
from tests.harness.client import get_status
from tests.harness.proxy_process import PORTS, ProxyFailed

LLAMA_SERVER = Path(__file__).with_name("llama_server.py")
READY_WITHIN_S = 60.0
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
async def _running(port: int, health: str, *command: str) -> AsyncIterator[str]:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while await get_status(port, health) != 200:
                if process.returncode is not None:
                    raise ProxyFailed(f"{command[0]} ended with {process.returncode}")
                await asyncio.sleep(POLL_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _free_port() -> int:
    while True:
        port = random.randrange(*PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
