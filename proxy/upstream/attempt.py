"""One request to one backend, as metrics see it."""

from time import perf_counter

from proxy.upstream.health import Health
from proxy.upstream.verdicts import Cause


class Attempt:
    """`code`: the status that the backend answered with; 0: none. `health`: of the backend, where it is kept.
    `repeated`: the connection broke, and another was tried. `unsent`: there was none to send the request on.
    `slow_connect`: none came in time. `queued`: seconds of waiting for one of the most that there may be. `failed`: why
    it was of no use."""

    __slots__ = (
        "code",
        "ended",
        "failed",
        "health",
        "queued",
        "repeated",
        "slow_connect",
        "started",
        "unsent",
        "upstream",
    )

    def __init__(self, upstream: str, health: Health | None = None) -> None:
        self.upstream = upstream
        self.started = perf_counter()
        self.ended: float | None = None
        self.code = 0
        self.failed: Cause | None = None
        self.health = health
        self.repeated = False
        self.unsent = False
        self.slow_connect = False
        self.queued = 0.0

    def may_repeat(self) -> bool:
        """Whether another connection may be tried; then that is counted."""
        return self.health is None or self.health.take_retry()

    def end(self) -> None:
        """The answer is over, or given up."""
        if self.ended is None:
            self.ended = perf_counter()

    @property
    def lasted(self) -> float:
        """Seconds, until now if it has not ended."""
        return (self.ended or perf_counter()) - self.started
