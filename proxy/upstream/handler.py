"""aiohttp's handler of a connection to a backend, made fit for streams.

It parses heads and bodies of a known length as before. Bodies in chunks are taken out of theirs by `chunks.py`, and
reading goes on only where it had been paused: aiohttp asks its parser for more after each piece that is read.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from proxy.upstream.chunks import BrokenFraming, Chunks

_BLANK_LINE = b"\r\n\r\n"
_UPGRADED = 101


class Handler(ResponseHandler):
    """One for each connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._in_head = False  # the head of the answer is still to come, or not whole yet
        self._end_of_head = b""  # its last bytes, in which the blank line may have begun
        self._chunks: Chunks | None = None
        self._body: StreamReader = EMPTY_PAYLOAD  # of the answer that comes in chunks

    def set_response_params(self, **params: Any) -> None:
        """An answer is waited for."""
        self._in_head = True
        self._end_of_head = b""
        self._chunks = None
        super().set_response_params(**params)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Room has been made for more."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def data_received(self, data: bytes) -> None:
        """What the backend sent."""
        while self._in_head and data:
            end = (self._end_of_head + data).find(_BLANK_LINE)
            if end < 0:
                self._end_of_head = (self._end_of_head + data)[-3:]
                break
            cut = end + len(_BLANK_LINE) - len(self._end_of_head)
            self._end_of_head = b""
            super().data_received(data[:cut])
            data = data[cut:]
            self._look_at_head()
            if not data:
                return
        if self._chunks is None:
            super().data_received(data)
        elif data:
            self._take(self._chunks, data)

    def _look_at_head(self) -> None:
        """Whether the head that has just come is that of the answer, and its body in chunks."""
        if not self._buffer:
            return  # it was no HTTP, or no head
        (message, body), _ = self._buffer[-1]
        self._in_head = message.code < 200 and message.code != _UPGRADED
        if not self._in_head and message.chunked and body is not EMPTY_PAYLOAD and not self._upgraded:
            self._chunks = Chunks()
            self._body = body

    def _take(self, chunks: Chunks, data: bytes) -> None:
        if chunks.ended or self._body.is_eof():
            self._tail += data  # nobody asked for it: the connection will not be used again
            return
        try:
            plain = chunks.feed(data)
        except BrokenFraming as error:
            self.force_close()
            self._body.set_exception(error)
            if self.transport is not None:
                self.transport.close()
            return
        if plain:
            self._body.feed_data(plain)
        if chunks.ended:
            self._parser = None  # it has seen the head alone
            self._tail = chunks.rest
            self._body.feed_eof()


class Connector(aiohttp.TCPConnector):
    """One whose connections are handled so."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        handler: Callable[..., ResponseHandler] = Handler
        self._factory = partial(handler, loop=self._loop)
