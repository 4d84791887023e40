"""The product as a process whose start and end a test looks at."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml

OPEN = re.compile(r"listens on http://(\S+), .*probes on http://(\S+):", re.DOTALL)


class Running:
    """A process that serves. `told`: its standard error so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told = ""
        self.clients = ""
        self.admin = ""

    async def read_addresses(self) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(20):
            while (found := OPEN.search(self.told)) is None:
                line = await self.process.stderr.readline()
                assert line, self.told
                self.told += line.decode()
        self.clients, self.admin = (f"http://{address}" for address in found.groups())

    async def ended(self) -> int:
        async with asyncio.timeout(10):
            return await self.process.wait()


@asynccontextmanager
async def running(
    folder: Path, base_url: str, *, environment: dict[str, str] | None = None, **settings: object
) -> AsyncIterator[Running]:
    config = {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "upstreams": [{"name": "backend", "protocol": "messages", "base_url": base_url, "api_key": "proxy-key-1"}],
        **settings,
    }
    file = folder / "dragoman.yaml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxy", "serve", "--config", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def status_of(session: aiohttp.ClientSession, url: str) -> int | None:
    try:
        async with session.get(url) as response:
            return response.status
    except aiohttp.ClientConnectionError:
        return None
