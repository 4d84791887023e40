"""The one door to backends: `start` sends a request and gives the answer's status, headers and a reader.

One connection pool serves the process. All that may go wrong on the wire leaves here as `Rejected`, so that nobody
above needs to know which HTTP client is used; time limits are the caller's, who cancels.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from time import perf_counter
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.upstream.attempt import Attempt
from proxy.upstream.backend import Backend
from proxy.upstream.chunks import BrokenFraming
from proxy.upstream.connector import AgeingConnector
from proxy.upstream.decoding import BrokenEncoding, Decoder, UnknownEncoding, decoder_for
from proxy.upstream.repeatable import leaves_traces
from proxy.upstream.request import Response, send

MAX_WHOLE = 256 * 2**20  # bytes of an answer that must be held whole
_SLICE = 256 * 1024  # bytes of a request that are handed to the socket at once
_LINGER = 2.0  # seconds that an answered stream's connection may take to come to its end

Body = bytes | AsyncIterator[bytes] | None
_Response = Response | aiohttp.ClientResponse  # the second of what is sent while it is answered


class Pool:
    """Use it inside a running loop, and `close()` it there."""

    def __init__(self) -> None:
        self._kept = AgeingConnector(kept=True)
        self._session = _session(self._kept)
        # For another try: of the connections that are kept, more may have broken with the one that did.
        self._new = AgeingConnector(kept=False)
        self._fresh = _session(self._new)
        self._lingering: set[asyncio.Task[None]] = set()

    async def start(
        self,
        backend: Backend,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        method: str = "POST",
        attempt: Attempt | None = None,
    ) -> "Answer":
        """Ask, and wait for the head of the answer. Redirects are not followed. `attempt` is told how it goes.

        A connection that breaks before any byte of the answer is tried once more. Raises `Rejected` (UNREACHABLE,
        BAD_GATEWAY).
        """
        slots, attempt = backend.slots, attempt or Attempt(backend.name)
        if slots is not None:
            await slots.acquire()
            attempt.queued = perf_counter() - attempt.started
        answered = False
        try:
            try:
                response = await self._request(backend, url, headers, body, method)
            except _BROKEN as error:
                attempt.slow_connect = isinstance(error, aiohttp.ConnectionTimeoutError)
                attempt.unsent = isinstance(error, _UNSENT)
                if not (_may_repeat(error, body) and attempt.may_repeat()):
                    raise _unreachable(backend, error) from error.with_traceback(None)
                attempt.repeated = True
                response = await self._request_again(backend, url, headers, body, method, attempt)
            answered = True
            attempt.code = response.status
        except _BAD_HTTP as error:
            raise _bad_answer(_NOT_HTTP) from error
        finally:
            if not answered:
                attempt.end()
                if slots is not None:
                    slots.release()
        return Answer(self, response, _decoder_of(response, slots), slots, attempt)

    def _request(
        self,
        backend: Backend,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        method: str,
        *,
        fresh: bool = False,
    ) -> Awaitable[_Response]:
        # Through a proxy the request itself is another one.
        if backend.proxy is None and (body is None or (isinstance(body, bytes) and len(body) <= _SLICE)):
            return send(self._new if fresh else self._kept, backend, method, url, headers, body)
        session = self._fresh if fresh else self._session
        return session.request(
            method,
            url,
            data=_LargeBody(body) if isinstance(body, bytes) else body,
            headers=headers,
            allow_redirects=False,
            timeout=backend.timeout,
            ssl=backend.tls,
            proxy=backend.proxy,
        )

    async def _request_again(
        self, backend: Backend, url: URL, headers: CIMultiDict[str], body: Body, method: str, attempt: Attempt
    ) -> _Response:
        try:
            return await self._request(backend, url, headers, body, method, fresh=True)
        except _BROKEN as error:
            attempt.unsent = attempt.unsent and isinstance(error, _UNSENT)
            raise _unreachable(backend, error) from error.with_traceback(None)

    def linger(self, running_out: Coroutine[None, None, None]) -> None:
        """Let an answer that is complete come to its end, so that its connection can be used again."""
        task = asyncio.create_task(running_out)
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def settled(self) -> None:
        """Wait until no answer lingers."""
        if self._lingering:
            await asyncio.wait(self._lingering)

    async def close(self) -> None:
        """Close all connections."""
        for task in self._lingering:
            task.cancel()
        await self._session.close()
        await self._fresh.close()


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """It goes where it is told: not by what the environment says of proxies, and to nowhere with cookies."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
    )


class Answer:
    """A backend's answer. Whoever gets one ends it by `finish()` or `close()`."""

    __slots__ = ("_attempt", "_content", "_decoder", "_open", "_pool", "_response", "_slots", "headers", "status")

    def __init__(
        self,
        pool: Pool,
        response: _Response,
        decoder: Decoder | None,
        slots: asyncio.Semaphore | None,
        attempt: Attempt,
    ) -> None:
        self._attempt = attempt
        self._pool = pool
        self._response = response
        self._content = response.content
        self._decoder = decoder
        self._slots = slots
        self._open = True
        self.status: int = response.status
        self.headers: CIMultiDictProxy[str] = response.headers

    async def readany(self) -> bytes:
        """What has come since the last call, at least one byte; b"" at the end.

        Raises `Rejected` (BAD_GATEWAY) when the connection breaks or what comes can't be decoded.
        """
        try:
            if self._decoder is None:
                return await self._content.readany()
            return await self._decoded(self._decoder)
        except BrokenFraming as error:
            raise _bad_answer(_NOT_HTTP) from error
        except (aiohttp.ClientError, OSError) as error:
            message = "The backend broke the connection before its answer was complete."
            # The reader keeps what it raised: with the way here, that would lead back to the reader, and stay for long.
            raise _bad_answer(message) from error.with_traceback(None)
        except BrokenEncoding as error:
            raise _bad_answer("The backend's answer is not encoded as its headers say.") from error

    async def _decoded(self, decoder: Decoder) -> bytes:
        while True:
            if decoder.more:
                # The answer holds more than was read: others must get their turn, and the time limit its chance.
                await asyncio.sleep(0)
                plain = decoder.feed(b"")
            elif coded := await self._content.readany():
                plain = decoder.feed(coded)
            else:
                decoder.end()
                return b""
            if plain:
                return plain

    async def read(self, limit: int = MAX_WHOLE) -> bytes:
        """The whole body. Raises `Rejected` as `readany` does, and when it is longer than `limit` bytes."""
        first = await self.readany()
        if not first or (self._decoder is None and self._content.at_eof()):
            return first
        whole = bytearray(first)
        while chunk := await self.readany():
            whole += chunk
            if len(whole) > limit:
                raise _bad_answer("The backend's answer is too large.")
        return bytes(whole)

    def finish(self) -> None:
        """All that is wanted has been read: keep the connection if the backend ends the answer soon."""
        if not self._open:
            return
        self._open = False
        self._attempt.end()
        if self._content.is_eof():
            self._release()
        else:
            self._pool.linger(self._run_out())

    def close(self) -> None:
        """Close the connection at once, which tells the backend to stop, unless the answer is finished."""
        if self._open:
            self._open = False
            self._attempt.end()
            self._abort()

    async def _run_out(self) -> None:
        try:
            async with asyncio.timeout(_LINGER):
                while await self._content.readany():
                    pass
        except (TimeoutError, aiohttp.ClientError, OSError):
            self._abort()
        except asyncio.CancelledError:
            self._abort()
            raise
        else:
            self._release()

    def _release(self) -> None:
        self._free_slot()
        self._response.release()

    def _abort(self) -> None:
        self._free_slot()
        self._response.close()

    def _free_slot(self) -> None:
        if self._slots is not None:
            self._slots.release()


class _LargeBody(Payload):
    """A request body that goes out in slices: the loop must not be held by one write of megabytes."""

    _autoclose = True

    def __init__(self, body: bytes) -> None:
        super().__init__(body, content_type="application/json")
        self._body = body
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text; part of the interface of payloads."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> Any:
        """Write all of it."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the first `content_length` bytes of it."""
        body = memoryview(self._body)[:content_length]
        for start in range(0, len(body), _SLICE):
            await writer.write(body[start : start + _SLICE])


def _decoder_of(response: _Response, slots: asyncio.Semaphore | None) -> Decoder | None:
    encoding = response.headers.get("Content-Encoding")
    if encoding is None:
        return None
    try:
        return decoder_for(encoding)
    except UnknownEncoding as error:
        response.close()
        if slots is not None:
            slots.release()
        raise _bad_answer(f"The backend's answer can't be read: {error}.") from error


# The connection could not be made, or broke before any byte of the answer.
_BROKEN = (aiohttp.ClientConnectionError, aiohttp.ClientHttpProxyError, OSError)
# What came is not HTTP; the classes above are among these, so they are caught first.
_BAD_HTTP = aiohttp.ClientError
# There was no connection, so nothing has been sent.
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_NOT_HTTP = "The backend's answer is not valid HTTP."
# Another try would meet the same.
_FINAL = (
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.ClientHttpProxyError,
)


def _may_repeat(error: Exception, body: Body) -> bool:
    """Whether the same request may be sent again (operations.md 11, idempotency)."""
    if isinstance(error, _FINAL) or not (body is None or isinstance(body, bytes)):
        return False
    return isinstance(error, _UNSENT) or body is None or not leaves_traces(body)


def _bad_answer(message: str) -> Rejected:
    return Rejected(Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR))


def _unreachable(backend: Backend, error: Exception) -> Rejected:
    """The host is not named: it may be internal (operations.md 5)."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        why = "the proxy on the way to it refused"
    elif isinstance(error, aiohttp.ClientProxyConnectionError):
        why = "the proxy on the way to it can't be reached"
    elif isinstance(error, _FINAL):
        why = "its certificate or TLS set-up was refused"
    elif isinstance(error, aiohttp.ConnectionTimeoutError):
        why = "the connection timed out"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        why = "its host name is not known"
    elif isinstance(error, aiohttp.ClientConnectorError):
        why = "the connection was refused"
    else:
        why = "it closed the connection without an answer"
    message = f"The backend '{backend.name}' can't be reached: {why}."
    return Rejected(Error(ErrorClass.UNREACHABLE, message, reason=Reason.UPSTREAM_UNREACHABLE))
