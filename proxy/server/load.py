"""How much the process has to do, and what it refuses before all would have to wait (operations.md 10).

Probes are not asked: a process that sheds load is alive, and telling others to stay away is what its 503s do.
"""

from typing import TYPE_CHECKING

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected

if TYPE_CHECKING:
    from proxy.server.exchange import Exchange
    from proxy.settings import Capacity

RETRY_AFTER = 1.0  # seconds


class Load:
    """`streams`: the exchanges that have been admitted as one; `lag`: seconds that the event loop was late, at least,
    each of the last two times that somebody looked. A single long turn of the loop refuses nobody."""

    __slots__ = ("_last", "lag", "streams")

    def __init__(self) -> None:
        self.streams: set[Exchange] = set()
        self.lag = 0.0
        self._last = 0.0

    def note_lag(self, seconds: float) -> None:
        """How late the event loop was just now."""
        self.lag, self._last = min(self._last, seconds), seconds

    def check(self, capacity: "Capacity", requests: int) -> None:
        """Whether one more request may be answered; `requests`: with it. Raises `Rejected`, class OVERLOADED."""
        if requests > capacity.max_requests or (self.lag > capacity.max_lag > 0):
            raise Rejected(overloaded("requests"))

    def take_stream(self, capacity: "Capacity", exchange: "Exchange") -> None:
        """Count a stream, until it is discarded from `streams`. Raises as `check`."""
        if len(self.streams) >= capacity.max_streams:
            raise Rejected(overloaded("streams"))
        self.streams.add(exchange)


def overloaded(what: str) -> Error:
    """The error of who comes when there is too much of something."""
    message = f"The proxy has too many {what} to deal with. Try again soon."
    return Error(ErrorClass.OVERLOADED, message, reason=Reason.OVERLOADED, retry_after=RETRY_AFTER)
