"""The limiter in this process and the one over all replicas decide alike, whatever is asked of them when.

Beside that: nothing is admitted beyond what the limits allow, and what refuses takes nothing.
"""

import asyncio
import itertools
from dataclasses import dataclass
from datetime import date, datetime
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.settings.tenants import Budget, Tenant, TenantLimits
from proxy.tenancy.limits import Demand, Lease, Refused
from proxy.tenancy.memory import MemoryLimiter
from proxy.tenancy.shared import SharedLimiter
from tests.tenancy.limiting import PATIENCE, Clock, demand, taken, used

LIFE = 10.0**9  # so that leases end by their own deadline alone
_numbers = itertools.count()


class Wait(NamedTuple):
    seconds: float


class Reserve(NamedTuple):
    demand: Demand


class Settle(NamedTuple):
    """Of the leases taken so far the one of this place, counted round."""

    place: int
    tokens: int
    cost: int


class Reload(NamedTuple):
    limits: TenantLimits


Step = Wait | Reserve | Settle | Reload

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland")
zones = st.sampled_from([ZoneInfo(name) for name in ZONES])
budgets = st.builds(
    Budget,
    limit=st.integers(0, 400),
    period=st.sampled_from(["day", "week", "month"]),
    anchor=st.sampled_from([None, "2026-12-01", "2026-01-31", "2026-11-29"]),
    timezone=zones,
    hard=st.booleans(),
)
limits = st.builds(
    TenantLimits,
    rpm=st.none() | st.sampled_from([1, 6, 7, 12, 60, 100]),
    rpd=st.none() | st.integers(1, 12),
    tpm=st.none() | st.sampled_from([1, 60, 100, 333, 1000]),
    tpd=st.none() | st.integers(1, 1000),
    concurrency=st.none() | st.integers(1, 4),
    streams=st.none() | st.integers(1, 3),
    timezone=zones,
    budget=st.none() | budgets,
)
amounts = st.integers(0, 300)
waits = st.floats(0, 120) | st.sampled_from([0.1, 1.0, 10.0, 60.0, 3600.0, 43_200.0, 86_400.0, 40 * 86_400.0])
demands = st.builds(Demand, amounts, amounts, st.booleans(), st.sampled_from([5.0, 60.0, 600.0, 100_000.0]))
steps = st.one_of(
    st.builds(Wait, waits),
    st.builds(Reserve, demands),
    st.builds(Reserve, demands),
    st.builds(Settle, st.integers(0, 30), amounts, amounts),
    st.builds(Reload, limits),
)


@dataclass
class Seen:
    """Leases of both limiters, side by side, and what both said."""

    memory: list[Lease]
    shared: list[Lease]


@settings(max_examples=150, deadline=None)
@given(first=limits, script=st.lists(steps, max_size=40))
def test_both_limiters_decide_alike(redis_url: str, first: TenantLimits, script: list[Step]) -> None:
    asyncio.run(_play(redis_url, first, script))


async def _play(redis_url: str, first: TenantLimits, script: list[Step]) -> None:
    clock = Clock()
    memory = MemoryLimiter(clock, clock)
    shared = SharedLimiter(redis_url, "closed", now=clock, store_now=clock, life=LIFE, timeout=PATIENCE)
    tenant = Tenant(f"same-{next(_numbers)}", limits=first)
    seen = Seen([], [])
    try:
        for step in script:
            match step:
                case Wait():
                    clock.now += step.seconds
                case Reserve():
                    await _reserve_at_both(memory, shared, tenant, step.demand, seen)
                case Settle() if seen.memory:
                    place = step.place % len(seen.memory)
                    memory.settle(seen.memory[place], step.tokens, step.cost)
                    shared.settle(seen.shared[place], step.tokens, step.cost)
                    await shared.flush()
                case Reload():
                    tenant = Tenant(tenant.name, limits=step.limits)
            assert await memory.standings(tenant) == await shared.standings(tenant)
            assert memory.expired == shared.expired
    finally:
        await shared.close()


async def _reserve_at_both(
    memory: MemoryLimiter, shared: SharedLimiter, tenant: Tenant, demand: Demand, seen: Seen
) -> None:
    before = await memory.standings(tenant)
    one, other = await memory.reserve(tenant, demand), await shared.reserve(tenant, demand)
    if isinstance(one, Lease) and isinstance(other, Lease):
        assert (one.at, one.windows) == (other.at, other.windows)
        seen.memory.append(one)
        seen.shared.append(other)
    else:
        assert one == other
        assert isinstance(one, Refused)
        assert await memory.standings(tenant) == before


@settings(max_examples=150, deadline=None)
@given(
    bounds=limits,
    script=st.lists(st.floats(0, 30) | demands, max_size=60),
    parts=st.lists(st.floats(0, 1), min_size=60, max_size=60),
)
def test_limits_hold(bounds: TenantLimits, script: list[float | Demand], parts: list[float]) -> None:
    """With requests that use no more than they reserved, at most a burst comes beyond the even pace."""
    asyncio.run(_hold(bounds, script, parts))


async def _hold(bounds: TenantLimits, script: list[float | Demand], parts: list[float]) -> None:
    clock = Clock()
    limiter = MemoryLimiter(clock, clock)
    tenant = Tenant("held", limits=bounds)
    admitted: list[tuple[float, Lease]] = []
    held: list[tuple[Lease, float]] = []
    for step, part in zip(script, parts, strict=False):
        if isinstance(step, float):
            clock.now += step
            if held:
                _settle_part(limiter, *held.pop(0))
            continue
        answer = await limiter.reserve(tenant, step._replace(lasts=LIFE))
        if isinstance(answer, Lease):
            admitted.append((clock.now, answer))
            held.append((answer, part))
        assert bounds.concurrency is None or len(held) <= bounds.concurrency
        assert bounds.streams is None or sum(lease.stream for lease, _ in held) <= bounds.streams
    for lease, part in held:
        _settle_part(limiter, lease, part)
    assert limiter.reserved_tokens == 0
    if bounds.rpm is not None:
        burst = max(1, bounds.rpm // 6)
        for first, last in itertools.combinations(range(len(admitted)), 2):
            seconds = admitted[last][0] - admitted[first][0]
            assert last - first + 1 <= burst + seconds * bounds.rpm / 60 + 1e-3
    by_day: dict[date, list[Lease]] = {}
    for at, lease in admitted:
        by_day.setdefault(datetime.fromtimestamp(at, bounds.timezone).date(), []).append(lease)
    for leases in by_day.values():
        assert bounds.rpd is None or len(leases) <= bounds.rpd


def _settle_part(limiter: MemoryLimiter, lease: Lease, part: float) -> None:
    limiter.settle(lease, int(lease.tokens * part), int(lease.cost * part))


@settings(max_examples=60, deadline=None)
@given(uses=st.lists(st.tuples(amounts, amounts, amounts, amounts), max_size=20), order=st.randoms())
def test_settled_leases_leave_what_was_used(uses: list[tuple[int, int, int, int]], order: Random) -> None:
    """Whatever was reserved, and in whatever order it is settled, once or twice."""
    asyncio.run(_settle_all(uses, order))


async def _settle_all(uses: list[tuple[int, int, int, int]], order: Random) -> None:
    clock = Clock()
    limiter = MemoryLimiter(clock, clock)
    tenant = Tenant("all", limits=TenantLimits(tpd=10**6, concurrency=100, budget=Budget(10**6)))
    open_leases: list[tuple[Lease, int, int]] = []
    for reserved, reserved_cost, tokens, cost in uses:
        lease = await taken(limiter, tenant, demand(reserved, reserved_cost))
        open_leases.append((lease, tokens, cost))
    order.shuffle(open_leases)
    for lease, tokens, cost in open_leases + open_leases[:3]:
        limiter.settle(lease, tokens, cost)
    spent = {"tpd": sum(use[2] for use in uses), "concurrency": 0, "budget": sum(use[3] for use in uses)}
    assert await used(limiter, tenant) == spent
    assert limiter.reserved_tokens == 0
