"""A whole reply that leaves in one write.

aiohttp's Response makes a dictionary of headers, looks a dozen times into it and serialises it; that is a tenth of a
small request. Here the head is known, so it is one text.
"""

from http import HTTPStatus

from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion10
from aiohttp.web import BaseRequest, StreamResponse

from proxy.server.reply_headers import Header
from proxy.upstream.heads import write_head

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Reply(StreamResponse):
    """`fields`: all headers but those that tell of the connection and the body's length."""

    def __init__(self, status: int, fields: list[Header], body: bytes) -> None:
        super().__init__(status=status)
        self._fields = fields
        self._whole = body
        self._asked: BaseRequest | None = None
        self._sent = False

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter:
        """Nothing is sent yet: the head leaves with the body."""
        self._asked = request
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the reply, once. Raises ConnectionError for a client that has left."""
        request, self._asked = self._asked, None
        if request is None or self._sent:
            return
        self._sent = True
        writer, body = request.writer, b"" if request.method == "HEAD" else self._whole + data
        await writer.write(self._head(request) + body)
        await writer.drain()

    def _head(self, request: BaseRequest) -> bytes:
        fields = [*self._fields, ("Content-Length", str(len(self._whole))), ("Date", rfc822_formatted_time())]
        old = request.version <= HttpVersion10
        if old and self._keep_alive:
            fields.append(("Connection", "keep-alive"))
        elif not old and not self._keep_alive:
            fields.append(("Connection", "close"))
        version, status = "1.0" if old else "1.1", self.status
        return write_head(f"HTTP/{version} {status} {_PHRASES.get(status, '')}", fields)
