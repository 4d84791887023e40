"""What a process does for its store as long as it runs, and how its failures are told."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.settings import Settings
from proxy.state import Store, StoreFailed, open_store

_SWEEP_EVERY = 60.0  # seconds

log = logging.getLogger("dragoman")


class Keeping:
    """The store, and the task that forgets what has expired."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._failing = False
        self._sweeping = asyncio.create_task(self._sweep())
        self._tasks: set[asyncio.Task[None]] = set()

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do it beside whatever goes on; `close` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._sweeping
        await self.store.close()

    def failed(self, error: StoreFailed) -> None:
        """Tell it, once until it works again."""
        if not self._failing:
            log.warning("Stored state can't be had: %s", error)
        self._failing = True

    def works(self) -> None:
        if self._failing:
            log.info("Stored state can be had again")
        self._failing = False

    async def _sweep(self) -> None:
        while True:
            try:
                await self.store.sweep()
            except StoreFailed as error:
                self.failed(error)
            else:
                self.works()
            await asyncio.sleep(_SWEEP_EVERY)


def keeping_of(settings: Settings) -> Keeping | None:
    """None keeps nothing. Raises ValueError for an address that can't be one."""
    state = settings.state
    if state is None:
        return None
    store = open_store(state.url.get_secret_value(), [key.get_secret_value() for key in state.keys])
    return None if store is None else Keeping(store)


@contextmanager
def reaching(keeping: Keeping) -> Iterator[Store]:
    """The store, for a request that can't be served without it. Raises `Rejected` when it fails."""
    try:
        yield keeping.store
    except StoreFailed as error:
        keeping.failed(error)
        raise unavailable(error) from error


def unavailable(error: StoreFailed) -> Rejected:
    """For a request that can't be served without the store. The cause is for records alone."""
    log.warning("A request could not be served without stored state: %s", error)
    message = "Stored state can't be had at the moment. Try again soon, or send the whole conversation."
    return Rejected(Error(ErrorClass.OVERLOADED, message, reason=Reason.OVERLOADED, retry_after=1))


def now() -> float:
    """Unix seconds."""
    return time.time()
