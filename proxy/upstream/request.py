"""One request on a connection of aiohttp's, and the head of its answer.

aiohttp's connector finds, makes and keeps connections, and its parser reads answers; its ClientSession stays out of the
way, which for each request makes a task, and objects for cookies, redirects and tracing: half of what a small request
costs. Only what fits into the socket's buffers goes this way, so there is nothing to wait for between request and
answer.
"""

import asyncio

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxy.upstream.backend import Backend
from proxy.upstream.heads import write_head

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
_UPGRADED = 101


class Destination(aiohttp.ClientRequest):
    """Whom the connector connects to: the origin of `url`, in the way that the backend wants it."""

    def __init__(self, backend: Backend, url: URL) -> None:
        super().__init__("POST", url, ssl=backend.tls, loop=asyncio.get_running_loop())
        self._key = super().connection_key

    @property
    def connection_key(self) -> ConnectionKey:
        """What tells connections apart; aiohttp would make it anew each time it is asked."""
        return self._key


class Response:
    """The head of an answer, and its body as it comes. When that has come, its connection is free again."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(self, connection: Connection, message: RawResponseMessage, content: StreamReader) -> None:
        self._connection = connection
        self.status = message.code
        self.headers: CIMultiDictProxy[str] = message.headers
        self.content = content
        content.on_eof(connection.release)

    def release(self) -> None:
        """Free the connection; it is closed if the answer is not at its end."""
        self._connection.release()

    def close(self) -> None:
        """Close the connection, unless it is free already."""
        self._connection.close()


async def send(
    connector: aiohttp.TCPConnector,
    backend: Backend,
    method: str,
    url: URL,
    headers: CIMultiDict[str],
    body: bytes | None,
) -> Response:
    """Raises what ClientSession raises: `aiohttp.ClientError` and OSError. Cancelling closes the connection."""
    head = _head(method, url, headers, body)
    try:
        connection = await connector.connect(_destination(backend, url), [], backend.timeout)
    except TimeoutError as error:
        raise aiohttp.ConnectionTimeoutError from error
    try:
        return await _exchange(connection, method, head + body if body else head)
    except BaseException:
        connection.close()
        raise


async def _exchange(connection: Connection, method: str, request: bytes) -> Response:
    protocol = connection.protocol
    if protocol is None or (transport := protocol.transport) is None:
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=False)
    transport.write(request)
    while True:
        try:
            message, content = await protocol.read()
        except HttpProcessingError as error:
            raise aiohttp.ClientPayloadError from error
        if message.code >= 200 or message.code == _UPGRADED:
            return Response(connection, message, content)


def _destination(backend: Backend, url: URL) -> aiohttp.ClientRequest:
    """All addresses of a backend are of one origin."""
    found = backend.destination
    if found is None:
        found = backend.destination = Destination(backend, url)
    return found


def _head(method: str, url: URL, headers: CIMultiDict[str], body: bytes | None) -> bytes:
    fields = [("Host", url.host_port_subcomponent or ""), *headers.items()]
    if body is not None or method not in _BODILESS:
        fields.append(("Content-Length", str(len(body or b""))))
    return write_head(f"{method} {url.raw_path_qs} HTTP/1.1", fields)
