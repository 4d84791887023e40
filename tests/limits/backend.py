"""A backend of Chat and Messages that misbehaves as it is asked to, and keeps the books of what it has told.

A request is known by the id that the proxy gave it. What is written counts as told; whether the proxy could read it
before it gave up is what tests find out.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

import orjson

from tests.harness.http_wire import Head, body_pieces, read_head
from tests.limits import answers
from tests.limits.answers import Piece, Used
from tests.limits.asks import Ask, asked

HOST = "127.0.0.1"
PAUSE_S = 0.008  # between the pieces of a slow answer
_REASONS = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 500: "Internal Server Error"}


@dataclass
class Entry:
    """One request. `told`: all that was said of its usage, each time more; `whole`: an answer went out to its end."""

    ask: Ask
    stream: bool
    arrivals: list[float] = field(default_factory=list)
    told: list[Used] = field(default_factory=list)
    whole: bool = False


class Backend:
    """`ledger`: by request id. `most_open`, `most_streams`: at once, by tenant. `faults`: what no proxy should do."""

    def __init__(self) -> None:
        self.ledger: dict[str, Entry] = {}
        self.open: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.most_open: Counter[str] = Counter()
        self.most_streams: Counter[str] = Counter()
        self.faults: list[str] = []
        self.release = asyncio.Event()  # what is silent or stalls ends when this is set
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Backend":
        self._server = await asyncio.start_server(self._begin, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.release.set()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await read_head(reader)
                body = b"".join([piece async for piece in body_pieces(reader, head, to_end=False)])
                if not await self._take(head, body, reader, writer):
                    writer.transport.abort()
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the proxy is done with this connection
        finally:
            writer.close()
            await asyncio.sleep(0)  # in which the socket is closed

    async def _take(self, head: Head, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """False if the connection is to be dropped."""
        try:
            ask = asked(body)
        except ValueError as error:
            self.faults.append(str(error))
            return False
        wire = orjson.loads(body)
        stream = wire.get("stream") is True
        entry = self.ledger.setdefault(head.header("x-client-request-id"), Entry(ask, stream))
        entry.arrivals.append(time.monotonic())
        self._count(ask.tenant, 1, stream=stream)
        try:
            return await self._answer(entry, head.line.split(" ")[1], wire, _Wire(reader, writer, self.release))
        finally:
            self._count(ask.tenant, -1, stream=stream)

    def _count(self, tenant: str, step: int, *, stream: bool) -> None:
        self.open[tenant] += step
        self.most_open[tenant] = max(self.most_open[tenant], self.open[tenant])
        if stream:
            self.streams[tenant] += step
            self.most_streams[tenant] = max(self.most_streams[tenant], self.streams[tenant])

    async def _answer(self, entry: Entry, path: str, wire: dict[str, object], to: "_Wire") -> bool:
        ask = entry.ask
        protocol = "messages" if path == "/v1/messages" else "chat"
        if ask.conduct == "reset":
            return False
        if ask.conduct == "silent":
            await to.wait_for_end()
            return False
        if ask.conduct in ("400", "429", "500"):
            to.write_whole(int(ask.conduct), answers.refusal(ask, protocol))
            return True
        if entry.stream:
            wants_usage = (wire.get("stream_options") or {}) == {"include_usage": True}
            if protocol == "messages":
                return await self._stream(entry, answers.messages_stream(ask), to)
            return await self._stream(entry, answers.chat_stream(ask, wants_usage=wants_usage), to)
        if path == "/v1/embeddings":
            piece = answers.embeddings(ask)
        else:
            piece = answers.messages_whole(ask) if protocol == "messages" else answers.chat_whole(ask)
        return await self._whole(entry, piece, to)

    async def _whole(self, entry: Entry, piece: Piece, to: "_Wire") -> bool:
        conduct = entry.ask.conduct
        if conduct == "slow":
            await to.pause()
        if conduct in ("cut", "stalls"):
            to.write_whole(200, piece.data, without=20)
            if conduct == "stalls":
                await to.wait_for_end()
            return False
        _tell(entry, piece)
        to.write_whole(200, piece.data, without=1 if conduct == "late-cut" else 0)
        entry.whole = conduct != "late-cut"
        return entry.whole

    async def _stream(self, entry: Entry, pieces: list[Piece], to: "_Wire") -> bool:
        conduct = entry.ask.conduct
        to.begin_stream()
        if conduct == "late-cut":
            pieces = pieces[:-1]
        elif conduct in ("cut", "stalls"):
            pieces = pieces[: len(pieces) // 2]
        for number, piece in enumerate(pieces):
            if conduct == "slow":
                await to.pause()
            _tell(entry, piece)
            to.write_chunk(piece.data)
            if number == 1:
                await to.flush()
        if conduct == "stalls":
            await to.wait_for_end()
        if conduct in ("cut", "late-cut", "stalls"):
            await to.flush()
            return False
        to.end_stream()
        entry.whole = True
        return True


def _tell(entry: Entry, piece: Piece) -> None:
    if piece.used is not None:
        entry.told.append(piece.used)


class _Wire:
    """The connection that an answer goes out on. Once the proxy has closed it, writing raises ConnectionError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: asyncio.Event) -> None:
        self._reader, self._writer, self._release = reader, writer, release

    def write_whole(self, status: int, body: bytes, *, without: int = 0) -> None:
        """`without`: so many bytes at its end."""
        self._write(
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body[: len(body) - without]
        )

    def begin_stream(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    def write_chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self._write(b"0\r\n\r\n")

    async def flush(self) -> None:
        """Let the loop run, so that what was written leaves in a packet of its own."""
        await self._writer.drain()
        await asyncio.sleep(0)

    async def pause(self) -> None:
        await self._writer.drain()
        await asyncio.sleep(PAUSE_S)

    async def wait_for_end(self) -> None:
        """Until the proxy leaves, or the test is over."""
        left = asyncio.ensure_future(self._reader.read(1))
        over = asyncio.ensure_future(self._release.wait())
        try:
            await asyncio.wait({left, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (left, over):
                waiting.cancel()
            await asyncio.gather(left, over, return_exceptions=True)

    def _write(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError
        self._writer.write(data)
