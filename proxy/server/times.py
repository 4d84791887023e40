"""Where the time of one exchange goes, and what its attempts came to (operations.md 4.4).

Whoever waits says for whom: the time that is left is the proxy's own. Seconds of `perf_counter`.
"""

from time import perf_counter

from proxy.upstream.attempt import Attempt


class Times:
    """`upstream`, `client`: waited for the backend, and for the client's socket; `request`, `reply`, `stream`: spent on
    translating. `first_event`: from the request to the backend to the first byte of its stream. `overlap`: several
    answers were waited for at once, so that the sums say nothing of the whole.

    Of a stream: `events` of the backend in so many reads, the moments of the `first` and the `last` read, and the
    longest `stall` between two. The cost is per read, not per event.
    """

    __slots__ = (
        "attempts",
        "client",
        "events",
        "first",
        "first_event",
        "last",
        "overlap",
        "reply",
        "request",
        "stall",
        "started",
        "stream",
        "upstream",
    )

    def __init__(self) -> None:
        self.started = perf_counter()
        self.upstream = self.client = self.request = self.reply = self.stream = 0.0
        self.attempts: list[Attempt] = []
        self.first_event: float | None = None
        self.first = self.last = self.stall = 0.0
        self.events = 0
        self.overlap = False

    def heard(self, now: float) -> None:
        """A read of the backend's stream, at `now`."""
        if self.first:
            if (gap := now - self.last) > self.stall:
                self.stall = gap
        else:
            self.first = now
        self.last = now

    @property
    def gap(self) -> float | None:
        """The mean gap between two events of the stream."""
        return (self.last - self.first) / (self.events - 1) if self.events > 1 else None

    def overhead(self, total: float) -> float:
        """The proxy's own part of `total`."""
        return max(0.0, total - self.upstream - self.client)
