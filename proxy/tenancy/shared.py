"""Limits over all replicas, in Redis or Valkey (operations.md 9.4).

A lease lives in the store for `LIFE` and is refreshed as long as its request is open, so that what a lost replica held
ends by itself: charged as reserved, and counted as expired by whoever finds it. What the store itself has lost does
not come back: requests that were open then no longer count as open.

When the store does not answer, `on_failure` holds: `open` admits all, `closed` nothing, `local` what limits in this
process alone admit. With `local`, tenants with a hard budget are refused too after `BUDGET_GRACE`: nobody knows
what they have left. `open` was chosen for that to be no reason. What is used meanwhile is not charged afterwards.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Literal

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant
from proxy.tenancy.limits import Demand, Lease, Refused, Standing
from proxy.tenancy.memory import HeldLease, MemoryLimiter
from proxy.tenancy.outage import Outage
from proxy.tenancy.settling import Settling
from proxy.tenancy.store import CALL_TIMEOUT, Answer, Question, Settlement, Store, StoreFailed
from proxy.tenancy.terms import BUSY_RETRY_AFTER, standings, terms_of, windows

OnFailure = Literal["open", "closed", "local"]
FailedAs = Literal["failed_open", "failed_closed"]

LIFE = 30.0  # seconds
REFRESHES = 3  # in a life: two may fail
SWEPT_FOR = 300.0  # seconds after a tenant's last request in which its lost leases are looked for
BUDGET_GRACE = 60.0
CLOSE_WITHIN = 2.0
RETRY_AFTER = 1.0  # of what is refused because the store does not answer


@dataclass(slots=True)
class StoredLease(Lease):
    """`deadline`: when the request can't be open any more, by the store's clock; `until`: by this process's.
    `tpd_since`, `budget_since`: the windows that were charged."""

    deadline: float = 0.0
    until: float = 0.0
    tpd_since: float = 0.0
    budget_since: float = 0.0


class SharedLimiter:
    """`timeout`: seconds for which a request waits for the store. `now`: this process's Unix seconds, for when days and
    periods end; `store_now`: in place of the store's clock, in tests. `on_failed` is told of each request that was
    admitted or refused without the store.

    What may be read at any time: `reachable`, whether the store answered last; `expired`: leases that ended unsettled;
    `reserved_tokens`: of this replica's open leases.
    """

    def __init__(
        self,
        url: str,
        on_failure: OnFailure = "local",
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        store_now: Callable[[], float] | None = None,
        life: float = LIFE,
        timeout: float = CALL_TIMEOUT,
        on_expired: Callable[[int], None] | None = None,
        on_failed: Callable[[FailedAs], None] | None = None,
    ) -> None:
        self.expired = self.failed_open = self.failed_closed = 0
        self._on_failure = on_failure
        self._clock, self._now, self._life = clock, now, life
        self._on_expired = on_expired
        self._on_failed = on_failed
        self._store = Store(url, timeout, store_now)
        self._local = MemoryLimiter(clock, now, self._count_expired)
        self._outage = Outage(clock)
        self._questions: dict[str, Question] = {}
        self._open: dict[str, StoredLease] = {}
        self._held_tokens = 0
        self._ids = count()
        self._replica = secrets.token_hex(6)
        self._settling = Settling(self._store, self._outage, clock, life)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def reachable(self) -> bool:
        """Whether the store answered the last time that it was asked."""
        return self._outage.since is None

    @property
    def ready(self) -> bool:
        """Whether requests can be admitted."""
        return self.reachable or self._on_failure != "closed"

    @property
    def reserved_tokens(self) -> int:
        """Of all leases that are open in this replica."""
        return self._held_tokens + self._local.reserved_tokens

    async def reserve(self, tenant: Tenant, demand: Demand) -> Lease | Refused:
        """All or nothing: what refuses takes nothing."""
        question = self._question(tenant)
        if not question.terms.counted:
            return _free_lease(tenant, demand, self._now())
        question.asked = self._clock()
        self._work()
        if not self._outage.may_ask():
            return await self._without_store(tenant, demand)
        lease_id = f"{self._replica}{next(self._ids):x}"
        try:
            answer = await self._store.reserve(question, lease_id, demand, self._life, self._now())
        except StoreFailed as failure:
            self._undo(question, tenant, lease_id, demand)
            self._outage.failed(failure)
            return await self._without_store(tenant, demand)
        except asyncio.CancelledError:
            self._undo(question, tenant, lease_id, demand)
            raise
        self._answered(answer.expired)
        told = windows(question.terms, *answer.reading[:6])
        if answer.reason:
            return Refused(Reason(answer.reason), _retry_after(answer), told)
        lease = StoredLease(
            lease_id,
            tenant,
            demand.tokens,
            demand.cost,
            demand.stream,
            answer.at,
            told,
            deadline=answer.at + demand.lasts,
            until=self._clock() + demand.lasts,
            tpd_since=answer.tpd_since,
            budget_since=answer.budget_since,
        )
        self._open[lease_id] = lease
        self._held_tokens += lease.tokens
        return lease

    def settle(self, lease: Lease, tokens: int, cost: int) -> None:
        """It is sent from a queue, again and again until the lease would have ended by itself."""
        if isinstance(lease, HeldLease):
            self._local.settle(lease, tokens, cost)
        elif not lease.settled:
            lease.settled = True
            if isinstance(lease, StoredLease) and self._open.pop(lease.id, None) is not None:
                self._held_tokens -= lease.tokens
                self._settling.add(self._settlement(lease, tokens, cost))

    async def standings(self, tenant: Tenant) -> list[Standing]:
        """How all the tenant's limits stand now; without the store those of this process, if they hold."""
        question = self._question(tenant)
        if self._outage.may_ask():
            try:
                answer = await self._store.read(question, self._now())
            except StoreFailed as failure:
                self._outage.failed(failure)
            else:
                self._answered(answer.expired)
                return list(standings(question.terms, answer.reading))
        return await self._local.standings(tenant) if self._on_failure == "local" else []

    async def flush(self, within: float = CLOSE_WITHIN) -> None:
        """Wait until the store knows all that was settled, but no longer than so many seconds."""
        await self._settling.finish(within)

    async def close(self, within: float = CLOSE_WITHIN) -> None:
        """Wait so many seconds at most for what has not been settled in the store yet, and let go of it."""
        await self.flush(within)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    def _question(self, tenant: Tenant) -> Question:
        question = self._questions.get(tenant.name)
        if question is None or question.terms.limits is not tenant.limits:
            question = self._questions[tenant.name] = Question(tenant.name, terms_of(tenant.limits))
        return question

    async def _without_store(self, tenant: Tenant, demand: Demand) -> Lease | Refused:
        budget = tenant.limits.budget
        blind = budget is not None and budget.hard and self._outage.lasts() >= BUDGET_GRACE
        if self._on_failure == "closed" or (self._on_failure == "local" and blind):
            self.failed_closed += 1
            self._tell_failed("failed_closed")
            return Refused(Reason.OVERLOADED, RETRY_AFTER)
        self.failed_open += 1
        self._tell_failed("failed_open")
        if self._on_failure == "open":
            return _free_lease(tenant, demand, self._now())
        return await self._local.reserve(tenant, demand)

    def _tell_failed(self, how: FailedAs) -> None:
        if self._on_failed is not None:
            self._on_failed(how)

    def _settlement(self, lease: StoredLease, tokens: int, cost: int) -> Settlement:
        limits = lease.tenant.limits
        return Settlement(
            tenant=lease.tenant.name,
            id=lease.id,
            tokens=tokens - lease.tokens,
            cost=cost - lease.cost,
            rate="" if limits.tpm is None else repr(self._questions[lease.tenant.name].terms.rate),
            tpd_since="" if limits.tpd is None else repr(lease.tpd_since),
            budget_since="" if limits.budget is None else repr(lease.budget_since),
        )

    def _undo(self, question: Question, tenant: Tenant, lease_id: str, demand: Demand) -> None:
        """The store may have taken what nobody was told of. The pace of requests alone stays as if one had come."""
        rate = repr(question.terms.rate) if question.terms.rate else ""
        self._settling.add(Settlement(tenant.name, lease_id, -demand.tokens, -demand.cost, rate, "*", "*"))

    def _work(self) -> None:
        """Begin with what goes on beside the requests; it needs a running loop, which a constructor may not have."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._settling.run()), asyncio.create_task(self._refresh())]

    async def _refresh(self) -> None:
        """Keep alive what is open, for ever; and find what nobody keeps alive of tenants that were asked for lately. Of
        others it is found when they are asked for again."""
        while True:
            await asyncio.sleep(self._life / REFRESHES if self.reachable else self._outage.pause())
            self._let_go()
            since = self._clock() - SWEPT_FOR
            held: dict[str, list[tuple[str, float]]] = {
                name: [] for name, question in self._questions.items() if question.asked > since
            }
            for lease in self._open.values():
                held.setdefault(lease.tenant.name, []).append((lease.id, lease.deadline))
            if not held:  # then it is asked whether the store answers
                held[next(iter(self._questions))] = []
            try:
                expired = await self._store.refresh(held, self._life)
            except StoreFailed as failure:
                self._outage.failed(failure)
            else:
                self._answered(expired)

    def _let_go(self) -> None:
        """Of what should have been settled long ago. The store counts it."""
        now = self._clock()
        for lease in [lease for lease in self._open.values() if lease.until <= now]:
            del self._open[lease.id]
            self._held_tokens -= lease.tokens

    def _answered(self, expired: int) -> None:
        self._outage.answered()
        if expired:
            self._count_expired(expired)

    def _count_expired(self, leases: int) -> None:
        self.expired += leases
        if self._on_expired is not None:
            self._on_expired(leases)


def _retry_after(answer: Answer) -> float | None:
    """None: it lasts until a day or a period is over."""
    match answer.reason:
        case "rpm" | "tpm":
            return answer.wait
        case "concurrency":
            return BUSY_RETRY_AFTER
        case _:
            return None


def _free_lease(tenant: Tenant, demand: Demand, now: float) -> Lease:
    """Of nothing: there is nothing to settle."""
    return Lease("", tenant, demand.tokens, demand.cost, demand.stream, now)
