"""The client's side of a stream: when it gets its status, what is written to it, and heartbeats while there is nothing.

Whoever has something to say subclasses it and says with `_ping` what a heartbeat is.
"""

import asyncio
from abc import ABC, abstractmethod
from time import perf_counter

from aiohttp.web import StreamResponse

from proxy.server.exchange import Exchange
from proxy.server.gateway import Served


class ClientStream(ABC):
    """One stream to one client."""

    __slots__ = ("_beating", "_exchange", "_over", "_response", "_served", "_writing")

    def __init__(self, exchange: Exchange, served: Served) -> None:
        self._exchange = exchange
        self._served = served
        self._response: StreamResponse | None = None
        self._beating: asyncio.Task[None] | None = None
        self._writing = False
        self._over = False

    @property
    def committed(self) -> bool:
        """Whether the client has its status."""
        return self._response is not None

    def _begin_limits(self) -> None:
        """From now on the stream as a whole has its time, and its client hears something in time."""
        watch, limits = self._exchange.watch, self._served.limits
        watch.wait_in_all(limits.total)
        if limits.commit_after is not None:
            watch.beat(limits.commit_after, self._beat)

    async def _commit(self) -> StreamResponse:
        # Nothing in here waits, so a heartbeat can't come between.
        self._response = await self._exchange.begin()
        return self._response

    async def _write(self, out: bytes) -> None:
        exchange, limits = self._exchange, self._served.limits
        self._writing = True
        if (response := self._response) is None:
            response = await self._commit()
            exchange.first_token = perf_counter()
        exchange.watch.wait(limits.client_write)
        wrote = perf_counter()
        await response.write(out)
        exchange.times.client += perf_counter() - wrote
        exchange.bytes_out += len(out)
        self._writing = False
        if limits.heartbeat:
            exchange.watch.beat(limits.heartbeat, self._beat)

    async def _end(self, out: bytes) -> StreamResponse:
        """Write the last bytes."""
        response = self._response or await self._commit()
        self._over = True
        self._exchange.watch.wait(self._served.limits.client_write)
        self._exchange.bytes_out += len(out)
        wrote = perf_counter()
        await response.write_eof(out)
        self._exchange.times.client += perf_counter() - wrote
        return response

    def _end_heartbeats(self) -> None:
        self._over = True
        if self._beating is not None:
            self._beating.cancel()

    @abstractmethod
    def _ping(self) -> bytes:
        """A heartbeat in the client's dialect."""

    def _beat(self) -> None:
        """Called by the watch when the client has heard nothing for a while."""
        if not self._writing and not self._over:
            self._beating = asyncio.create_task(self._write_heartbeat())

    async def _write_heartbeat(self) -> None:
        heartbeat = self._served.limits.heartbeat
        try:
            response = self._response or await self._commit()
            await response.write(self._ping())
        except ConnectionError:
            return  # the client has left, and the exchange's own task is told so
        self._exchange.gateway.runtime.metrics.traffic.heartbeats.add(self._exchange.client)
        if heartbeat:
            self._exchange.watch.beat(heartbeat, self._beat)
