"""Limits in this process alone: exact for one replica, and gone when it ends, but for what `snapshot` hands over.

What a tenant has used is kept under its name, so that a reload of the settings changes limits and nothing else.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant, TenantLimits
from proxy.tenancy.limits import MOST_SPENT, Demand, Dimension, Lease, Refused, Spent, Standing, Window
from proxy.tenancy.terms import BUSY_RETRY_AFTER, Reading, Terms, standings, terms_of, windows
from proxy.tenancy.windows import Calendar


@dataclass(slots=True)
class Tally:
    """What was used in one window of a calendar. `since`: when it was begun with, by which leases know it again."""

    used: int = 0
    end: float = 0.0
    since: float = 0.0

    def roll(self, now: float, calendar: Calendar) -> None:
        """Begin anew if the window is over."""
        if now >= self.end:
            self.used, self.end, self.since = 0, calendar.end(now), now
        elif now < self.since:  # the clock was ahead then
            self.end = calendar.end(now)

    def settle(self, since: float, difference: int) -> None:
        """A lease of a window that is over changes nothing in this one."""
        if since == self.since:
            self.used = min(max(0, self.used + difference), MOST_SPENT)


@dataclass(slots=True)
class Account:
    """What one tenant has used. `turn`: when the next request would be due at an even pace. `tokens`: in the bucket at
    `at`. `soonest`: no open lease ends before."""

    terms: Terms
    turn: float = 0.0
    tokens: float = 0.0
    at: float = 0.0
    rpd: Tally = field(default_factory=Tally)
    tpd: Tally = field(default_factory=Tally)
    budget: Tally = field(default_factory=Tally)
    open: dict[str, "HeldLease"] = field(default_factory=dict)
    streams: int = 0
    soonest: float = float("inf")

    def tallies(self) -> tuple[tuple[Dimension, Tally], ...]:
        """Those that outlast the process."""
        return ("rpd", self.rpd), ("tpd", self.tpd), ("budget", self.budget)


@dataclass(slots=True)
class HeldLease(Lease):
    """`deadline`: by this process's clock. `tpd_since`, `budget_since`: the windows that were charged."""

    account: Account | None = None
    deadline: float = 0.0
    tpd_since: float = 0.0
    budget_since: float = 0.0


_NO_TERMS = terms_of(TenantLimits())


class MemoryLimiter:
    """`clock`: seconds that only go on; `now`: Unix seconds, for calendars.

    `expired`: leases that nobody settled until they could not be open any more: charged as reserved, and a fault of
    whoever took them. `reserved_tokens`: of all open leases. Leases are looked through only when a tenant is asked for.
    """

    ready = True

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        on_expired: Callable[[int], None] | None = None,
    ) -> None:
        self.expired = 0
        self.reserved_tokens = 0
        self._clock = clock
        self._now = now
        self._on_expired = on_expired
        self._accounts: dict[str, Account] = {}
        self._ids = count()

    async def reserve(self, tenant: Tenant, demand: Demand) -> Lease | Refused:
        """All or nothing: what refuses takes nothing."""
        clock, now = self._clock(), self._now()
        account = self._account(tenant, clock, now)
        terms = account.terms
        if not terms.counted:
            return Lease("", tenant, demand.tokens, demand.cost, demand.stream, now)
        ahead = terms.ahead(account.turn, clock) if terms.interval else 0.0
        used = terms.used(account.tokens, account.at, clock) if terms.rate else 0.0
        refused = _refusal(account, demand, ahead, used)
        if refused is not None:
            return Refused(*refused, _windows(account, ahead, used, now))
        limits = terms.limits
        if terms.interval:
            ahead += terms.interval
            account.turn = clock + ahead
        if terms.rate:
            used += demand.tokens
            account.tokens, account.at = used, clock
        if limits.rpd is not None:
            account.rpd.used += 1
        if limits.tpd is not None:
            account.tpd.used += demand.tokens
        if limits.budget is not None:
            account.budget.used += demand.cost
        lease = HeldLease(
            str(next(self._ids)),
            tenant,
            demand.tokens,
            demand.cost,
            demand.stream,
            now,
            _windows(account, ahead, used, now),
            False,
            account,
            clock + demand.lasts,
            account.tpd.since,
            account.budget.since,
        )
        self._open(account, lease)
        return lease

    def settle(self, lease: Lease, tokens: int, cost: int) -> None:
        """What was used beyond the reserve becomes a debt. A second call does nothing."""
        if lease.settled:
            return
        lease.settled = True
        if not isinstance(lease, HeldLease) or lease.account is None:
            return
        account = lease.account
        self._close(account, lease)
        limits = lease.tenant.limits
        if limits.tpm is not None:
            clock = self._clock()
            used = account.terms.used(account.tokens, account.at, clock)
            account.tokens, account.at = min(max(0.0, used + (tokens - lease.tokens)), MOST_SPENT), clock
        if limits.tpd is not None:
            account.tpd.settle(lease.tpd_since, tokens - lease.tokens)
        if limits.budget is not None:
            account.budget.settle(lease.budget_since, cost - lease.cost)

    async def standings(self, tenant: Tenant) -> list[Standing]:
        """How all the tenant's limits stand now."""
        clock, now = self._clock(), self._now()
        account = self._account(tenant, clock, now)
        terms = account.terms
        used = terms.used(account.tokens, account.at, clock)
        return list(standings(terms, _reading(account, terms.ahead(account.turn, clock), used, now)))

    async def close(self) -> None:
        """There is nothing to wait for."""

    def snapshot(self) -> Iterator[tuple[str, dict[Dimension, Spent]]]:
        """By tenant, what has been used in windows that are not over; open leases as they were reserved.

        It may be read in portions while requests go on: each tenant is as it is when it is its turn.
        """
        now = self._now()
        for name, account in list(self._accounts.items()):
            spent: dict[Dimension, Spent] = {
                dimension: Spent(min(tally.used, MOST_SPENT), tally.end)
                for dimension, tally in account.tallies()
                if tally.used and now < tally.end
            }
            if spent:
                yield name, spent

    def restore(self, kept: Mapping[str, Mapping[Dimension, Spent]]) -> None:
        """Go on with an earlier snapshot, but for windows that are over. To be called before the first request; what
        holds for a tenant is known when it comes, and those who never come are handed over again."""
        now = self._now()
        for name, spent in kept.items():
            account = Account(_NO_TERMS)
            for dimension, tally in account.tallies():
                if (found := spent.get(dimension)) is not None and now < found.end:
                    tally.used, tally.end, tally.since = found.used, found.end, now
            self._accounts[name] = account

    def _account(self, tenant: Tenant, clock: float, now: float) -> Account:
        """The tenant's, by its limits of now, with nothing in it that is over."""
        account = self._accounts.get(tenant.name)
        if account is None:
            account = self._accounts[tenant.name] = Account(terms_of(tenant.limits))
        elif account.terms.limits is not tenant.limits:
            _adopt(account, terms_of(tenant.limits), now)
        terms = account.terms
        limits = terms.limits
        if terms.interval and account.turn - clock > terms.most_ahead:  # by a slower pace that held before
            account.turn = clock + terms.most_ahead
        if limits.rpd is not None:
            account.rpd.roll(now, terms.days)
        if limits.tpd is not None:
            account.tpd.roll(now, terms.days)
        if terms.periods is not None:
            account.budget.roll(now, terms.periods)
        if clock >= account.soonest:
            self._reap(account, clock)
        return account

    def _open(self, account: Account, lease: HeldLease) -> None:
        account.open[lease.id] = lease
        account.streams += lease.stream
        account.soonest = min(account.soonest, lease.deadline)
        self.reserved_tokens += lease.tokens

    def _close(self, account: Account, lease: HeldLease) -> None:
        del account.open[lease.id]
        account.streams -= lease.stream
        self.reserved_tokens -= lease.tokens

    def _reap(self, account: Account, clock: float) -> None:
        """End what nobody settled. It is rare: `soonest` moves on by as much as the shortest open lease has left."""
        over = [lease for lease in account.open.values() if lease.deadline <= clock]
        for lease in over:
            lease.settled = True
            self._close(account, lease)
        account.soonest = min((lease.deadline for lease in account.open.values()), default=float("inf"))
        self.expired += len(over)
        if over and self._on_expired is not None:
            self._on_expired(len(over))


def _adopt(account: Account, terms: Terms, now: float) -> None:
    """Other limits hold at once; a window that is not over yet ends as the new calendar says."""
    account.terms = terms
    limits = terms.limits
    for limit, tally, calendar in (
        (limits.rpd, account.rpd, terms.days),
        (limits.tpd, account.tpd, terms.days),
        (limits.budget, account.budget, terms.periods),
    ):
        if limit is not None and calendar is not None and now < tally.end:
            tally.end = calendar.end(now)


def _refusal(account: Account, demand: Demand, ahead: float, used: float) -> tuple[Reason, float | None] | None:
    """The first limit that has no room, cheapest first (operations.md 1), and in how many seconds it has."""
    terms = account.terms
    limits = terms.limits
    if ahead > terms.slack:
        return Reason.RPM, ahead - terms.slack
    if limits.rpd is not None and account.rpd.used >= limits.rpd:
        return Reason.RPD, None
    if limits.concurrency is not None and len(account.open) >= limits.concurrency:
        return Reason.CONCURRENCY, BUSY_RETRY_AFTER
    if demand.stream and limits.streams is not None and account.streams >= limits.streams:
        return Reason.CONCURRENCY, BUSY_RETRY_AFTER
    if terms.rate and (wait := terms.token_wait(used, demand.tokens)):
        return Reason.TPM, wait
    # One that wants more than all of a day may when nothing has been used, as with the tokens of a minute.
    if limits.tpd is not None and account.tpd.used and account.tpd.used + demand.tokens > limits.tpd:
        return Reason.TPD, None
    budget, spent = limits.budget, account.budget.used
    # What this one may cost is not asked: the last cents can be spent too, and an estimate is no price.
    if budget is not None and budget.hard and spent >= budget.limit:
        return Reason.BUDGET, None
    return None


def _reading(account: Account, ahead: float, used: float, now: float) -> Reading:
    rpd, tpd, budget = account.rpd, account.tpd, account.budget
    return Reading(
        ahead,
        used,
        rpd.used,
        rpd.end - now,
        tpd.used,
        tpd.end - now,
        budget.used,
        budget.end - now,
        len(account.open),
        account.streams,
    )


def _windows(account: Account, ahead: float, used: float, now: float) -> tuple[Window, ...]:
    rpd, tpd = account.rpd, account.tpd
    return windows(account.terms, ahead, used, rpd.used, rpd.end - now, tpd.used, tpd.end - now)
