"""A fresh process of the proxy: the time until it is ready, its memory at rest, and what an open stream takes."""

import asyncio
import time
from typing import cast

from tests.bench.content import Wire
from tests.bench.cost import cost_of
from tests.bench.figures import Start
from tests.bench.load import ReplyError, open_connections, request_bytes, send, verify
from tests.bench.targets import Target, Targets

AT_ONCE = 50  # streams that are being opened
WARMING = 32  # streams that come and go before memory is looked at
OPEN_TIMEOUT_S = 60
SETTLE_S = 0.1


class HeldStream(asyncio.Protocol):
    """A request whose reply begins and does not end."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.received = b""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.begun.done() and b"\r\n\r\n" in self.received and b"data: " in self.received:
            self.begun.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(ReplyError(f"a stream did not begin ({exc}), after {self.received[:2000]!r}"))


async def time_start(wire: Wire, targets: Targets, backend: str, streams: int) -> Start:
    began = time.perf_counter()
    with targets.another_proxy(backend) as target:
        ready_s = time.perf_counter() - began
        rest_kb = cost_of(target.pid).rss_kb
        await warm_up(wire, target)
        warm_kb = cost_of(target.pid).rss_kb
        held = await hold(request_bytes(wire, "held", target.port), target.port, streams)
        await asyncio.sleep(SETTLE_S)
        open_kb = cost_of(target.pid).rss_kb
        for stream in held:
            stream.transport.abort()
        await asyncio.sleep(SETTLE_S)
    return Start(f"{wire.name}>{backend}", ready_s, rest_kb, warm_kb, streams, open_kb)


async def warm_up(wire: Wire, target: Target) -> None:
    connections = await open_connections(target.port, WARMING)
    verify(wire, "first", await send(connections, request_bytes(wire, "first", target.port), WARMING))
    for connection in connections:
        connection.transport.abort()


async def hold(request: bytes, port: int, streams: int) -> list[HeldStream]:
    """So many streams that have begun and stay open."""
    loop = asyncio.get_running_loop()
    held: list[HeldStream] = []
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        while len(held) < streams:
            count = min(AT_ONCE, streams - len(held))
            opened = [loop.create_connection(lambda: HeldStream(request), "127.0.0.1", port) for _ in range(count)]
            new = [stream for _, stream in await asyncio.gather(*opened)]
            await asyncio.gather(*(stream.begun for stream in new))
            held += new
    return held
