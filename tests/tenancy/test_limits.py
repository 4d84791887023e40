"""What each limit admits and refuses, in this process and over all replicas alike."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from zoneinfo import ZoneInfo

import pytest

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Budget, Tenant
from proxy.tenancy.limits import Demand, Lease, Limiter, Refused, Standing, Window
from proxy.tenancy.memory import MemoryLimiter
from proxy.tenancy.shared import SharedLimiter
from tests.tenancy.limiting import PATIENCE, TO_MIDNIGHT, Clock, demand, refused, taken, tenant, used, with_budget

LIFE = 10.0**9
_names = (f"limits-{number}" for number in itertools.count())

Settle = Callable[[Lease, int, int], Awaitable[None]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def name() -> str:
    """Of a tenant that nobody asked for before."""
    return next(_names)


@pytest.fixture(params=["memory", "shared"])
async def limiter(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Limiter]:
    made: Limiter
    if request.param == "memory":
        made = MemoryLimiter(clock, clock)
    else:
        url = request.getfixturevalue("redis_url")
        made = SharedLimiter(url, "closed", now=clock, store_now=clock, life=LIFE, timeout=PATIENCE)
    yield made
    await made.close()


@pytest.fixture
def settle(limiter: Limiter) -> Settle:
    """Settles, and waits until it shows."""

    async def settled(lease: Lease, tokens: int, cost: int) -> None:
        limiter.settle(lease, tokens, cost)
        if isinstance(limiter, SharedLimiter):
            await limiter.flush()

    return settled


async def admitted(limiter: Limiter, tenant: Tenant, asked: Demand, *, most: int) -> int:
    """How many of `most` requests pass at this moment."""
    answers = [await limiter.reserve(tenant, asked) for _ in range(most)]
    return sum(isinstance(answer, Lease) for answer in answers)


async def test_a_tenant_without_limits_is_never_refused(limiter: Limiter, settle: Settle, name: str) -> None:
    free = tenant(name)
    lease = await taken(limiter, free, demand(10**9, 10**9))
    await settle(lease, 10**9, 10**9)
    assert await limiter.standings(free) == []


async def test_requests_a_minute_come_in_bursts_of_a_sixth(limiter: Limiter, clock: Clock, name: str) -> None:
    sixty = tenant(name, rpm=60)
    assert await admitted(limiter, sixty, demand(), most=20) == 10
    answer = await refused(limiter, sixty)
    assert answer.reason is Reason.RPM
    assert answer.retry_after == pytest.approx(1.0, abs=1e-5)
    clock.now += answer.retry_after
    assert await admitted(limiter, sixty, demand(), most=20) == 1
    clock.now += 60.0
    assert await admitted(limiter, sixty, demand(), most=20) == 10


async def test_one_request_a_minute(limiter: Limiter, clock: Clock, name: str) -> None:
    slow = tenant(name, rpm=1)
    assert await admitted(limiter, slow, demand(), most=5) == 1
    clock.now += 59.9
    assert (await refused(limiter, slow)).retry_after == pytest.approx(0.1, abs=1e-5)
    clock.now += 0.1
    await taken(limiter, slow)


async def test_requests_a_day(limiter: Limiter, settle: Settle, clock: Clock, name: str) -> None:
    two = tenant(name, rpd=2)
    lease = await taken(limiter, two)
    await taken(limiter, two)
    await settle(lease, 0, 0)
    assert await refused(limiter, two) == Refused(Reason.RPD, None, (Window("requests", 2, 0, TO_MIDNIGHT),))
    clock.now += TO_MIDNIGHT - 0.5
    assert (await refused(limiter, two)).reason is Reason.RPD
    clock.now += 0.5
    assert await admitted(limiter, two, demand(), most=5) == 2


async def test_a_day_ends_at_midnight_of_the_tenant(limiter: Limiter, clock: Clock, name: str) -> None:
    berlin = tenant(name, rpd=1, timezone=ZoneInfo("Europe/Berlin"))
    await taken(limiter, berlin)
    clock.now += TO_MIDNIGHT - 3600.0
    await taken(limiter, berlin)


async def test_another_time_zone_ends_the_day_that_runs(limiter: Limiter, clock: Clock, name: str) -> None:
    await taken(limiter, tenant(name, rpd=1))
    berlin = tenant(name, rpd=1, timezone=ZoneInfo("Europe/Berlin"))
    assert (await refused(limiter, berlin)).reason is Reason.RPD
    clock.now += TO_MIDNIGHT - 3600.0
    await taken(limiter, berlin)


async def test_tokens_a_minute_drain_evenly(limiter: Limiter, clock: Clock, name: str) -> None:
    thousand = tenant(name, tpm=1200)
    await taken(limiter, thousand, demand(1000))
    answer = await refused(limiter, thousand, demand(300))
    assert answer == Refused(Reason.TPM, 5.0, (Window("tokens", 1200, 200, 50.0),))
    clock.now += 5.0
    await taken(limiter, thousand, demand(300))
    assert await used(limiter, thousand) == {"tpm": 1200}


async def test_what_was_not_used_is_given_back(limiter: Limiter, settle: Settle, name: str) -> None:
    thousand = tenant(name, tpm=1000, tpd=5000)
    lease = await taken(limiter, thousand, demand(900))
    await settle(lease, 100, 0)
    assert await used(limiter, thousand) == {"tpm": 100, "tpd": 100}


async def test_a_second_settlement_does_nothing(limiter: Limiter, settle: Settle, name: str) -> None:
    counted = tenant(name, tpm=1000, tpd=5000, concurrency=5)
    lease = await taken(limiter, counted, demand(900))
    await taken(limiter, counted, demand(50))
    await settle(lease, 100, 0)
    await settle(lease, 0, 0)
    assert await used(limiter, counted) == {"tpm": 150, "tpd": 150, "concurrency": 1}


async def test_what_was_used_beyond_the_reserve_is_a_debt(
    limiter: Limiter, settle: Settle, clock: Clock, name: str
) -> None:
    sixty = tenant(name, tpm=60)
    await settle(await taken(limiter, sixty, demand(30)), 120, 0)
    assert (await refused(limiter, sixty, demand(1))).retry_after == 61.0
    clock.now += 61.0
    await taken(limiter, sixty, demand(1))


async def test_a_count_that_can_not_be_ends_in_a_refusal_and_no_failure(
    limiter: Limiter, settle: Settle, name: str
) -> None:
    counted = tenant(name, tpm=60, tpd=60, budget=Budget(60))
    await settle(await taken(limiter, counted, demand(30, 30)), 2**64 - 1, 2**70)
    assert (await refused(limiter, counted, demand(1))).reason is Reason.TPM
    assert (await used(limiter, counted)) == {"tpm": 2**53, "tpd": 2**53, "budget": 2**53}
    without = tenant(name, tpd=10**15, budget=Budget(60, hard=False))
    assert (await refused(limiter, without, demand(1))).reason is Reason.TPD
    await taken(limiter, tenant(name, budget=Budget(60, hard=False)), demand(1, 10**17))


async def test_what_is_given_back_late_is_no_more_than_all(
    limiter: Limiter, settle: Settle, clock: Clock, name: str
) -> None:
    sixty = tenant(name, tpm=60)
    lease = await taken(limiter, sixty, demand(60))
    clock.now += 300.0
    await settle(lease, 0, 0)
    assert await admitted(limiter, sixty, demand(60), most=3) == 1


async def test_a_request_larger_than_a_minute_passes_when_nothing_is_used(
    limiter: Limiter, clock: Clock, name: str
) -> None:
    sixty = tenant(name, tpm=60)
    await taken(limiter, sixty, demand(1))
    assert (await refused(limiter, sixty, demand(100))).retry_after == 1.0
    clock.now += 1.0
    await taken(limiter, sixty, demand(100))
    assert (await refused(limiter, sixty, demand(1))).retry_after == 41.0


async def test_a_clock_that_was_ahead_costs_no_more_than_the_day_that_runs(
    limiter: Limiter, clock: Clock, name: str
) -> None:
    single = tenant(name, rpd=1)
    clock.now += 400 * 86_400.0
    await taken(limiter, single)
    clock.now -= 400 * 86_400.0
    assert (await refused(limiter, single)).reason is Reason.RPD
    clock.now += TO_MIDNIGHT
    await taken(limiter, single)


async def test_what_wants_more_than_a_day_has_may_when_nothing_has_been_used(
    limiter: Limiter, settle: Settle, name: str
) -> None:
    small = tenant(name, tpd=100)
    lease = await taken(limiter, small, demand(150))
    assert (await refused(limiter, small, demand(1))).reason is Reason.TPD
    await settle(lease, 40, 0)
    assert (await refused(limiter, small, demand(150))).reason is Reason.TPD
    await taken(limiter, small, demand(60))


async def test_tokens_a_day(limiter: Limiter, clock: Clock, name: str) -> None:
    hundred = tenant(name, tpd=100)
    await taken(limiter, hundred, demand(60))
    assert await refused(limiter, hundred, demand(41)) == Refused(
        Reason.TPD, None, (Window("tokens", 100, 40, TO_MIDNIGHT),)
    )
    await taken(limiter, hundred, demand(40))
    clock.now += TO_MIDNIGHT
    await taken(limiter, hundred, demand(100))


async def test_a_lease_of_yesterday_changes_nothing_today(
    limiter: Limiter, settle: Settle, clock: Clock, name: str
) -> None:
    both = Tenant(name, limits=with_budget(1000, period="day").limits)
    counted = tenant(name, tpd=1000, budget=both.limits.budget)
    lease = await taken(limiter, counted, demand(800, 800))
    more = await taken(limiter, counted, demand(100, 100))
    clock.now += TO_MIDNIGHT
    await taken(limiter, counted, demand(500, 500))
    await settle(lease, 0, 0)
    await settle(more, 10**6, 10**6)
    assert await used(limiter, counted) == {"tpd": 500, "budget": 500}


async def test_concurrency_is_what_is_not_settled(limiter: Limiter, settle: Settle, name: str) -> None:
    two = tenant(name, concurrency=2)
    lease = await taken(limiter, two)
    await taken(limiter, two)
    assert await refused(limiter, two) == Refused(Reason.CONCURRENCY, 1.0, ())
    await settle(lease, 0, 0)
    await taken(limiter, two)


async def test_streams_are_counted_among_what_is_open(limiter: Limiter, settle: Settle, name: str) -> None:
    one = tenant(name, streams=1, concurrency=3)
    stream = await taken(limiter, one, demand(stream=True))
    assert (await refused(limiter, one, demand(stream=True))).reason is Reason.CONCURRENCY
    await taken(limiter, one)
    assert await used(limiter, one) == {"concurrency": 2, "streams": 1}
    await settle(stream, 0, 0)
    await taken(limiter, one, demand(stream=True))


async def test_a_budget_counts_what_is_open_too(limiter: Limiter, settle: Settle, name: str) -> None:
    dollar = with_budget(1_000_000, name)
    lease = await taken(limiter, dollar, demand(cost=1_000_000))
    assert await refused(limiter, dollar, demand(cost=1)) == Refused(Reason.BUDGET, None, ())
    await settle(lease, 0, 999_999)
    await taken(limiter, dollar, demand(cost=400_000))  # the last cent buys one more, whatever that costs
    assert (await refused(limiter, dollar, demand(cost=0))).reason is Reason.BUDGET


async def test_a_soft_budget_is_only_told(limiter: Limiter, name: str) -> None:
    soft = with_budget(100, name, hard=False)
    await taken(limiter, soft, demand(cost=150))
    await taken(limiter, soft, demand(cost=150))
    month = 31 * 86_400.0 - TO_MIDNIGHT
    assert await limiter.standings(soft) == [Standing("budget", 100, 300, month)]


async def test_a_budget_begins_anew_with_its_period(limiter: Limiter, clock: Clock, name: str) -> None:
    weekly = with_budget(100, name, period="week", anchor="2026-12-03")  # a Thursday
    await taken(limiter, weekly, demand(cost=100))
    clock.now += TO_MIDNIGHT + 86_400.0 - 1.0
    assert (await refused(limiter, weekly, demand(cost=1))).reason is Reason.BUDGET
    clock.now += 1.0
    await taken(limiter, weekly, demand(cost=100))


@pytest.mark.parametrize(
    "limits",
    [
        {"rpd": 1},
        {"concurrency": 1},
        {"tpm": 150},
        {"tpd": 150},
        {"budget": with_budget(100).limits.budget},
    ],
)
async def test_what_refuses_takes_nothing(limiter: Limiter, name: str, limits: dict[str, object]) -> None:
    """Whichever limit it is, all the others stay as they were."""
    wide = {"rpm": 600, "rpd": 100, "tpm": 10_000, "tpd": 10_000, "concurrency": 50, "streams": 50}
    narrow = tenant(name, **{**wide, **limits})
    await taken(limiter, narrow, demand(100, 100, stream=True))
    before = await limiter.standings(narrow)
    for _ in range(5):
        await refused(limiter, narrow, demand(100, 100, stream=True))
    assert await limiter.standings(narrow) == before


async def test_requests_are_refused_before_tokens_and_those_before_the_budget(limiter: Limiter, name: str) -> None:
    limits = {"budget": with_budget(1).limits.budget, "tpd": 1, "tpm": 1, "concurrency": 1, "rpd": 1, "rpm": 1}
    order = [Reason.BUDGET, Reason.TPD, Reason.TPM, Reason.CONCURRENCY, Reason.RPD, Reason.RPM]
    await taken(limiter, tenant(name, **limits), demand(1, 1))
    reasons = []
    for count in range(1, 7):
        narrow = tenant(name, **dict(list(limits.items())[:count]))
        reasons.append((await refused(limiter, narrow, demand(2, 2))).reason)
    assert reasons == order


async def test_a_reload_changes_limits_and_forgets_nothing(limiter: Limiter, settle: Settle, name: str) -> None:
    lease = await taken(limiter, tenant(name, tpd=1000, concurrency=1), demand(600))
    wider = tenant(name, tpd=700, concurrency=2)
    assert (await refused(limiter, wider, demand(101))).reason is Reason.TPD
    await taken(limiter, wider, demand(100))
    await settle(lease, 0, 0)
    assert await used(limiter, wider) == {"tpd": 100, "concurrency": 1}


async def test_a_faster_pace_holds_at_once(limiter: Limiter, clock: Clock, name: str) -> None:
    await taken(limiter, tenant(name, rpm=1))
    fast = tenant(name, rpm=600)
    assert (await refused(limiter, fast)).retry_after == pytest.approx(0.1, abs=1e-5)
    clock.now += 0.1
    await taken(limiter, fast)


async def test_a_lease_that_nobody_settles_ends_as_it_was_reserved(
    limiter: MemoryLimiter | SharedLimiter, settle: Settle, clock: Clock, name: str
) -> None:
    counted = tenant(name, tpd=1000, concurrency=1, streams=1)
    lease = await taken(limiter, counted, demand(700, stream=True, lasts=660.0))
    clock.now += 659.0
    assert (await refused(limiter, counted)).reason is Reason.CONCURRENCY
    assert limiter.expired == 0
    clock.now += 1.0
    await taken(limiter, counted, demand(100, stream=True))
    assert limiter.expired == 1
    await settle(lease, 0, 0)
    assert await used(limiter, counted) == {"tpd": 800, "concurrency": 1, "streams": 1}


async def test_a_late_settlement_that_nobody_came_before_counts(
    limiter: MemoryLimiter | SharedLimiter, settle: Settle, clock: Clock, name: str
) -> None:
    counted = tenant(name, tpd=1000)
    lease = await taken(limiter, counted, demand(700, lasts=10.0))
    clock.now += 11.0
    await settle(lease, 50, 0)
    assert await used(limiter, counted) == {"tpd": 50}
    assert limiter.expired == 0


async def test_the_tighter_window_of_requests_is_told(limiter: Limiter, name: str) -> None:
    both = tenant(name, rpm=60, rpd=20, tpm=600, tpd=1000)
    lease = await taken(limiter, both, demand(100))
    assert lease.windows == (Window("requests", 60, 9, 1.0), Window("tokens", 600, 500, 10.0))
    rare = tenant(f"{name}-rare", rpm=60, rpd=2)
    lease = await taken(limiter, rare)
    assert lease.windows == (Window("requests", 2, 1, TO_MIDNIGHT),)


async def test_standings_of_all_dimensions(limiter: Limiter, name: str) -> None:
    all_of_them = tenant(
        name, rpm=60, rpd=20, tpm=600, tpd=1000, concurrency=5, streams=4, budget=with_budget(1000).limits.budget
    )
    await taken(limiter, all_of_them, demand(100, 30, stream=True))
    assert await limiter.standings(all_of_them) == [
        Standing("rpm", 60, 6, 1.0),
        Standing("rpd", 20, 1, TO_MIDNIGHT),
        Standing("tpm", 600, 100, 10.0),
        Standing("tpd", 1000, 100, TO_MIDNIGHT),
        Standing("concurrency", 5, 1, 0.0),
        Standing("streams", 4, 1, 0.0),
        Standing("budget", 1000, 30, 31 * 86_400.0 - TO_MIDNIGHT),
    ]


async def test_tenants_do_not_share_limits(limiter: Limiter, name: str) -> None:
    await taken(limiter, tenant(name, rpd=1))
    await taken(limiter, tenant(f"{name}-other", rpd=1))


async def test_open_leases_hold_tokens(limiter: MemoryLimiter | SharedLimiter, settle: Settle, name: str) -> None:
    counted = tenant(name, tpm=1000)
    lease = await taken(limiter, counted, demand(300))
    assert limiter.reserved_tokens == 300
    await settle(lease, 10, 0)
    assert limiter.reserved_tokens == 0
