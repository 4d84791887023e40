"""What abuse costs the process: memory and processor time that have a bound, told after a run."""

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from proxy.upstream.pool import MAX_WHOLE
from tests.harness.client import get_status, post
from tests.harness.proxy_process import ProxyProcess
from tests.server.serving import EVENTS, PATHS, REQUESTS
from tests.upstream.scripted import HOLD, LAST, Scripted, Step, chunk, head, reply

Show = Callable[[str, object], None]

MB = 2**20
MOST_MEMORY = 160 * MB  # beyond what the process has anyway: an event may have 32 MiB, and is held in pieces and whole
MOST_FOR_A_WHOLE = MAX_WHOLE + MOST_MEMORY
MOST_TIME = 3.0  # seconds of processor time
HEADERS = {"content-type": "application/json"}
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
WIRE = json.dumps(REQUESTS["chat"]).encode()
SAYS = json.dumps({**REQUESTS["messages"], "stream": True}).encode()
_TICK = os.sysconf("SC_CLK_TCK")


class Process:
    """A proxy's process, as the system sees it."""

    def __init__(self, proxy: ProxyProcess) -> None:
        self.port = proxy.port
        self._folder = Path("/proc", str(proxy.pid))

    def processor_time(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def memory(self, name: str) -> int:
        """VmRSS: now; VmHWM: the most since it was forgotten."""
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))

    def forget_most(self) -> None:
        (self._folder / "clear_refs").write_text("5")


@asynccontextmanager
async def proxied(*scripts: list[Step] | bytes) -> AsyncIterator[tuple[Process, Scripted]]:
    async with Scripted(*scripts) as backend:
        proxy = ProxyProcess("chat", backend.base_url)
        await proxy.start()
        try:
            yield Process(proxy), backend
        finally:
            await proxy.stop()


async def spoken(port: int, *pieces: bytes) -> bytes:
    """What the proxy says, as far as it lets itself be spoken to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    with suppress(ConnectionError):
        async with asyncio.timeout(20):
            heard = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return heard


def _unframed(*pieces: bytes) -> list[Step]:
    return [head(), *map(chunk, pieces), LAST]


async def a_body_of_64_mb(port: int) -> None:
    pieces = [b" " * MB] * 64
    assert b" 413 " in await spoken(port, ASK + b"content-length: %d\r\n\r\n" % (64 * MB), *pieces)


async def a_body_of_64_mb_in_chunks(port: int) -> None:
    pieces = [chunk(b" " * MB)] * 64
    assert b" 413 " in await spoken(port, ASK + b"transfer-encoding: chunked\r\n\r\n", *pieces)


async def a_line_of_64_mb(port: int) -> None:
    heard = await spoken(port, ASK + b"x: ", *[b"x" * MB] * 64)
    assert b" 400 " in heard or not heard, heard


async def a_hundred_thousand_headers(port: int) -> None:
    heard = await spoken(port, ASK + b"".join(b"x-%d: y\r\n" % number for number in range(100_000)) + b"\r\n")
    assert b" 400 " in heard or not heard, heard


async def a_body_that_swells_to_a_gigabyte(port: int) -> None:
    packed = gzip.compress(bytes(64 * MB), 9) * 16
    assert (await post(port, PATHS["chat"], {**HEADERS, "content-encoding": "gzip"}, packed)).status == 413


async def a_hundred_thousand_levels(port: int) -> None:
    deep = b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert [(await post(port, PATHS["chat"], HEADERS, deep)).status for _ in range(10)] == [400] * 10


async def five_hundred_that_say_nothing(port: int) -> None:
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(500)]
    assert await get_status(port, "/healthz") == 200
    for _, writer in made:
        writer.close()


async def five_hundred_that_ask_slowly(port: int) -> None:
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(500)]
    for piece in [ASK, *[b"x-%d: y\r\n" % number for number in range(10)]]:
        for _, writer in made:
            writer.write(piece)
    assert await get_status(port, "/healthz") == 200
    for _, writer in made:
        writer.close()


CLIENTS = [
    a_body_of_64_mb,
    a_body_of_64_mb_in_chunks,
    a_line_of_64_mb,
    a_hundred_thousand_headers,
    a_body_that_swells_to_a_gigabyte,
    a_hundred_thousand_levels,
    five_hundred_that_say_nothing,
    five_hundred_that_ask_slowly,
]
BACKENDS: dict[str, list[Step]] = {
    "an event of 64 MB": _unframed(b"data: ", *[b"x" * MB] * 64),
    "events without an end": _unframed(*[b"data: {}\n" * 100_000] * 64),
    "a reply of 300 MB": [
        reply(200, b"")[:-4].replace(b"length: 0", b"length: 314572800"),
        b"\r\n\r\n{",
        *[b" " * MB] * 300,
    ],
    "a reply that swells to a gigabyte": [reply(200, gzip.compress(bytes(256 * MB), 9) * 4, content_encoding="gzip")],
    "a stream that swells": [head(content_encoding="gzip"), chunk(gzip.compress(b": \n" * (80 * MB), 9)), LAST],
    "an event in twenty thousand pieces": _unframed(EVENTS["chat"][0].encode(), b"data: ", *[b"x"] * 20_000),
}


async def check_cost(
    process: Process, abuse: Awaitable[object], name: str, show: Show, most: int = MOST_MEMORY
) -> None:
    process.forget_most()
    before, began = process.memory("VmRSS"), process.processor_time()
    await abuse
    took, more = process.processor_time() - began, process.memory("VmHWM") - before
    show("shown", f"{name.replace('_', ' ')}: {took * 1000:.0f} ms of processor time, {more / MB:.0f} MB")
    assert took < MOST_TIME, name
    assert more < most, name


async def test_what_clients_do_has_a_bound(record_property: Show) -> None:
    async with proxied([HOLD]) as (process, backend):
        for abuse in CLIENTS:
            await check_cost(process, abuse(process.port), abuse.__name__, record_property)
        assert await get_status(process.port, "/healthz") == 200
        assert backend.asked == []


async def test_what_backends_do_has_a_bound(record_property: Show) -> None:
    async with proxied(*BACKENDS.values()) as (process, _):
        for name in BACKENDS:
            most = MOST_FOR_A_WHOLE if name.startswith("a reply") else MOST_MEMORY
            await check_cost(process, _told(process.port), name, record_property, most)
        assert await get_status(process.port, "/healthz") == 200


async def _told(port: int) -> None:
    got = await post(port, PATHS["messages"], HEADERS, SAYS)
    assert b"error" in got.body
    assert not got.broken
