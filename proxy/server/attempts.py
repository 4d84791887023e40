"""The attempts of one request (operations.md 11): what follows when a backend fails before its client has heard a byte.

The same target again, another key of it, another target, or the error for the client. What follows from which failure
is in `upstream/verdicts.py`; each attempt is made from the client's own request, never from an earlier translation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import Loss, format_path
from proxy.server.admission import Admitted, read_again
from proxy.server.answers import Passed
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served, Way
from proxy.server.spending import note_price
from proxy.settings import ModelRoute
from proxy.translation import pair
from proxy.translation.pair import Peek
from proxy.translation.pins import pin_of
from proxy.translation.prepared import Prepared
from proxy.upstream.repeatable import leaves_traces
from proxy.upstream.verdicts import FINAL, UNFIT, Verdict, verdict_of

T = TypeVar("T")

log = logging.getLogger("dragoman")


@dataclass(slots=True)
class _Failure:
    """What a client is told if nothing better comes, and what the exchange looked like then. Not the exception, which
    would refer to all that was going on."""

    error: Error
    losses: list[Loss]
    passed: tuple[int, bytes] | None
    served: Served | None
    model: str | None
    prepared: Prepared | None

    def exception(self) -> Rejected | Passed:
        if self.passed is not None:
            return Passed(self.error, *self.passed)
        rejected = Rejected(self.error)
        rejected.losses = self.losses
        return rejected


class Attempts:
    """`route` is the model's entry, and `served` the backend whose turn it is."""

    __slots__ = (
        "_began",
        "_exchange",
        "_fill",
        "_hop",
        "_is_long",
        "_open",
        "_other_keys",
        "_repeats",
        "_requested",
        "_routing",
        "_seen",
        "_told",
        "_way",
        "route",
        "served",
    )

    def __init__(self, exchange: Exchange, admitted: Admitted) -> None:
        self.route: ModelRoute = admitted.route
        self._exchange = exchange
        self._routing = admitted.routing
        self._fill = admitted.fill
        self._seen: Peek | None = admitted.seen
        self._requested = admitted.seen.model
        self._way = admitted.way
        self.served = admitted.way.served
        self._began: float | None = None
        self._repeats = False
        self._open = False
        self._other_keys = 0
        self._is_long = False
        self._told: _Failure | None = None
        self._hop: tuple[str, str] | None = None
        if len(self.served.backend.accounts) > 1:
            self._use_credential()
        if exchange.price is not None:
            note_price(exchange, self._requested, self.model)
        if self._routing is not None and self._way is not self._routing.preferred:
            self._note_hop(self._routing.preferred, "spared")

    @property
    def model(self) -> str:
        """The backend's name for the model."""
        return self._way.target.model or self._requested

    def take_seen(self) -> Peek:
        """The client's request for the target whose turn it is. It is parsed once for each, and not kept: holding it
        while the backend is asked costs memory and cache."""
        seen, self._seen = self._seen, None
        return seen if seen is not None else read_again(self._exchange, self.served, fill=self._fill)

    def begin(self) -> None:
        """The backend is asked now."""
        self._open = True
        self.served.health.begin(retry=self._repeats)
        if self._began is None:
            self._began = perf_counter()

    async def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` gives, in as many attempts as it takes. Raises `Rejected` and `Passed`."""
        watch = self._exchange.watch
        try:
            while True:
                try:
                    answer = await ask()
                except (Rejected, Passed) as failure:
                    if not await self._goes_on(failure):
                        raise
                except asyncio.CancelledError:
                    if (error := watch.overdue()) is None:
                        raise
                    if not await self._goes_on(Rejected(error)):
                        raise Rejected(error) from None
                else:
                    self._succeed()
                    return answer
        finally:
            if self._open:
                self.served.health.abandoned()

    # ---- what came of an attempt

    def _succeed(self) -> None:
        if not self._open:
            return
        self._open = False
        broke = self._exchange.outcome == "upstream_error"
        if broke:
            self.served.health.failed()
        elif not self._exchange.alive:
            self.served.health.succeeded()
        self._count_hop("failed" if broke else "ok")

    async def _goes_on(self, failure: Rejected | Passed) -> bool:
        """Whether there is another attempt, for which all is ready then. Raises what the client is told in place of
        the failure, where that is something else."""
        error, exchange = failure.error, self._exchange
        verdict = verdict_of(error)
        account = exchange.account(self.served.backend) if verdict.key or verdict.cools else None
        if verdict.key and account is not None and account.of_client:
            verdict = FINAL  # it is for the client to know
        asked, self._open = self._open, False
        if asked:
            self._note_outcome(verdict, error)
        self._keep(failure, verdict)
        if exchange.begun or (asked and self._is_spent()):
            return False
        failed = self.served.backend.name
        again = asked and (self._takes_other_key(verdict) or await self._is_asked_again(verdict, error))
        if again or self._goes_elsewhere(verdict, error):
            if error.kind is ErrorClass.UPSTREAM_AUTH:  # or nobody would hear of it
                traffic = exchange.gateway.runtime.metrics.traffic
                traffic.errors.add("upstream", error.kind.value, traffic.upstream(failed))
            return True
        self._give_up(verdict)
        return False

    def _note_outcome(self, verdict: Verdict, error: Error) -> None:
        exchange, health = self._exchange, self.served.health
        if verdict.counts and not self._has_answered():
            health.failed()
        else:
            health.abandoned()
        if exchange.times.attempts:
            exchange.times.attempts[-1].failed = verdict.cause
        self._count_hop("failed")
        if not (verdict.key or verdict.cools):
            return
        backend = self.served.backend
        key = exchange.account(backend).digest
        if verdict.cools:
            health.cool(key, self.model, error.retry_after)
        else:
            health.give_up(key)
            log.warning(
                "Upstream %s refuses a key or its account is used up: it is left alone for a while", backend.name
            )

    def _keep(self, failure: Rejected | Passed, verdict: Verdict) -> None:
        """Remember what to tell: what backends said, rather than that another would not do."""
        if verdict is UNFIT and self._told is not None:
            return
        exchange = self._exchange
        losses = failure.losses if isinstance(failure, Rejected) else []
        passed = (failure.status, failure.body) if isinstance(failure, Passed) else None
        self._told = _Failure(failure.error, losses, passed, exchange.served, exchange.model, exchange.prepared)

    def _is_spent(self) -> bool:
        """Whether the request must not be sent again: time is up, it has been answered in part, or it does something
        at the backend beside the answer."""
        exchange = self._exchange
        prepared, attempts = exchange.prepared, exchange.times.attempts
        if self._left() <= 0 or self._has_answered():
            return True
        body = prepared.body if prepared is not None else exchange.raw
        return bool(attempts) and not attempts[-1].unsent and body is not None and leaves_traces(body)

    def _has_answered(self) -> bool:
        """Whether the backend has given a whole answer, of which only the use is in question."""
        exchange, prepared = self._exchange, self._exchange.prepared
        return exchange.answered_in_part or (prepared is not None and any(each.over for each in prepared.rounds()))

    def _give_up(self, verdict: Verdict) -> None:
        routing, told = self._routing, self._told
        if routing is not None and routing.pinned is not None and verdict.elsewhere and verdict is not UNFIT:
            raise Rejected(_not_portable(format_path(routing.pinned))) from None
        if verdict is UNFIT and told is not None:
            self._told = None  # what is raised refers to this frame
            exchange = self._exchange
            exchange.served, exchange.model, exchange.prepared = told.served, told.model, told.prepared
            raise told.exception() from None

    # ---- what follows

    def _takes_other_key(self, verdict: Verdict) -> bool:
        # Each key has one turn: a limit may be over before the next key has met its own.
        if not (verdict.key or verdict.cools) or self._other_keys >= len(self.served.backend.accounts) - 1:
            return False
        if not self._use_credential():
            return False
        self._other_keys += 1
        self._count_retry(verdict)
        self._repeat(retry=False)
        return True

    def _use_credential(self) -> bool:
        """Ask with the first of the backend's keys that is of use; False if there is none other than now."""
        return self._exchange.change_credential(self.served, self.model)

    async def _is_asked_again(self, verdict: Verdict, error: Error) -> bool:
        if verdict.again not in ("paused", "if_soon") or self._repeats or error.should_retry is False:
            return False
        if self._exchange.times.attempts[-1].repeated or (verdict.again == "if_soon" and error.retry_after is None):
            return False
        health = self.served.health
        seconds = health.pause(error.retry_after)
        if seconds is None or seconds >= self._left() or not health.take_retry():
            return False
        self._count_retry(verdict)
        self._exchange.watch.rest()
        await asyncio.sleep(seconds)
        self._exchange.times.upstream += seconds
        self._repeat(retry=True)
        return True

    def _repeat(self, *, retry: bool) -> None:
        self._repeats = retry
        self._exchange.resends += 1
        self._turn_to(self._way)

    def _goes_elsewhere(self, verdict: Verdict, error: Error) -> bool:
        way = self._beyond_context() if error.kind is ErrorClass.CONTEXT_LENGTH else None
        if way is None and verdict.elsewhere and self._routing is not None:
            way = self._routing.following()
        if way is None:
            return False
        before, self._repeats, self._other_keys = self._way, False, 0
        self._exchange.resends = 0
        self._turn_to(way)
        self._note_hop(before, verdict.cause)
        self._use_credential()
        return True

    def _beyond_context(self) -> Way | None:
        """Where requests go that are too long for the others, once."""
        target, caller = self.route.on_context_length, self._exchange.caller
        if target is None or self._is_long or self._exchange.endpoint != "generate":
            return None
        if caller is not None and not caller.may_ask(target.upstream.name):
            return None
        self._is_long = True
        way = Way(target, self._exchange.gateway.served[target.upstream.name])
        return way if self._origin(way.served) == self._origin(self.served) or not self._is_pinned() else None

    def _is_pinned(self) -> bool:
        """Whether only this backend knows all that the request refers to."""
        client = self._exchange.client
        wire = pair.peek(client, self._exchange.raw or b"").wire
        return pin_of(wire, passed=self.served.backend.protocol == client) is not None

    def _origin(self, served: Served) -> str:
        return served.backend.origin_of(self._exchange.account(served.backend))

    def _turn_to(self, way: Way) -> None:
        exchange = self._exchange
        self._way = way
        self.served = way.served
        if self._began is not None:
            self.served = way.served.within(self._left(), perf_counter() - self._began)
        exchange.served = self.served
        exchange.forget_answer()
        note_price(exchange, self._requested, self.model)

    def _longest(self) -> float:
        """Seconds for all attempts: the longest that any of the targets may take to begin."""
        gateway, stream = self._exchange.gateway, self._exchange.stream
        limits = [gateway.served[target.upstream.name].limits for target in self.route.all_targets]
        return max((each.first_event if stream else each.first_event_whole).seconds for each in limits)

    def _left(self) -> float:
        """Seconds until that is over."""
        return self._began + self._longest() - perf_counter() if self._began is not None else float("inf")

    # ---- what is told

    def _count_retry(self, verdict: Verdict) -> None:
        traffic = self._exchange.gateway.runtime.metrics.traffic
        traffic.retries.add(traffic.upstream(self.served.backend.name), verdict.cause)

    def _note_hop(self, before: Way, cause: str) -> None:
        exchange, one, other = self._exchange, before.served.backend.name, self._way.served.backend.name
        self._hop = (one, other)
        exchange.fallback_from = exchange.fallback_from or one
        if exchange.spans is not None:
            exchange.spans.note_fallback(one, other, cause)

    def _count_hop(self, result: str) -> None:
        if self._hop is not None:
            traffic = self._exchange.gateway.runtime.metrics.traffic
            one, other = self._hop
            traffic.fallbacks.add(traffic.upstream(one), traffic.upstream(other), result)
            self._hop = None


def _not_portable(at: str) -> Error:
    message = (
        f"{at}: it refers to what only the backend knows that made it, and that one can't answer now. Another backend "
        "would need the whole history."
    )
    return Error(ErrorClass.INVALID, message, "dragoman_state_not_portable", at, reason=Reason.STATE_NOT_PORTABLE)
