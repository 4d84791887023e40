"""One request of a client that asks for several choices, as so many of a backend that gives one (mapping.md 7.4).

Each answer has a task, a connection and time limits of its own; what concerns the client is watched by the exchange.
The first answer that fails ends the others at once: a part of the choices is no answer.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import TypeVar

from aiohttp.web import StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, Rejected
from proxy.server.client_stream import ClientStream
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.relay import Relay
from proxy.server.watch import Watch
from proxy.server.whole import ask_whole
from proxy.translation.fan_out import fan_out
from proxy.translation.prepared import Prepared
from proxy.translation.spent import used_by_all

T = TypeVar("T")


async def whole_choices(exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> bytes:
    """The client's whole reply with all its choices. Raises `Rejected`."""
    exchange.times.overlap = True
    exchange.watch.rest()
    exchange.watch.wait_in_all(served.limits.total_whole)
    each, choices = fan_out(prepared)
    try:
        await _together([_whole_choice(exchange, served, one, headers) for one in each])
    finally:
        exchange.usage, exchange.stop = choices.usage, choices.stop
        _note_spent(exchange, each)
    _remember(exchange, each)
    return choices.reply(prepared.client, prepared.context)


async def _whole_choice(exchange: Exchange, served: Served, one: Prepared, headers: CIMultiDict[str]) -> None:
    watch = Watch()
    try:
        while await ask_whole(exchange, served, one, headers, watch) is None:
            pass
    except asyncio.CancelledError:
        if (error := watch.overdue()) is None:
            raise
        raise Rejected(error) from None
    finally:
        watch.close()


class FanOut(ClientStream):
    """Several streams that are one to the client. Used as `Relay` is."""

    __slots__ = ("_broken", "_choices", "_each", "_headers", "_last", "_turn", "_unheard")

    def __init__(self, exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> None:
        super().__init__(exchange, served)
        self._headers = headers
        self._each, self._choices = fan_out(prepared)
        self._unheard = prepared.translation(exchange.scrub)  # of no answer: for what the proxy says itself
        self._turn = asyncio.Lock()
        self._broken = b""
        self._last = b""

    async def run(self) -> StreamResponse:
        """Ask for all answers and pass them on as they come. Raises `Rejected`."""
        exchange, served = self._exchange, self._served
        exchange.times.overlap = True
        exchange.watch.rest()
        self._begin_limits()
        await _together([_Branch(self, exchange, served, one, self._headers).run() for one in self._each])
        _remember(exchange, self._each)
        exchange.outcome = "ok"
        return await self._end(self._last)

    async def fail(self, error: Error) -> StreamResponse:
        """Tell the client, inside the stream if it has begun; else raises `Rejected` with the same error."""
        if self._response is None and not self._broken:
            raise Rejected(error)
        self._exchange.note_error(error)
        return await self._end(self._broken or self._unheard.fail(self._exchange.hide(error)))

    def close(self) -> None:
        """Take stock. The backend is let go of by then."""
        self._end_heartbeats()
        self._exchange.usage, self._exchange.stop = self._choices.usage, self._choices.stop
        _note_spent(self._exchange, self._each)

    # ---- what the branches say

    async def write(self, out: bytes) -> None:
        """Write these bytes, in the order in which the branches had them."""
        async with self._turn:
            await self._write(out)
            self._exchange.watch.rest()

    async def deliver(self, out: bytes) -> StreamResponse:
        """Write the last bytes of a choice; those of the last choice end the stream when all branches have."""
        if self._choices.over:
            self._last = out
        else:
            await self.write(out)
        return self._response or await self._commit()

    def broke(self, out: bytes) -> None:
        """Keep the last bytes of a choice that failed, for the client to hear once the others have been stopped."""
        self._broken = self._broken or out

    def _ping(self) -> bytes:
        return self._unheard.ping()


class _Branch(Relay):
    """One of the streams. Its client is the trunk."""

    __slots__ = ("_trunk",)

    def __init__(
        self, trunk: FanOut, exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]
    ) -> None:
        super().__init__(exchange, served, prepared, headers)
        self._trunk = trunk

    async def run(self) -> StreamResponse:
        """To the end of the choice. Raises `Rejected`."""
        watch = self._watch = Watch()
        try:
            return await super().run()
        except Rejected as rejected:
            return await self.fail(rejected.error)
        except asyncio.CancelledError:
            if (error := watch.overdue()) is None:
                raise
            return await self.fail(error)
        finally:
            watch.close()
            self.close()

    async def fail(self, error: Error) -> StreamResponse:
        """End the choice well if only its end mark is missing; else raises `Rejected`."""
        out = self._translation.fail(self._exchange.hide(error))
        if self._translation.failed is not None:
            raise Rejected(error)
        return await self._deliver(out)

    def close(self) -> None:
        """Let go of the backend, at once if it is still sending."""
        if self._answer is not None:
            self._answer.close()

    def _begin_limits(self) -> None:
        """The trunk's."""

    async def _write(self, out: bytes) -> None:
        self._watch.rest()  # it may be the others' turn, or the client that does not read
        await self._trunk.write(out)

    async def _deliver(self, out: bytes) -> StreamResponse:
        self._watch.rest()
        return await self._trunk.deliver(out)

    async def _break(self, failed: Error, out: bytes) -> StreamResponse:
        if self._translation.started or self._trunk.committed:
            self._trunk.broke(out)
        raise Rejected(failed)


def _note_spent(exchange: Exchange, each: Sequence[Prepared]) -> None:
    exchange.answered_in_part = any(answer.over for one in each for answer in one.rounds())
    if exchange.counting:
        exchange.spent = used_by_all(each, exchange.prompt_estimate)


def _remember(exchange: Exchange, each: Iterable[Prepared]) -> None:
    for one in each:
        exchange.gateway.remember(one)


async def _together(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """The results of all, which run at the same time; the first failure stops the others at once and is raised."""
    tasks = [asyncio.create_task(each) for each in work]
    failures: list[BaseException] = []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failures += _failures(tasks)
        if failures:
            raise failures[0]
        return [task.result() for task in tasks]
    finally:
        await _stop(tasks)
        # What is raised refers to this frame, which must not refer back: only the collector would free both.
        tasks.clear()
        failures.clear()


def _failures(tasks: Iterable[asyncio.Task[T]]) -> list[BaseException]:
    return [error for task in tasks if task.done() and (error := task.exception()) is not None]


async def _stop(tasks: Iterable[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
