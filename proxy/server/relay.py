"""The streaming loop: from the backend's first byte to the client's last.

The status is held back until the backend has really begun, so that what fails before is a real HTTP error. After
`commit_after` the client gets its head and heartbeats all the same, and what fails then is an error inside the
stream. One read of the backend is one write to the client; the end leaves with the last event.
"""

import asyncio
import time

from aiohttp.web import StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, Rejected
from proxy.server.answers import beginning, begins_whole, note_estimate
from proxy.server.asking import ask
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation.pair import Prepared
from proxy.upstream.pool import Answer


class Relay:
    """One stream. `run` it, give every failure to `fail`, and `close` it in any case."""

    __slots__ = (
        "_answer",
        "_beating",
        "_exchange",
        "_headers",
        "_over",
        "_prepared",
        "_response",
        "_served",
        "_translation",
        "_writing",
    )

    def __init__(self, exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> None:
        self._exchange = exchange
        self._headers = headers
        self._served = served
        self._prepared = prepared
        self._translation = prepared.translation(exchange.gateway.scrub)
        self._answer: Answer | None = None
        self._response: StreamResponse | None = None
        self._beating: asyncio.Task[None] | None = None
        self._writing = False
        self._over = False

    @property
    def committed(self) -> bool:
        """Whether the client has its status."""
        return self._response is not None

    async def run(self) -> StreamResponse:
        """Ask the backend and pass its answer on. Raises `Rejected` and `Passed`."""
        exchange, limits = self._exchange, self._served.limits
        exchange.watch.wait_in_all(limits.total)
        if limits.commit_after is not None:
            exchange.watch.beat(limits.commit_after, self._beat)
        answer, first = await self._ask(self._prepared.body)
        if begins_whole(first):
            return await self._pass_whole(first, answer)
        return await self._pump(first, answer)

    async def _ask(self, body: bytes) -> tuple[Answer, bytes]:
        """The backend's answer and its first bytes."""
        exchange = self._exchange
        exchange.watch.wait(self._served.limits.first_event)
        answer = self._answer = await ask(exchange, self._served, self._prepared, self._headers, body)
        return answer, await beginning(answer)

    async def fail(self, error: Error) -> StreamResponse:
        """Tell the client, inside the stream if it has begun; else raises `Rejected` with the same error."""
        if self._response is None:
            raise Rejected(error)
        exchange = self._exchange
        out = self._translation.fail(exchange.hide(error))
        if self._translation.failed is not None:
            exchange.note_error(error)
        else:
            exchange.outcome = "ok"
        return await self._end(self._response, out)

    def close(self) -> None:
        """Let go of the backend, at once if it is still sending, and take stock."""
        self._over = True
        if self._answer is not None:
            self._answer.close()
        if self._beating is not None:
            self._beating.cancel()
        exchange, translation = self._exchange, self._translation
        exchange.usage = translation.usage or exchange.usage
        exchange.stop = translation.stop or exchange.stop

    async def _pump(self, chunk: bytes, answer: Answer) -> StreamResponse:
        translation, watch, idle = self._translation, self._exchange.watch, self._served.limits.idle
        held = b""
        while True:
            out = translation.feed(chunk) if chunk else translation.end()
            again = translation.goes_on()
            if translation.over(out) or (not chunk and again is None):
                return await self._finish(held + out, answer)
            if translation.started:
                limit = self._served.limits.end_mark if translation.stopped else idle
                watch.wait(limit)
                if out := held + out:
                    held = b""
                    await self._write(out)
                    watch.wait(limit)
            else:
                held += out
            if again is None:
                chunk = await answer.readany()
            else:
                answer.finish()
                answer, chunk = await self._ask(again)

    async def _finish(self, out: bytes, answer: Answer) -> StreamResponse:
        """Write the last bytes, or raise what went wrong if the backend had not even begun.

        An answer that began and broke within one read is told like any other that broke: how the network cut it must
        not decide between a status and an event.
        """
        failed = self._translation.failed
        if failed is None:
            self._exchange.outcome = "ok"
            if not self._translation.cut:  # else `close` stops the backend at once
                answer.finish()
        elif self._response is None and not self._translation.started:
            raise Rejected(failed)
        else:
            self._exchange.note_error(failed)
        return await self._end(self._response or await self._commit(), out)

    async def _pass_whole(self, first: bytes, answer: Answer) -> StreamResponse:
        """The backend does not stream: its whole reply becomes the client's stream (mapping.md 14.2)."""
        out = None
        while out is None:
            self._exchange.watch.wait(self._served.limits.first_event_whole)
            raw = first + await answer.read()
            answer.finish()
            out = self._prepared.take_streamed(raw)
            if out is None:
                answer, first = await self._ask(self._prepared.body)
        self._exchange.usage, self._exchange.stop = self._prepared.usage, self._prepared.stop
        self._exchange.outcome = "ok"
        return await self._end(self._response or await self._commit(), out)

    # ---- toward the client

    async def _commit(self) -> StreamResponse:
        exchange = self._exchange
        if self._translation.usage is None:
            note_estimate(exchange, self._prepared)
        # Nothing in here waits, so a heartbeat can't come between.
        self._response = await exchange.begin()
        return self._response

    async def _write(self, out: bytes) -> None:
        exchange, limits = self._exchange, self._served.limits
        self._writing = True
        if (response := self._response) is None:
            response = await self._commit()
            exchange.first_token = time.monotonic()
        exchange.watch.wait(limits.client_write)
        await response.write(out)
        exchange.bytes_out += len(out)
        self._writing = False
        if limits.heartbeat:
            exchange.watch.beat(limits.heartbeat, self._beat)

    async def _end(self, response: StreamResponse, out: bytes) -> StreamResponse:
        self._over = True
        self._exchange.watch.wait(self._served.limits.client_write)
        self._exchange.bytes_out += len(out)
        await response.write_eof(out)
        return response

    def _beat(self) -> None:
        """Called by the watch when the client has heard nothing for a while."""
        if not self._writing and not self._over:
            self._beating = asyncio.create_task(self._write_heartbeat())

    async def _write_heartbeat(self) -> None:
        heartbeat = self._served.limits.heartbeat
        try:
            response = self._response or await self._commit()
            await response.write(self._translation.ping())
        except ConnectionError:
            return  # the client has left, and the exchange's own task is told so
        if heartbeat:
            self._exchange.watch.beat(heartbeat, self._beat)
