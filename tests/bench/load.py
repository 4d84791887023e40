"""The load generator: one request body, sent N times over kept-alive connections, every reply checked.

Replies are kept as bytes while the clock runs and read afterwards, so that checking them takes no time
from the processes that are measured.
"""

import asyncio
import re
from collections import Counter
from dataclasses import replace

import orjson

from tests.bench.content import STREAMED, Conversation, Outcome, Phase, Wire, outcome_of
from tests.bench.conversations import conversation, reply

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
PHASE_TIMEOUT_S = 120


class ReplyError(Exception):
    """A reply that is not the one the backend's script means: no figure of this run can be trusted."""


def request_bytes(wire: Wire, phase: Phase, port: int, talk: Conversation | None = None) -> bytes:
    """The phase's request as the client's SDK would send it; of another conversation where `talk` is given."""
    talk = talk or conversation(phase)
    body = orjson.dumps(wire.write_request(talk))
    headers = {
        "host": f"127.0.0.1:{port}",
        "accept": "text/event-stream" if talk.stream else "application/json",
        "user-agent": "bench",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **wire.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {wire.path} HTTP/1.1\r\n{head}\r\n".encode() + body


class Load:
    """`count` requests over open connections, each connection sending its next as soon as its reply has ended."""

    def __init__(self, request: bytes, count: int) -> None:
        self.request = request
        self.unsent = count
        self.missing = count
        self.replies: Counter[bytes] = Counter()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ended(self, connection: "Connection", reply_bytes: bytes) -> None:
        self.replies[reply_bytes] += 1
        self.missing -= 1
        if self.missing == 0 and not self.finished.done():
            self.finished.set_result(None)
        self.send_next(connection)

    def send_next(self, connection: "Connection") -> None:
        if self.unsent > 0:
            self.unsent -= 1
            connection.transport.write(self.request)

    def broke(self, reason: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(ReplyError(reason))


class Connection(asyncio.Protocol):
    load: Load
    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.head_size = 0
        self.whole_size = 0  # 0 while unknown or chunked

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.broke(f"connection closed within a phase ({exc}), after {bytes(self.received[:300])!r}")

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.head_size and not self.read_head():
            return
        # A chunked body cannot hold CR, so its last chunk is found without decoding the others.
        if len(self.received) == self.whole_size or (not self.whole_size and self.received.endswith(b"\r\n0\r\n\r\n")):
            whole = bytes(self.received)
            self.received.clear()
            self.head_size = self.whole_size = 0
            self.load.ended(self, whole)

    def read_head(self) -> bool:
        end = self.received.find(b"\r\n\r\n") + 4
        if end < 4:
            return False
        head = bytes(self.received[:end])
        length = CONTENT_LENGTH.search(head)
        self.head_size = end
        self.whole_size = end + int(length[1]) if length else 0
        if not head.startswith(b"HTTP/1.1 200 ") or not (length or CHUNKED.search(head)):
            self.load.broke(bytes(self.received[:2000]).decode(errors="replace"))
        return True


async def open_connections(port: int, count: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(count):
        transport, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        connection.transport = transport
        connections.append(connection)
    return connections


async def send(connections: list[Connection], request: bytes, count: int) -> Counter[bytes]:
    """Send `count` requests and return the distinct replies, heads included, by how often each came."""
    load = Load(request, count)
    for connection in connections:
        connection.load = load
        load.send_next(connection)
    async with asyncio.timeout(PHASE_TIMEOUT_S):
        await load.finished
    return load.replies


def verify(wire: Wire, phase: Phase, replies: Counter[bytes], *, loosely: bool = False) -> None:
    """Raise ReplyError unless every reply says, whole and to its end, what the script says.

    `loosely`: only the text and the calls, for a peer that has ways of its own with what surrounds them.
    """
    streamed = phase in STREAMED
    expected = outcome_of(reply(phase), streamed=streamed)
    for whole in replies:
        try:
            found = read(wire, whole, streamed=streamed)
        except (ValueError, LookupError, TypeError) as unreadable:
            raise ReplyError(f"{wire.name} {phase}: {unreadable!r} in {whole[:3000]!r}") from unreadable
        if found != (replace(expected, deltas=found.deltas, ended=found.ended) if loosely else expected):
            raise ReplyError(f"{wire.name} {phase}: the reply has {found}, not {expected}")


def read(wire: Wire, whole: bytes, *, streamed: bool) -> Outcome:
    content = body_of(whole)
    return read_stream(wire, content) if streamed else wire.read_reply(orjson.loads(content))


def body_of(whole: bytes) -> bytes:
    head, _, body = whole.partition(b"\r\n\r\n")
    return dechunk(body) if CHUNKED.search(head + b"\r\n") else body


def read_stream(wire: Wire, content: bytes) -> Outcome:
    *events, rest = content.split(b"\n\n")
    if rest:
        raise ValueError(f"the stream ends within an event: {rest!r}")
    return wire.read_stream([event for event in events if not event.startswith(b":")])


def dechunk(body: bytes) -> bytes:
    pieces, at = [], 0
    while True:
        line_end = body.index(b"\r\n", at)
        size = int(body[at:line_end], 16)
        at = line_end + 2 + size + 2
        if body[at - 2 : at] != b"\r\n":
            raise ValueError("a chunk is not as long as it says")
        if size == 0:
            break
        pieces.append(body[line_end + 2 : at - 2])
    if at != len(body):
        raise ValueError("bytes follow the last chunk")
    return b"".join(pieces)
