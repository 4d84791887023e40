"""The circuit breaker of one backend (operations.md 11): who fails on and on is left alone for a while.

It knows no clock and decides nothing but its own state: moments are given, and chance is a function.
"""

from collections.abc import Callable
from enum import IntEnum

from proxy.settings import Breaker
from proxy.upstream.recent import Recent

_JITTER = 0.25  # at most this part of a pause comes on top


class State(IntEnum):
    """As `dragoman_circuit_state` tells it."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Circuit:
    """`opened`: since when the backend has been failing; None while all is well. Every request that `begin` has been
    called for ends in `succeeded`, `failed` or `abandoned`."""

    __slots__ = ("_in_row", "_on_trial", "_pauses", "_random", "_recent", "_settings", "_until", "opened")

    def __init__(self, settings: Breaker, random: Callable[[], float]) -> None:
        """`random`: from 0 to below 1."""
        self._settings = settings
        self._random = random
        self._recent = Recent(settings.window)
        self._in_row = 0
        self._pauses = 0
        self._until = 0.0
        self._on_trial = False
        self.opened: float | None = None

    def state(self, now: float) -> State:
        """At this moment."""
        if self.opened is None:
            return State.CLOSED
        return State.OPEN if now < self._until else State.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Whether a request may be sent: after a pause, one at a time."""
        return self.opened is None or (now >= self._until and not self._on_trial)

    def begin(self, now: float) -> None:
        """A request is sent."""
        if self.opened is not None and now >= self._until:
            self._on_trial = True

    def succeeded(self, now: float) -> None:
        """The backend answers."""
        self._in_row = 0
        if self.opened is None:
            self._recent.add(now, 1, 0)
        else:
            self._close()

    def failed(self, now: float) -> None:
        """It does not, or breaks off."""
        if self.opened is not None:
            # Whoever was asked for want of another while the pause runs does not make it longer.
            if now >= self._until:
                self._pause(now)
            return
        self._in_row += 1
        recent, settings = self._recent, self._settings
        recent.add(now, 1, 1)
        many = recent.first >= settings.requests and recent.second > settings.ratio * recent.first
        if self._in_row >= settings.failures or many:
            self.opened = now
            self._pause(now)

    def abandoned(self) -> None:
        """Nobody knows: its client left, or the answer says nothing of how the backend does."""
        self._on_trial = False

    def _pause(self, now: float) -> None:
        settings = self._settings
        seconds = min(settings.longest, settings.open * 2.0**self._pauses)
        self._pauses = min(self._pauses + 1, 32)
        self._until = now + seconds * (1 + _JITTER * self._random())
        self._on_trial = False

    def _close(self) -> None:
        self.opened = None
        self._pauses = 0
        self._on_trial = False
        self._recent.clear()
