"""The streaming loop: from the backend's first byte to the client's last.

The status is held back until the backend has really begun, so that what fails before is a real HTTP error. After
`commit_after` the client gets its head and heartbeats all the same, and what fails then is an error inside the
stream. One read of the backend is one write to the client; the end leaves with the last event.
"""

from time import perf_counter

from aiohttp.web import StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, Rejected
from proxy.server.answers import beginning, begins_whole, note_estimate
from proxy.server.asking import ask
from proxy.server.client_stream import ClientStream
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation.prepared import Prepared
from proxy.upstream.pool import Answer


class Relay(ClientStream):
    """One stream. `run` it, give every failure to `fail`, and `close` it in any case."""

    __slots__ = ("_answer", "_headers", "_prepared", "_times", "_translation", "_watch")

    def __init__(self, exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> None:
        super().__init__(exchange, served)
        self._headers = headers
        self._prepared = prepared
        self._translation = prepared.translation(exchange.scrub)
        self._watch = exchange.watch
        self._times = exchange.times
        self._answer: Answer | None = None

    async def run(self) -> StreamResponse:
        """Ask the backend and pass its answer on. Raises `Rejected` and `Passed`."""
        self._begin_limits()
        answer, first = await self._ask(self._prepared.body)
        if begins_whole(first):
            return await self._pass_whole(first, answer)
        return await self._pump(first, answer)

    async def _ask(self, body: bytes) -> tuple[Answer, bytes]:
        """The backend's answer and its first bytes."""
        self._watch.wait(self._served.limits.first_event)
        times, asked = self._times, perf_counter()
        try:
            answer = self._answer = await ask(self._exchange, self._served, self._prepared, self._headers, body)
            first = await beginning(answer)
        finally:
            times.upstream += (now := perf_counter()) - asked
        if times.first_event is None:
            times.first_event = now - asked
        return answer, first

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
        return await self._end(self._told(out))

    def close(self) -> None:
        """Let go of the backend, at once if it is still sending, and take stock."""
        self._end_heartbeats()
        if self._answer is not None:
            self._answer.close()
        exchange, translation = self._exchange, self._translation
        self._times.events = translation.events
        exchange.usage = translation.usage or exchange.usage
        exchange.stop = translation.stop or exchange.stop

    async def _pump(self, chunk: bytes, answer: Answer) -> StreamResponse:
        translation, watch, idle, times = self._translation, self._watch, self._served.limits.idle, self._times
        held = b""
        now = perf_counter()
        while True:
            times.heard(now)
            out = translation.feed(chunk) if chunk else translation.end()
            again = translation.goes_on()
            if translation.over(out) or (not chunk and again is None):
                times.stream += perf_counter() - now
                return await self._finish(held + out, answer)
            if translation.started:
                if not self._exchange.alive:
                    self._exchange.note_alive(self._served)
                limit = self._served.limits.end_mark if translation.stopped else idle
                watch.wait(limit)
                if out := held + out:
                    held = b""
                    times.stream += perf_counter() - now
                    await self._write(out)
                    watch.wait(limit)
            else:
                held += out
            if again is None:
                asked = perf_counter()
                try:
                    chunk = await answer.readany()
                finally:
                    times.upstream += (now := perf_counter()) - asked
            else:
                answer.finish()
                answer, chunk = await self._ask(again)
                now = perf_counter()

    async def _finish(self, out: bytes, answer: Answer) -> StreamResponse:
        failed = self._translation.failed
        if failed is not None:
            return await self._break(failed, out)
        if not self._translation.cut:  # else `close` stops the backend at once
            answer.finish()
        return await self._deliver(out)

    async def _pass_whole(self, first: bytes, answer: Answer) -> StreamResponse:
        """The backend does not stream: its whole reply becomes the client's stream (mapping.md 14.2)."""
        out = None
        while out is None:
            self._watch.wait(self._served.limits.first_event_whole)
            asked = perf_counter()
            raw = first + await answer.read()
            self._times.upstream += perf_counter() - asked
            answer.finish()
            out = self._prepared.take_streamed(raw)
            if out is None:
                answer, first = await self._ask(self._prepared.body)
        self._exchange.usage, self._exchange.stop = self._prepared.usage, self._prepared.stop
        if self._response is None and self._exchange.client != "messages":
            note_estimate(self._exchange, self._prepared)
        return await self._deliver(out)

    # ---- toward the client

    async def _write(self, out: bytes) -> None:
        await super()._write(self._told(out))

    def _told(self, out: bytes) -> bytes:
        turn = self._exchange.turn
        return out if turn is None or not out else turn.told(out)

    async def _deliver(self, out: bytes) -> StreamResponse:
        """Write the last bytes of an answer that is whole."""
        if (turn := self._exchange.turn) is not None:
            begun, out = turn.parted(out)
            if begun and self._response is None:
                await self._write(begun)  # the first byte waits for no store
                begun = b""
            out = self._told(begun) + await turn.end_stream(out)
            if turn.failed is not None:
                self._exchange.note_error(turn.failed)
                return await self._end(out)
        self._exchange.outcome = "ok"
        return await self._end(out)

    async def _break(self, failed: Error, out: bytes) -> StreamResponse:
        """Write the last bytes of an answer that failed, or raise what went wrong if the backend had not even begun.

        An answer that began and broke within one read is told like any other that broke: how the network cut it must
        not decide between a status and an event.
        """
        if self._response is None and not self._translation.started:
            raise Rejected(failed)
        self._exchange.note_error(failed)
        return await self._end(self._told(out))

    async def _commit(self) -> StreamResponse:
        # Only Messages tells of the prompt before all is told; toward others the backend still has until the end.
        if self._translation.usage is None and self._exchange.client == "messages":
            note_estimate(self._exchange, self._prepared)
        return await super()._commit()

    def _ping(self) -> bytes:
        return self._translation.ping()
