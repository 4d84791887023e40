"""How much later a stream's first byte comes when the proxy stands between: one client, asking both in turns."""

import asyncio
import time

from tests.bench.content import Wire
from tests.bench.figures import FirstBytes
from tests.bench.load import Connection, request_bytes, send, verify
from tests.bench.targets import Target, Targets


class TimedConnection(Connection):
    """`first_at`: when the first byte of the reply's body came."""

    first_at = 0.0

    def data_received(self, data: bytes) -> None:
        now, size = time.perf_counter(), len(self.received) + len(data)
        super().data_received(data)
        if not self.first_at and (not self.received or size > self.head_size > 0):
            self.first_at = now


async def time_first_bytes(wire: Wire, targets: Targets, backend: str, count: int) -> FirstBytes:
    """Of `count` streams from a backend that speaks the client's protocol, and of as many through the proxy."""
    direct, proxied = await connected(targets.backends[wire.name]), await connected(targets.proxies[backend])
    waits = FirstBytes([], [])
    try:
        for number in range(-5, count):
            for connection, kept in ((direct, waits.direct_ms), (proxied, waits.proxied_ms)):
                waited = await time_one(wire, connection)
                if number >= 0:  # those before warm the connections
                    kept.append(waited)
    finally:
        direct.transport.abort()
        proxied.transport.abort()
    return waits


async def time_one(wire: Wire, connection: TimedConnection) -> float:
    request = request_bytes(wire, "first", connection.transport.get_extra_info("peername")[1])
    connection.first_at = 0.0
    asked_at = time.perf_counter()
    verify(wire, "first", await send([connection], request, 1))
    return (connection.first_at - asked_at) * 1000


async def connected(target: Target) -> TimedConnection:
    transport, connection = await asyncio.get_running_loop().create_connection(
        TimedConnection, "127.0.0.1", target.port
    )
    connection.transport = transport
    return connection
