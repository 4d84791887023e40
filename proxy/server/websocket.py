"""Responses over one connection (responses.md 16): each `response.create` is an exchange of its own, told in frames.

Lanes are answered beside each other, what is in one lane one after the other. The newest response of a lane can be
continued even where nothing is kept of it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web
from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, invalid, is_object, text
from proxy.server.admission import Admission
from proxy.server.exchange import JSON, Exchange
from proxy.server.reply import Reply
from proxy.server.telling import tell
from proxy.translation import pair
from proxy.translation.kept_turns import events_of

Generate = Callable[[Exchange, bytes], Awaitable[StreamResponse]]

LIFETIME = 3600.0  # seconds (responses.md 16.3)
MOST_ACTIVE = 16
MOST_LANES = 32
_MOST_WAITING = 64  # requests that have not been begun
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_HEARTBEAT = 30.0
_CLOSE_WITHIN = 5.0


def wants_websocket(request: BaseRequest) -> bool:
    """Whether the client wants to change over."""
    headers = request.headers
    return headers.get("Upgrade", "").lower() == "websocket" and "Sec-WebSocket-Key" in headers


async def converse(exchange: Exchange, generate: Generate) -> StreamResponse:
    """Serve the connection until its client leaves. `generate` answers one request. Raises `Rejected`."""
    _check_origin(exchange.request)
    socket = web.WebSocketResponse(
        heartbeat=_HEARTBEAT, timeout=_CLOSE_WITHIN, max_msg_size=exchange.body_limit, compress=False
    )
    await socket.prepare(exchange.request)
    exchange.status = 101
    connection = _Connection(exchange, socket, generate)
    try:
        async with asyncio.timeout(LIFETIME):
            await connection.serve()
    except TimeoutError:
        await connection.refuse(
            _limit("websocket_connection_limit_reached", "This connection is 60 minutes old."), None
        )
    finally:
        if socket.close_code is not None:  # its client has said so, and need not wait until we have ended
            exchange.outcome = "ok"
        await connection.end()
    exchange.outcome = "ok"
    await socket.close()
    return socket


def _check_origin(request: BaseRequest) -> None:
    """Browsers let any page open a WebSocket anywhere, so a page of another site must not reach a proxy on loopback."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        message = "A page of another site may not open a WebSocket here."
        raise Rejected(Error(ErrorClass.PERMISSION, message, reason=Reason.ENDPOINT_DENIED))


class _Lane:
    """Requests that are answered one after the other. `newest`: the last response, by its id, for who continues it."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self.newest: dict[str, bytes] = {}
        self.task: asyncio.Task[None] | None = None


class _Connection:
    def __init__(self, exchange: Exchange, socket: web.WebSocketResponse, generate: Generate) -> None:
        self._exchange = exchange
        self._socket = socket
        self._generate = generate
        self._lanes: dict[str | None, _Lane] = {}
        self._active = asyncio.Semaphore(MOST_ACTIVE)

    async def serve(self) -> None:
        """Take what the client sends."""
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                await self.refuse(_malformed("A frame must be a text with one JSON object."), None)
                continue
            lane: str | None = None
            try:
                wire = _read(message.data)
                lane = _lane_of(wire)
                await self._take(wire, lane)
            except Rejected as rejected:
                await self.refuse(rejected.error, lane)

    async def _take(self, wire: Wire, name: str | None) -> None:
        match text(wire, "type", ()):
            case "response.create":
                pass
            case "response.steer":
                await self._refuse_steering(wire)
                return
            case other:
                shown = (other or "")[:64]
                invalid(("type",), f"'{shown}' is not one of 'response.create', 'response.steer'.", "invalid_value")
        for field in ("background", "multi_agent"):
            if wire.get(field):
                invalid((field,), "is not supported over a WebSocket.", "unsupported_parameter")
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) > MOST_LANES:
                message = f"A connection has at most {MOST_LANES} lanes."
                raise Rejected(_limit("websocket_stream_limit_reached", message))
            lane = self._lanes[name] = _Lane()
        rest = {key: value for key, value in wire.items() if key not in ("type", "stream_id")}
        if rest.get("generate") is not False:
            rest.pop("generate", None)
        try:
            lane.waiting.put_nowait(dumps({**rest, "stream": True}))
        except asyncio.QueueFull:
            message = f"A lane holds at most {_MOST_WAITING} requests that have not been begun."
            raise Rejected(_limit("websocket_stream_limit_reached", message)) from None
        if lane.task is None or lane.task.done():
            lane.task = asyncio.create_task(self._answer_all(lane, name))

    async def _refuse_steering(self, wire: Wire) -> None:
        steer = {"previous_response_id": wire.get("previous_response_id"), "input": wire.get("input")}
        error = {
            "type": "invalid_request_error",
            "code": "steering_not_supported",
            "message": "The backends of this proxy can't be steered while they answer.",
        }
        await self.send({"type": "response.steer.failed", "steer": steer, "error": error, "sequence_number": 0}, None)

    async def _answer_all(self, lane: _Lane, name: str | None) -> None:
        while not lane.waiting.empty():
            raw = lane.waiting.get_nowait()
            async with self._active:
                await self._answer(lane, name, raw)

    async def _answer(self, lane: _Lane, name: str | None, raw: bytes) -> None:
        exchange = _FramedExchange(self, self._exchange, lane.newest, name)
        runtime = exchange.gateway.runtime
        runtime.open.add(exchange)
        try:
            with Admission(exchange):
                exchange.bytes_in = len(raw)
                await self._generate(exchange, raw)
        except Rejected as rejected:
            exchange.refused_losses = rejected.losses
            exchange.note_error(rejected.error)
            await self.refuse(rejected.error, name)
        except asyncio.CancelledError:
            if (error := exchange.watch.overdue()) is None:
                exchange.outcome = "cancelled"
                raise
            exchange.note_error(error)
            await self.refuse(error, name)
        except ConnectionError:
            exchange.outcome = "cancelled"
        finally:
            exchange.watch.stop()
            runtime.open.discard(exchange)
            tell(exchange)

    async def refuse(self, error: Error, lane: str | None) -> None:
        """Tell an error that belongs to no response."""
        status, body = pair.write_client_error("responses", self._exchange.hide(error), self._exchange.id)
        wire = loads(body)
        told = wire.get("error") if is_object(wire) else None
        await self.send({"type": "error", "status": status, "error": told}, lane)

    async def send(self, event: Wire, lane: str | None) -> None:
        """One frame. Raises ConnectionError when the client has left."""
        if lane is not None:
            event = {**event, "stream_id": lane}
        await self._socket.send_str(dumps(event).decode())

    async def end(self) -> None:
        """Let go of all that is not yet answered."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _FramedExchange(Exchange):
    """The exchange of one request; what its client reads goes into frames."""

    __slots__ = ("_connection", "_lane")

    def __init__(self, connection: _Connection, outer: Exchange, newest: dict[str, bytes], lane: str | None) -> None:
        super().__init__(outer.gateway.runtime.gateway, outer.request, "responses", outer.route, outer.endpoint)
        self._connection = connection
        self._lane = lane
        self.memory = newest
        self.caller, self.key_id, self.client_ip = outer.caller, outer.key_id, outer.client_ip
        self.body_limit = outer.body_limit
        self.admitted = outer.admitted

    async def _begin(self, status: int, headers: CIMultiDict[str]) -> StreamResponse:  # noqa: ARG002  frames have none
        self.status = status
        return _Frames(self._connection, self._lane)

    def respond(self, status: int, body: bytes, content_type: str = JSON) -> Reply:  # noqa: ARG002
        """A whole reply, which a stream can't be."""
        raise Rejected(_malformed("This request has no answer that could be told in events."))

    def refuse_as_told(self, error: Error, status: int, body: bytes) -> Reply:  # noqa: ARG002
        """The backend's refusal."""
        raise Rejected(error)


class _Frames(StreamResponse):
    def __init__(self, connection: _Connection, lane: str | None) -> None:
        super().__init__()
        self._connection = connection
        self._lane = lane

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """One frame for each event. Comments and end marks are for event streams alone."""
        for event in events_of(bytes(data)):
            wire = _object(event.partition(b"data:")[2])
            if wire is not None:
                await self._connection.send(wire, self._lane)

    async def write_eof(self, data: bytes = b"") -> None:
        """The last events."""
        if data:
            await self.write(data)


def _read(frame: str) -> Wire:
    try:
        wire = loads(frame)
    except (NotJson, RecursionError) as error:
        raise Rejected(_malformed(f"The frame is not valid JSON: {error}")) from error
    if not is_object(wire):
        raise Rejected(_malformed("A frame must hold a JSON object."))
    return wire


def _lane_of(wire: Wire) -> str | None:
    lane = text(wire, "stream_id", ())
    if lane is not None and not _LANE.fullmatch(lane):
        invalid(("stream_id",), "expected 1 to 256 of A-Z, a-z, 0-9, '_', '.' and '-'.", "invalid_stream_id")
    return lane


def _malformed(message: str) -> Error:
    return Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED)


def _limit(code: str, message: str) -> Error:
    return Error(ErrorClass.INVALID, message, code=code, reason=Reason.MALFORMED)


def _object(data: bytes) -> Wire | None:
    try:
        wire = loads(data.strip())
    except NotJson:
        return None
    return wire if is_object(wire) else None
