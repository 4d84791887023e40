"""One request to one backend, as metrics see it."""

from time import perf_counter


class Attempt:
    """`code`: the status that the backend answered with; 0: none. `repeated`: the connection broke, and another was
    tried. `slow_connect`: no connection came in time. `queued`: seconds of waiting for one of the most that there
    may be."""

    __slots__ = ("code", "ended", "queued", "repeated", "slow_connect", "started", "upstream")

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.started = perf_counter()
        self.ended: float | None = None
        self.code = 0
        self.repeated = False
        self.slow_connect = False
        self.queued = 0.0

    def end(self) -> None:
        """The answer is over, or given up."""
        if self.ended is None:
            self.ended = perf_counter()

    @property
    def lasted(self) -> float:
        """Seconds, until now if it has not ended."""
        return (self.ended or perf_counter()) - self.started
