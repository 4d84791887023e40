"""What a process does for its store as long as it runs, and how its failures are told."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server.abandoned import end_abandoned
from proxy.settings import Settings
from proxy.state import Key, Store, StoreFailed, open_store

_SWEEP_EVERY = 60.0  # seconds
_REAP_EVERY = 2.0  # seconds
_AT_ONCE = 50  # responses of replicas that are gone

log = logging.getLogger("dragoman")


class Keeping:
    """The store, and the task that forgets what has expired."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._failing = False
        self._ending = asyncio.Event()
        self._sweeping = asyncio.create_task(self._sweep())
        self._reaping = asyncio.create_task(self._reap())
        self._tasks: set[asyncio.Task[None]] = set()
        self.jobs: dict[Key, asyncio.Task[None]] = {}  # responses that are made in this process, for nobody
        self._changed: dict[Key, asyncio.Event] = {}

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do it beside whatever goes on; `close` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def change(self, key: Key, seconds: float) -> None:
        """Wait until this process has written to a record, or for so long: another process may have."""
        event = self._changed.setdefault(key, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    def changed(self, key: Key) -> None:
        """Wake those who wait for it."""
        event = self._changed.pop(key, None)
        if event is not None:
            event.set()

    async def close(self) -> None:
        for job in self.jobs.values():
            job.cancel()
        if waiting := {*self._tasks, *self.jobs.values()}:
            await asyncio.wait(waiting)
        self._ending.set()  # neither is cut off while it asks the store, which would leave a connection behind
        await asyncio.wait((self._sweeping, self._reaping))
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

    async def _reap(self) -> None:
        """A response whose replica is gone must not be in progress for ever."""
        while not self._ending.is_set():
            with suppress(StoreFailed):
                for key in await self.store.abandoned(_AT_ONCE):
                    await end_abandoned(self.store, key)
                    self.changed(key)
            await self._pause(_REAP_EVERY)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _sweep(self) -> None:
        while not self._ending.is_set():
            try:
                await self.store.sweep()
            except StoreFailed as error:
                self.failed(error)
            else:
                self.works()
            await self._pause(_SWEEP_EVERY)


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
