"""What tenants have used outlasts the process: read once at the start, written now and then, and at the end.

The disk is never waited for in the loop. One that is full or gone costs nothing but the memory of what was used since.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from proxy.telemetry.audit import AuditLog
from proxy.tenancy.limits import Dimension, Spent
from proxy.tenancy.limits_file import Kept, LimitsFile, LimitsFileDamaged
from proxy.tenancy.memory import MemoryLimiter

WRITE_EVERY: Final = 5.0  # seconds
_PORTION: Final = 200  # tenants that are looked at without a break

log = logging.getLogger("dragoman")


class LimitsKeeping:
    """Made inside the loop that serves, before the first request."""

    def __init__(
        self, file: LimitsFile, limiter: MemoryLimiter, audit: AuditLog, *, write_every: float = WRITE_EVERY
    ) -> None:
        self._file = file
        self._limiter = limiter
        self._audit = audit
        self._write_every = write_every
        self._ending = asyncio.Event()
        self._failing = False
        kept: Kept = {}
        damage: str | None = None
        try:
            kept = file.read()
        except LimitsFileDamaged as error:
            damage = str(error)
        limiter.restore(kept)
        self._task = asyncio.create_task(self._keep(len(kept), damage))

    async def close(self) -> None:
        """Write how everything stands, and let go of the file. Called once nothing is open any more."""
        self._ending.set()
        await self._task
        self._file.close()

    async def _keep(self, found: int, damage: str | None) -> None:
        """Write until the end, and once more then."""
        self._tell(found, damage)
        ending = False
        while not ending:
            with suppress(TimeoutError):
                ending = await asyncio.wait_for(self._ending.wait(), self._write_every)
            await self._write()

    def _tell(self, found: int, damage: str | None) -> None:
        """What came of reading: not before messages go where they should."""
        path = str(self._file.path)
        if damage is None:
            log.info("What %d tenants have used goes on as %s says", found, path)
        else:
            log.error("What tenants have used begins anew, for %s is damaged: %s", path, damage)
            self._audit.note("limits.restore", actor="process", target=path, result="failed", detail=damage)

    async def _write(self) -> None:
        kept: dict[str, dict[Dimension, Spent]] = {}
        for number, (name, spent) in enumerate(self._limiter.snapshot(), 1):
            kept[name] = spent
            if number % _PORTION == 0:
                await asyncio.sleep(0)
        try:
            await asyncio.to_thread(self._file.write, kept)
        except OSError as error:
            if not self._failing:
                log.error(  # noqa: TRY400 - a traceback says nothing more
                    "What tenants use can't be written to %s, and is tried again: %s", self._file.path, error.strerror
                )
            self._failing = True
        else:
            if self._failing:
                log.warning("What tenants use is written to %s again", self._file.path)
            self._failing = False
