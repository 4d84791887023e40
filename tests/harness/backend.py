"""A backend that answers as a case says and keeps what it was asked.

It writes HTTP byte by byte, since cases need what server libraries hide: the borders between writes, bodies
that end too early, ports where nobody listens.
"""

import asyncio
import contextlib
import socket
import time

from tests.harness.http_wire import body_pieces, read_head
from tests.harness.scripted_reply import Request, ScriptedReply, json_reply, script_reply
from tests.harness.wire import ENDPOINTS, Json, Protocol

HOST = "127.0.0.1"
MODELS = {
    "object": "list",
    "data": [{"id": "demo-model", "object": "model", "created": 1790000000, "owned_by": "demo"}],
}
NOT_FOUND = {"type": "error", "error": {"type": "not_found_error", "message": "There is no such endpoint."}}


class ProxyLeft(Exception):
    """The proxy closed the connection while it was being answered."""


class ScriptedBackend:
    """`requests`: those of this turn for the protocol's own endpoint. `faults`: what kept a reply from being made."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.port = 0
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self._replies: list[Json] = []
        self._template_deltas: Json = None
        self._server: asyncio.Server | None = None
        self._kept_port: socket.socket | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def listen(self) -> None:
        if self._kept_port:
            self._kept_port.close()
            self._kept_port = None
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Connections are refused from now on, while the port stays taken so that nobody else gets it."""
        self.close()
        self._kept_port = socket.socket()
        self._kept_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept_port.bind((HOST, self.port))

    def close(self) -> None:
        for connection in self._connections:
            connection.transport.abort()
        if self._server:
            self._server.close()
            self._server = None
        if self._kept_port:
            self._kept_port.close()
            self._kept_port = None

    async def play(self, turn: Json) -> None:
        """Takes over the script of a turn and forgets the turn before."""
        self._replies = [turn[name] for name in ("upstream_reply", "upstream_reply_next") if name in turn]
        self._template_deltas = turn.get("template_deltas")
        self.requests, self.faults = [], []
        self._idle.set()
        if "connect_error" in self._replies[0]:
            self.refuse()
        else:
            await self.listen()

    async def settled(self) -> None:
        """Returns once no reply is under way."""
        await self._idle.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            kept = True
            while kept:
                head = await read_head(reader)
                body = b"".join([piece async for piece in body_pieces(reader, head, to_end=False)])
                kept = await self._answer(Request(head, body), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ProxyLeft):
            pass  # the proxy is done with this connection
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """False if the connection is to be dropped."""
        reply = self._reply_to(request)
        self._idle.clear()
        left = asyncio.ensure_future(reader.read(1))
        try:
            await _send(reply, writer, left)
        except ProxyLeft:
            request.closed_at = time.monotonic()
            raise
        finally:
            self._idle.set()
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await left
        return not reply.cut

    def _reply_to(self, request: Request) -> ScriptedReply:
        path = "/v1" + request.path.partition("?")[0].removeprefix("/v1")
        if request.method == "GET" and path == "/v1/models":
            return json_reply(200, MODELS)
        if request.method != "POST" or path != ENDPOINTS[self.protocol]:
            return json_reply(404, NOT_FOUND)
        self.requests.append(request)
        wanted = self._replies[min(len(self.requests), len(self._replies)) - 1]
        if "none" in wanted:
            return json_reply(404, NOT_FOUND)
        reply = script_reply(wanted, request, self._template_deltas)
        self.faults += [f"the reply takes {path} from the request, which is not there" for path in reply.missing]
        return reply


async def _send(reply: ScriptedReply, writer: asyncio.StreamWriter, left: asyncio.Future[bytes]) -> None:
    """Raises ProxyLeft as soon as the proxy closes the connection."""
    headers = dict(reply.headers)
    if reply.whole:
        headers["content-length"] = str(sum(map(len, reply.writes)))
    else:
        headers["transfer-encoding"] = "chunked"
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    for number, data in enumerate(reply.writes):
        if number:
            await asyncio.wait({left}, timeout=reply.pause_s)
        if left.done():
            raise ProxyLeft
        if data:
            writer.write(data if reply.whole else b"%x\r\n%s\r\n" % (len(data), data))
    if not reply.whole and not reply.cut:
        writer.write(b"0\r\n\r\n")
