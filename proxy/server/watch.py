"""The time limits of one exchange, on one timer.

The limit in force changes with what the exchange waits for: the request's body, the first event, the next one, the
client to read. Moving it costs two attributes; the timer is armed again only when it would ring too late. When time
is up the exchange's task is cancelled, and `error` says why. A cancellation without `error` came from outside: the
client left, or the process ends.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.settings import Timeouts

# How long an answer that told why it stops may take to tell its usage and end (mapping.md 13.8).
END_MARK = 2.0


class Limit(NamedTuple):
    """`seconds` to wait, and what the client is told then; None: there is nobody left to tell."""

    seconds: float
    error: Error | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits toward one backend, with what is said when they are over (operations.md 12)."""

    first_event: Limit
    first_event_whole: Limit
    idle: Limit
    end_mark: Limit
    total: Limit
    total_whole: Limit
    client_write: Limit
    heartbeat: float
    commit_after: float | None

    def within(self, left: float, spent: float) -> "Limits":
        """What is left of them for a further attempt, `spent` seconds after the first began. It has to begin to answer
        in `left` seconds: the time for all attempts is that of one (operations.md 11)."""
        return replace(
            self,
            first_event=_shorter(self.first_event, left, _NOT_BEGUN),
            first_event_whole=_shorter(self.first_event_whole, left, _NOT_ANSWERED),
            total=_shorter(self.total, self.total.seconds - spent, _NOT_COMPLETE),
            total_whole=_shorter(self.total_whole, self.total_whole.seconds - spent, _NOT_COMPLETE),
            commit_after=None if self.commit_after is None else max(0.0, self.commit_after - spent),
        )


def _shorter(limit: Limit, seconds: float, missed: str) -> Limit:
    return limit if limit.seconds <= seconds else _backend_limit(max(0.0, seconds), missed)


_NOT_BEGUN = "it did not begin to answer"
_NOT_ANSWERED = "it did not answer"
_NOT_COMPLETE = "its answer was not complete"


def limits_of(timeouts: Timeouts) -> Limits:
    """The limits that the settings of an upstream say."""
    return Limits(
        first_event=_backend_limit(timeouts.first_event_stream, _NOT_BEGUN),
        first_event_whole=_backend_limit(timeouts.first_event_whole, _NOT_ANSWERED),
        idle=_backend_limit(timeouts.idle, "it stopped in the middle of its answer and sent nothing"),
        end_mark=_backend_limit(min(END_MARK, timeouts.idle), "it did not end its answer"),
        total=_backend_limit(timeouts.total_stream, _NOT_COMPLETE),
        total_whole=_backend_limit(timeouts.total_whole, _NOT_COMPLETE),
        client_write=Limit(timeouts.client_write, None),
        heartbeat=timeouts.heartbeat,
        commit_after=timeouts.commit_after,
    )


def body_limit(timeouts: Timeouts) -> Limit:
    """How long the client may pause while it sends its request."""
    seconds = timeouts.body_read
    message = f"The rest of the request's body did not come within {seconds:g} s."
    return Limit(seconds, Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))


def _backend_limit(seconds: float, missed: str) -> Limit:
    message = f"The backend took too long: {missed} within {round(seconds, 3):g} s."
    return Limit(seconds, Error(ErrorClass.TIMEOUT, message, reason=Reason.UPSTREAM_TIMEOUT))


class Watch:
    """Watches the task that makes it. `stop()` it in any case."""

    __slots__ = (
        "_beat",
        "_beat_at",
        "_deadline",
        "_handle",
        "_limit",
        "_loop",
        "_rings_at",
        "_task",
        "_total",
        "_total_at",
        "error",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._handle: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self._limit: Limit | None = None
        self._deadline = inf
        self._total: Limit | None = None
        self._total_at = inf
        self._beat: Callable[[], None] | None = None
        self._beat_at = inf
        self.error: Error | None = None

    def wait(self, limit: Limit) -> None:
        """From now on `limit` is in force, in place of the one before."""
        self._limit = limit
        self._deadline = deadline = self._loop.time() + limit.seconds
        if deadline < self._rings_at:
            self._arm(deadline)

    def rest(self) -> None:
        """Nothing is waited for until the next `wait`; the limit for all and the beat go on."""
        self._limit = None
        self._deadline = inf

    def wait_in_all(self, limit: Limit) -> None:
        """`limit` is in force beside the others, whatever happens."""
        self._total = limit
        self._total_at = self._loop.time() + limit.seconds
        if self._total_at < self._rings_at:
            self._arm(self._total_at)

    def beat(self, seconds: float, beat: Callable[[], None]) -> None:
        """Call `beat` once, `seconds` from now; a later call replaces this one."""
        self._beat = beat
        self._beat_at = self._loop.time() + seconds
        if self._beat_at < self._rings_at:
            self._arm(self._beat_at)

    def end(self, error: Error) -> None:
        """Stop the exchange now; `error` is what its client is told."""
        self._cancel(error)

    def overdue(self) -> Error | None:
        """Why the watch cancelled the task that has just caught the cancellation; then the task may go on, unwatched.

        None: someone else cancelled it, or there is nobody left to tell. Then it must end.
        """
        if self.error is None or self._task is None or self._task.uncancel() > 0:
            return None
        self._deadline = self._total_at = self._beat_at = self._rings_at = inf
        error, self.error = self.error, None
        return error

    def stop(self) -> None:
        """Watch no longer. What would have been called is let go: it refers back to here."""
        self._beat = None
        self._beat_at = inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._rings_at = -inf

    def close(self) -> None:
        """The same at the end of a task that is only for this: it keeps what it raised, which may lead back to here."""
        self.stop()
        self._task = None

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._rings_at = at
        self._handle = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._handle = None
        self._rings_at = inf
        now = self._loop.time()
        if now >= self._total_at and self._total is not None:
            return self._cancel(self._total.error)
        if now >= self._deadline and self._limit is not None:
            return self._cancel(self._limit.error)
        if now >= self._beat_at and self._beat is not None:
            self._beat_at = inf
            self._beat()
        following = min(self._deadline, self._total_at, self._beat_at)
        return self._arm(following) if following < inf else None

    def _cancel(self, error: Error | None) -> None:
        self.stop()
        self.error = error
        if self._task is not None:
            self._task.cancel()
