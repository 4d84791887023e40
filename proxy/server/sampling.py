"""What is measured now and then, whoever asks: how late the event loop is, and how full tenants' limits are."""

import asyncio
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.server.runtime import Runtime

LOOK_EVERY: Final = 0.5  # seconds
_LIMITS_EVERY: Final = 10  # looks: what a limit has let through is told after 5 s
_MOST: Final = 200  # tenants whose limits are looked at together


class Sampling:
    """Made inside the loop that serves. `used`: tenants that have asked since their limits were looked at."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self.used: set[str] = set()
        self._task = asyncio.create_task(self._go_on())

    def stop(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def _go_on(self) -> None:
        lag = self._runtime.metrics.traffic.loop_lag.of()
        looks = 0
        while True:
            due = perf_counter() + LOOK_EVERY
            await asyncio.sleep(LOOK_EVERY)
            late = max(0.0, perf_counter() - due)
            lag.observe(late)
            self._runtime.load.note_lag(late)
            looks += 1
            if looks % _LIMITS_EVERY == 0:
                await self.look_at_limits()

    async def look_at_limits(self) -> None:
        """Tell how full the limits of tenants are that have used them; those that are not empty are looked at again."""
        runtime = self._runtime
        told = runtime.metrics.traffic.utilization
        for name in list(self.used)[:_MOST]:
            self.used.discard(name)
            settings = runtime.gateway.settings
            tenant = (settings.tenants or {}).get(name)
            if tenant is None or not settings.tenant_label:
                continue
            with suppress(OSError):
                for standing in await runtime.limiter.standings(tenant):
                    if standing.limit:
                        told.put(name, standing.dimension, value=standing.used / standing.limit)
                    if standing.used:
                        self.used.add(name)
