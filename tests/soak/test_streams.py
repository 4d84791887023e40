"""A thousand streams that are open at once on one process: each has a price in memory, and gives it back."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import cycle, product

from proxy.server.lifecycle import allow_files
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.serving import PATHS, REQUESTS, begins
from tests.soak.figures import WATCHED, Watched
from tests.upstream.scripted import HOLD, Scripted

Show = Callable[[str, object], None]

STREAMS = 1000
WARM = 100
MOST = 40 * 1024  # bytes a stream
_BEGUN = 4  # events, of which one says something in each protocol
_AT_ONCE = 50
_BACK = 8  # tasks more than before, of what has its own rhythm


async def _opened(port: int, client: str, backend: Protocol) -> asyncio.StreamWriter:
    """A stream whose first bytes have come."""
    body = json.dumps({**REQUESTS[client], "model": backend, "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    await reader.readuntil(b"\n\n")
    return writer


@asynccontextmanager
async def _streams(port: int, count: int) -> AsyncIterator[None]:
    """So many, of all pairs of protocols."""
    pairs = [pair for _, pair in zip(range(count), cycle(product(PATHS, PROTOCOLS)), strict=False)]
    opened: list[asyncio.StreamWriter] = []
    for start in range(0, count, _AT_ONCE):
        some = pairs[start : start + _AT_ONCE]
        opened += await asyncio.gather(*(_opened(port, client, backend) for client, backend in some))
    try:
        yield
    finally:
        for writer in opened:
            writer.close()


async def _idle(process: Watched, tasks: int) -> None:
    async with asyncio.timeout(20):
        while (await process.figures()).tasks > tasks + _BACK:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[int, Watched]]:
    async with (
        Scripted([*begins("chat", _BEGUN), HOLD]) as chat,
        Scripted([*begins("responses", _BEGUN), HOLD]) as responses,
        Scripted([*begins("messages", _BEGUN), HOLD]) as messages,
    ):
        places = dict(zip(PROTOCOLS, (chat, responses, messages), strict=True))
        upstreams = [
            {"name": name, "protocol": name, "base_url": place.base_url, "api_key": "k"}
            for name, place in places.items()
        ]
        models = [{"match": name, "upstream": name} for name in places]
        proxy = ProxyProcess("chat", "", command=WATCHED, more={"upstreams": upstreams, "models": models})
        await proxy.start()
        try:
            yield proxy.port, Watched(proxy)
        finally:
            await proxy.stop()


async def test_a_thousand_streams_take_little_each(record_property: Show) -> None:
    allow_files(4 * STREAMS)
    async with _serving() as (port, process):
        before = await process.figures()
        async with _streams(port, WARM):
            pass
        await _idle(process, before.tasks)
        least = process.memory()
        async with _streams(port, STREAMS):
            now = await process.figures()
        each = (now.memory - least) / STREAMS
        shown = f"{STREAMS} streams: {each / 1024:.1f} KiB and {(now.tasks - before.tasks) / STREAMS:.1f} tasks each"
        record_property("shown", shown)
        assert each < MOST
        assert now.files - before.files >= STREAMS
        await _idle(process, before.tasks)
        after = await process.figures()
    assert after.files <= before.files + _BACK
