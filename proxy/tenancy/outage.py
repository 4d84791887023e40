"""Whether the shared store answers, and when to ask it again.

While it does not, only one request at a time waits for it in vain; the others are decided at once.
"""

import logging
from collections.abc import Callable

LEAST_PAUSE, MOST_PAUSE = 0.1, 1.0  # seconds; one slow answer should not cost a second

_log = logging.getLogger(__name__)


class Outage:
    """`since`: when the store began not to answer, by `clock`; None while it does."""

    __slots__ = ("_ask_at", "_clock", "since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.since: float | None = None
        self._clock = clock
        self._ask_at = 0.0

    def lasts(self) -> float:
        """Seconds."""
        return 0.0 if self.since is None else self._clock() - self.since

    def pause(self) -> float:
        """Seconds to wait before asking again: as long as it has lasted, within bounds."""
        return min(max(self.lasts(), LEAST_PAUSE), MOST_PAUSE)

    def may_ask(self) -> bool:
        """Whether who asks for this should ask the store. Then nobody else does for a while."""
        if self.since is None:
            return True
        now = self._clock()
        if now < self._ask_at:
            return False
        self._ask_at = now + self.pause()
        return True

    def failed(self, failure: Exception) -> None:
        """The store did not answer."""
        now = self._clock()
        if self.since is None:
            self.since = now
            _log.warning("the shared store of limits does not answer: %s", failure)
        self._ask_at = now + self.pause()

    def answered(self) -> None:
        """The store did."""
        if self.since is not None:
            _log.warning("the shared store of limits answers again, after %.1f s", self.lasts())
            self.since = None
