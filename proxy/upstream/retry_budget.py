"""How often one backend may be asked once more: a part of what it is asked anyway, so that no outage is amplified."""

from proxy.settings import Retries
from proxy.upstream.recent import Recent

_WINDOW = 10.0  # seconds (operations.md 11)


class RetryBudget:
    """Some retries each second are free; more have to be a small part of the requests of the last seconds."""

    __slots__ = ("_free_left", "_recent", "_second", "_settings")

    def __init__(self, settings: Retries) -> None:
        self._settings = settings
        self._recent = Recent(_WINDOW)
        self._second = 0
        self._free_left = settings.free

    def count(self, now: float) -> None:
        """A request that is no retry is sent."""
        self._recent.add(now, 1, 0)

    def allows(self, now: float) -> bool:
        """Whether `take` would give one."""
        if self._settings.free and (int(now) != self._second or self._free_left):
            return True
        recent = self._recent
        recent.add(now)
        return recent.second + 1 <= self._settings.share * recent.first

    def take(self, now: float) -> bool:
        """Whether a request may be sent once more; then that is counted."""
        if int(now) != self._second:
            self._second = int(now)
            self._free_left = self._settings.free
        if self._free_left:
            self._free_left -= 1
            return True
        if not self.allows(now):
            return False
        self._recent.add(now, 0, 1)
        return True
