"""A backend for many at once, which holds streams open until the test lets them go; and a proxy's process whose
configuration is a folder as Kubernetes mounts one."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml

from tests.harness.http_wire import body_pieces, read_head
from tests.server.running import Running
from tests.server.serving import EVENTS, REPLIES
from tests.upstream.listening import Listening
from tests.upstream.scripted import LAST, chunk, head, reply

RUN = "import sys, proxy.cli; sys.exit(proxy.cli.main())"
BEGUN = 2  # events of a stream before it is held


class Holding(Listening):
    """Answers Chat. `good`: the keys that it takes; `keys`: those it was asked with, in order; `open`: streams that are
    held now; `let_go`: set it to end them."""

    def __init__(self, *good: str) -> None:
        super().__init__()
        self.good = set(good)
        self.keys: list[str] = []
        self.open = 0
        self.let_go = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """One request, which is a stream that is held, or not."""
        asked = await read_head(reader)
        body = b"".join([piece async for piece in body_pieces(reader, asked, to_end=False)])
        await self._answer(asked.header("authorization").removeprefix("Bearer "), json.loads(body), writer)
        return True

    async def _answer(self, key: str, asked: Mapping[str, object], writer: asyncio.StreamWriter) -> None:
        self.keys.append(key)
        if key not in self.good:
            writer.write(reply(401, json.dumps({"error": {"message": f"Incorrect API key provided: {key}"}})))
        elif not asked.get("stream"):
            writer.write(reply(200, json.dumps(REPLIES["chat"])))
        else:
            writer.write(head() + b"".join(map(chunk, EVENTS["chat"][:BEGUN])))
            self.open += 1
            await self.let_go.wait()
            self.open -= 1
            writer.write(b"".join(map(chunk, EVENTS["chat"][BEGUN:])) + LAST)


class Mounted:
    """A folder as Kubernetes mounts a ConfigMap: its files are links through `..data`, which is swapped as one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0

    def put(self, **files: Mapping[str, object] | str) -> None:
        """Files of this content, by their names without `.yaml`; a text is written as it is."""
        self._versions += 1
        version = self.folder / f"..version-{self._versions}"
        version.mkdir(parents=True)
        for name, content in files.items():
            text = content if isinstance(content, str) else yaml.safe_dump(dict(content))
            (version / f"{name}.yaml").write_text(text)
            link = self.folder / f"{name}.yaml"
            if not link.is_symlink():
                link.symlink_to(Path("..data", link.name))
        swap = self.folder / "..swap"
        swap.symlink_to(version.name)
        swap.replace(self.folder / "..data")


class Process(Running):
    """The proxy's process. `output`: where its standard output goes."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path, session: aiohttp.ClientSession) -> None:
        super().__init__(process)
        self.output = output
        self.session = session

    def records(self, log: str) -> list[dict[str, object]]:
        """What it has written so far, of one kind."""
        lines = self.output.read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["log"] == log]

    def hang_up(self) -> None:
        """As operators ask for a reload from a shell."""
        self.process.send_signal(signal.SIGHUP)

    async def operate(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, object]]:
        """What the admin listener answers."""
        async with self.session.request(method, self.admin + path, headers=headers) as response:
            return response.status, json.loads(await response.read())


@asynccontextmanager
async def process_of(
    config: Path, output: Path, environment: Mapping[str, str] | None = None, code: str = RUN
) -> AsyncIterator[Process]:
    """The proxy as a process of its own. `code`: what is run there."""
    with output.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "serve", "--config", str(config)),
            stdout=written,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=40)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        running = Process(process, output, session)
        try:
            await running.read_addresses()
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()
