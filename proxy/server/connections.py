"""Connections of clients: how many there may be, how a request has to begin, and what is said to what is no HTTP.

What is refused here costs little: no task waits for it and no exchange is made.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web import BaseRequest, StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.server.app import speaks
from proxy.server.exchange import JSON, SERVER, Exchange
from proxy.server.load import overloaded
from proxy.server.runtime import Runtime
from proxy.server.telling import tell
from proxy.translation import pair

# Longer than load balancers keep theirs, commonly 60 s (operations.md 6.3).
_KEPT = 75.0
MAX_HEAD = 64 * 1024  # bytes of a request before its body; a line may have 8190, and there may be 128 headers

log = logging.getLogger("dragoman")


class Connection(web.RequestHandler):
    """aiohttp's connection handler, with errors in a shape that clients read instead of plain text."""

    __slots__ = ("_head", "_head_due", "_runtime", "_server")

    def __init__(self, runtime: Runtime, server: "Server") -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=_KEPT,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
        )
        self._runtime = runtime
        self._server = server
        self._head = 0  # bytes of one that has begun
        self._head_due: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether no request is being answered, nor has come in full."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of the interface of protocols."""
        super().connection_made(transport)
        settings = self._runtime.gateway.settings
        if not self._server.make_room(self, settings.capacity.max_connections):
            self._turn_away("full", overloaded("connections"))
            return
        self._head_due = self._loop.call_later(settings.timeouts.head_read, self._first_head_is_due)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Part of the interface of protocols."""
        if self._head_due is not None:
            self._head_due.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of the interface of protocols."""
        super().data_received(data)
        if not self.waits:
            self._head = 0
            return
        self._head += len(data)
        if self._head > MAX_HEAD:
            message = f"The request's head is larger than {MAX_HEAD} bytes."
            self._turn_away("large_head", Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))

    def _first_head_is_due(self) -> None:
        self._head_due = None
        if self.waits and not self._request_count:
            self._runtime.metrics.traffic.turned_away.add("slow_head")
            self.force_close()

    def _turn_away(self, why: str, error: Error) -> None:
        """Say so, in the shape that most clients read, and close."""
        self._runtime.metrics.traffic.turned_away.add(why)
        if self.transport is not None:
            self.transport.write(_reply(error))
        self.force_close()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  it quotes the bytes that came
    ) -> StreamResponse:
        """A request that is no HTTP, or a reply that can't be completed."""
        if status >= 500:
            if not isinstance(exc, ConnectionError):
                log.error("A connection failed", exc_info=exc)
            raise ConnectionError("The reply can't be completed")
        exchange = Exchange(self._runtime.gateway, request, speaks(request), "unmatched")
        said = "has a line that is too long" if isinstance(exc, LineTooLong) else "is not valid HTTP"
        error = Error(ErrorClass.INVALID, f"The request {said}.", reason=Reason.MALFORMED)
        response = exchange.refuse(error)
        response.force_close()
        tell(exchange)
        return response


def _reply(error: Error) -> bytes:
    status, body = pair.write_client_error("chat", error, "")
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
        f"Server: {SERVER}",
        f"dragoman-reason: {error.reason}",
        *([f"Retry-After: {error.retry_after:.0f}"] if error.retry_after else []),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Server(web.Server):
    """A listener's connections, each with our handler. A client that leaves cancels its request."""

    def __init__(self, runtime: Runtime, handle: Callable[[BaseRequest], Awaitable[StreamResponse]]) -> None:
        super().__init__(handle, handler_cancellation=True)
        self._runtime = runtime

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        return Connection(self._runtime, self)

    def make_room(self, newcomer: Connection, most: int) -> bool:
        """Whether there may be one more, which there is already. The oldest that waits for a request gives way."""
        if len(self._connections) <= most:
            return True
        for each in self._connections:
            if isinstance(each, Connection) and each is not newcomer and each.waits:
                each.force_close()
                return True
        return False
