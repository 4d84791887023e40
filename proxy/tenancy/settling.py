"""What was settled and the shared store does not know yet.

Nobody waits for it. What can't be sent is sent again as long as the store may still hold the lease; after that the
lease has ended by itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice

from proxy.tenancy.outage import Outage
from proxy.tenancy.store import Settlement, Store, StoreFailed

MOST_WAITING = 100_000  # settlements, of some 300 bytes
BATCH = 200

_log = logging.getLogger(__name__)


class Settling:
    """A queue and the task that empties it. `life`: seconds for which a settlement is worth sending."""

    def __init__(self, store: Store, outage: Outage, clock: Callable[[], float], life: float) -> None:
        self._store = store
        self._outage = outage
        self._clock = clock
        self._life = life
        self._waiting: deque[tuple[Settlement, float]] = deque()
        self._some, self._none = asyncio.Event(), asyncio.Event()
        self._none.set()

    def add(self, settlement: Settlement) -> None:
        """Send it soon. Of too many the newest are left to end by themselves."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((settlement, self._clock() + self._life))
            self._none.clear()
            self._some.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._some.wait()
            self._forget_late()
            if not self._waiting:
                self._some.clear()
                self._none.set()
                continue
            batch = [settlement for settlement, _ in islice(self._waiting, BATCH)]
            try:
                await self._store.settle(batch)
            except StoreFailed as failure:
                self._outage.failed(failure)
                await asyncio.sleep(self._outage.pause())
                continue
            self._outage.answered()
            for _ in batch:
                self._waiting.popleft()

    async def finish(self, within: float) -> None:
        """Wait until nothing waits, but no longer than so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._none.wait()
        except TimeoutError:
            _log.warning("%d requests may stay charged as reserved in the shared store of limits", len(self._waiting))

    def _forget_late(self) -> None:
        now = self._clock()
        late = 0
        while self._waiting and self._waiting[0][1] <= now:
            self._waiting.popleft()
            late += 1
        if late:
            _log.warning("%d requests may stay charged as reserved in the shared store of limits", late)
