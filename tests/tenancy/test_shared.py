"""Several replicas on one store, and stores that fail."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from redis.asyncio import Redis

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant
from proxy.tenancy.limits import Lease, Limiter, Refused
from proxy.tenancy.shared import OnFailure, SharedLimiter, StoredLease
from proxy.tenancy.store import CALL_TIMEOUT, MOST_REFRESHED, MOST_TOGETHER
from tests.harness.redis_server import RedisServer
from tests.tenancy.limiting import PATIENCE, Clock, demand, refused, taken, tenant, used, with_budget

SHORT = 0.3  # seconds that a lease lives without being refreshed
SOON = 5.0
_names = (f"shared-{number}" for number in itertools.count())

Replica = Callable[..., SharedLimiter]


@pytest.fixture
def name() -> str:
    """Of a tenant that nobody asked for before."""
    return next(_names)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """One that a test may break."""
    with RedisServer() as server:
        yield server


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    """Makes limiters, and closes them."""
    async with AsyncExitStack() as stack:

        def made(
            url: str, on_failure: OnFailure = "closed", timeout: float = PATIENCE, **more: object
        ) -> SharedLimiter:
            limiter = SharedLimiter(url, on_failure, timeout=timeout, **more)
            stack.push_async_callback(limiter.close, within=0.1)
            return limiter

        yield made


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


async def until_admitted(limiter: Limiter, asked_tenant: Tenant) -> Lease:
    async with asyncio.timeout(SOON):
        while True:
            answer = await limiter.reserve(asked_tenant, demand(10))
            if isinstance(answer, Lease):
                return answer
            await asyncio.sleep(0.01)


async def until_stored(limiter: Limiter, asked_tenant: Tenant) -> None:
    """There is a connection then, and the store has the script."""
    async with asyncio.timeout(SOON):
        while True:
            if isinstance(await limiter.reserve(asked_tenant, demand()), StoredLease):
                return
            await asyncio.sleep(0.01)


async def until_undone(limiter: Limiter, asked_tenant: Tenant) -> None:
    """What the store did when nobody waited for it any more must not last."""
    async with asyncio.timeout(SOON):
        while True:
            if not any((await used(limiter, asked_tenant)).values()):
                return
            await asyncio.sleep(0.01)


async def open_in_store(url: str, name: str) -> int:
    client = Redis.from_url(url)
    try:
        return await client.zcard(f"dragoman:{{{name}}}:leases")
    finally:
        await client.aclose()


async def test_replicas_share_what_is_used(redis_url: str, replica: Replica, name: str) -> None:
    one, other = replica(redis_url), replica(redis_url)
    counted = tenant(name, rpd=3, tpm=6000, concurrency=2)
    lease = await taken(one, counted, demand(1000))
    await taken(other, counted, demand(1000))
    assert (await refused(one, counted)).reason is Reason.CONCURRENCY
    one.settle(lease, 500, 0)
    await one.flush()
    await taken(other, counted)
    assert (await refused(one, counted)).reason is Reason.RPD
    assert (await used(one, counted)).keys() == (await used(other, counted)).keys()


async def test_replicas_that_ask_at_once_admit_no_more_than_the_limit(
    redis_url: str, replica: Replica, name: str
) -> None:
    replicas = [replica(redis_url) for _ in range(2)]
    counted = tenant(name, rpd=40)
    answers = await asyncio.gather(*(replicas[place % 2].reserve(counted, demand()) for place in range(100)))
    assert sum(isinstance(answer, Lease) for answer in answers) == 40


async def test_that_this_process_was_busy_is_no_failure_of_the_store(
    redis_url: str, replica: Replica, name: str
) -> None:
    limiter, counted = replica(redis_url, "open", timeout=CALL_TIMEOUT), tenant(name, rpd=9)
    await until_stored(limiter, counted)
    asked = [asyncio.create_task(limiter.reserve(counted, demand())) for _ in range(8)]
    await asyncio.sleep(0)
    time.sleep(4 * CALL_TIMEOUT)  # noqa: ASYNC251 - nothing else runs meanwhile, as while a large body is parsed
    assert all(isinstance(answer, StoredLease) for answer in await asyncio.gather(*asked))
    assert limiter.failed_open == 0


async def test_another_server_of_the_store_may_be_behind(redis_url: str, replica: Replica, name: str) -> None:
    clock = Clock()
    limiter, counted = replica(redis_url, store_now=clock), tenant(name, tpm=60, rpm=1)
    await taken(limiter, counted, demand(60))
    clock.now -= 3600.0
    await refused(limiter, counted, demand(60))
    clock.now += 60.0
    await taken(limiter, counted, demand(60))


async def test_open_requests_are_kept_alive(redis_url: str, replica: Replica, name: str) -> None:
    one, other = replica(redis_url, life=SHORT), replica(redis_url, life=SHORT)
    single = tenant(name, concurrency=1, streams=1)
    await taken(one, single, demand(stream=True))
    for _ in range(6):
        await asyncio.sleep(SHORT / 3)
        assert (await refused(other, single)).reason is Reason.CONCURRENCY
    assert one.expired + other.expired == 0


async def test_what_a_lost_replica_held_ends_by_itself(redis_url: str, replica: Replica, name: str) -> None:
    told: list[int] = []
    lost, other = (
        SharedLimiter(redis_url, life=SHORT, timeout=PATIENCE),
        replica(redis_url, life=SHORT, on_expired=told.append),
    )
    single = tenant(name, concurrency=1, tpd=1000)
    await taken(lost, single, demand(700))
    await lost.close()
    assert (await refused(other, single)).reason is Reason.CONCURRENCY
    await until_admitted(other, single)
    await until(lambda: other.expired == 1)
    assert told == [1]
    assert await used(other, single) == {"concurrency": 1, "tpd": 710}


async def test_a_sweep_finds_what_a_lost_replica_held(redis_url: str, replica: Replica, name: str) -> None:
    lost, other = SharedLimiter(redis_url, life=SHORT, timeout=PATIENCE), replica(redis_url, life=SHORT)
    counted = tenant(name, concurrency=9)
    await taken(other, counted)
    await taken(lost, counted)
    await lost.close()
    await until(lambda: other.expired == 1)
    assert await open_in_store(redis_url, name) == 1


async def test_a_lease_that_nobody_settles_is_let_go(redis_url: str, replica: Replica, name: str) -> None:
    limiter = replica(redis_url, life=SHORT)
    single = tenant(name, concurrency=1)
    lease = await taken(limiter, single, demand(500, lasts=0.1))
    await until(lambda: limiter.expired == 1 and limiter.reserved_tokens == 0)
    limiter.settle(lease, 0, 0)
    await taken(limiter, single)


async def test_all_that_is_kept_is_forgotten_some_day(redis_url: str, replica: Replica, name: str) -> None:
    limiter = replica(redis_url)
    limits = {"rpm": 60, "rpd": 10, "tpm": 100, "tpd": 10**6, "concurrency": 9, "streams": 9}
    counted = tenant(name, **limits, budget=with_budget(10**6).limits.budget)
    await taken(limiter, counted, demand(50, 50, stream=True))
    limiter.settle(await taken(limiter, counted, demand(10, stream=True)), 10**6, 0)
    await limiter.flush()
    async with Redis.from_url(redis_url) as client:
        keys = await client.keys(f"dragoman:{{{name}}}:*")
        assert len(keys) == 3
        assert all([await client.ttl(key) > 0 for key in keys])
        # The debt takes longer to drain than the month to end, if the month is about to.
        assert await client.ttl(f"dragoman:{{{name}}}:account") >= 10**6 / 100 * 60


async def test_more_leases_than_go_in_one_call_are_kept_alive(redis_url: str, replica: Replica, name: str) -> None:
    limiter = replica(redis_url, life=1.0)
    tenants = [tenant(f"{name}-{number}", concurrency=900) for number in range(MOST_TOGETHER + 1)]
    many = tenant(name, concurrency=900)
    leases = [await taken(limiter, many) for _ in range(MOST_REFRESHED + 1)]
    leases += await asyncio.gather(*(taken(limiter, each) for each in tenants))
    await asyncio.sleep(1.5)
    assert await used(limiter, many) == {"concurrency": MOST_REFRESHED + 1}
    assert await used(limiter, tenants[-1]) == {"concurrency": 1}
    assert limiter.expired == 0
    for lease in leases:
        limiter.settle(lease, 0, 0)
    await limiter.flush(SOON)
    assert await used(limiter, many) == {"concurrency": 0}


async def test_an_idle_replica_learns_that_the_store_is_back(own_server: RedisServer, replica: Replica) -> None:
    clock = Clock()
    limiter = replica(own_server.url, life=SHORT, clock=clock)
    await taken(limiter, tenant("a", rpd=9), demand(lasts=1.0))
    clock.now += 1000.0
    own_server.kill()
    await until(lambda: not limiter.reachable)
    own_server.start()
    await until(lambda: limiter.reachable)


async def test_close_waits_for_settlements(redis_url: str, replica: Replica, name: str) -> None:
    leaving, other = SharedLimiter(redis_url, timeout=PATIENCE), replica(redis_url)
    counted = tenant(name, tpd=10**6, concurrency=1000)
    leases = [await taken(leaving, counted, demand(100)) for _ in range(300)]
    for lease in leases:
        leaving.settle(lease, 7, 0)
    await leaving.close()
    assert await used(other, counted) == {"tpd": 2100, "concurrency": 0}


async def test_a_cancelled_request_leaves_nothing(redis_url: str, replica: Replica, name: str) -> None:
    """Whether the store had answered already or not, nobody has the lease."""
    limiter = replica(redis_url)
    counted = tenant(name, tpd=10**6, concurrency=100, budget=with_budget(10**6).limits.budget)
    tasks = [asyncio.create_task(limiter.reserve(counted, demand(100, 100))) for _ in range(50)]
    await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, Lease):
            limiter.settle(answer, 0, 0)
    await limiter.flush(SOON)
    await until_undone(limiter, counted)
    assert limiter.reserved_tokens == 0


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_request_that_was_not_admitted_in_time_is_none_of_the_days(
    own_server: RedisServer, replica: Replica, leaves: bool
) -> None:
    """Whether the client left first or the store took too long: it is taken back, in whatever order that arrives."""
    limiter = replica(own_server.url)
    counted = tenant("a", rpd=100, tpd=1000)
    limiter.settle(await taken(limiter, counted, demand(10)), 10, 0)
    await limiter.flush(SOON)
    own_server.freeze()
    asking = [asyncio.create_task(limiter.reserve(counted, demand(10))) for _ in range(20)]
    if leaves:
        await asyncio.sleep(0)
        for task in asking:
            task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    own_server.thaw()
    await limiter.flush(SOON)
    async with asyncio.timeout(SOON):
        while True:
            if await used(limiter, counted) == {"rpd": 1, "tpd": 10}:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("on_failure", "admits"), [("open", 9), ("closed", 0), ("local", 4)])
async def test_a_store_that_is_gone(
    own_server: RedisServer, replica: Replica, on_failure: OnFailure, admits: int
) -> None:
    limiter = replica(own_server.url, on_failure, life=SHORT)
    counted = tenant("a", rpd=4)
    await taken(limiter, counted)
    own_server.kill()
    answers = [await limiter.reserve(counted, demand(10)) for _ in range(9)]
    leases = [answer for answer in answers if isinstance(answer, Lease)]
    assert len(leases) == admits
    assert not limiter.reachable
    assert (limiter.failed_open, limiter.failed_closed) == ((0, 9) if on_failure == "closed" else (9, 0))
    if on_failure == "closed":
        assert set(answers) == {Refused(Reason.OVERLOADED, 1.0)}
    for lease in leases:
        limiter.settle(lease, 5, 0)
    own_server.start()
    await until(lambda: limiter.reachable)
    await until_admitted(limiter, counted)
    assert await used(limiter, counted) == {"rpd": 1}  # it has lost what it knew
    assert limiter.expired == 0
    assert limiter.reserved_tokens == 10


async def test_a_store_that_hangs_keeps_nobody_waiting(own_server: RedisServer, replica: Replica) -> None:
    limiter = replica(own_server.url, "open", CALL_TIMEOUT)
    counted = tenant("a", concurrency=100, tpd=10**6)
    limiter.settle(await taken(limiter, counted, demand(100)), 0, 0)
    await limiter.flush()
    before = limiter.failed_open
    own_server.freeze()
    begun = time.perf_counter()
    await asyncio.gather(*(limiter.reserve(counted, demand(100)) for _ in range(50)))
    assert time.perf_counter() - begun < 0.5
    begun = time.perf_counter()
    await asyncio.gather(*(limiter.reserve(counted, demand(100)) for _ in range(50)))
    assert time.perf_counter() - begun < 0.5
    assert limiter.failed_open - before == 100
    own_server.thaw()
    await until(lambda: limiter.reachable)
    await limiter.flush()
    await until_undone(limiter, counted)


async def test_settlements_outlast_a_short_outage(own_server: RedisServer, replica: Replica) -> None:
    limiter = replica(own_server.url)
    counted = tenant("a", tpd=1000, concurrency=5)
    lease = await taken(limiter, counted, demand(900))
    own_server.freeze()
    limiter.settle(lease, 30, 0)
    await until(lambda: not limiter.reachable)
    own_server.thaw()
    await limiter.flush(SOON)
    await until(lambda: limiter.reachable)
    assert await used(limiter, counted) == {"tpd": 30, "concurrency": 0}


async def test_settlements_that_come_too_late_are_dropped(own_server: RedisServer, replica: Replica) -> None:
    limiter = replica(own_server.url, life=SHORT)
    lease = await taken(limiter, tenant("a", tpd=1000), demand(900))
    own_server.kill()
    limiter.settle(lease, 30, 0)
    begun = time.perf_counter()
    await limiter.flush(SOON)
    assert time.perf_counter() - begun < SOON


@pytest.mark.parametrize(("on_failure", "last"), [("open", Lease), ("local", Refused), ("closed", Refused)])
async def test_hard_budgets_are_closed_after_a_minute(
    own_server: RedisServer, replica: Replica, on_failure: OnFailure, last: type
) -> None:
    clock = Clock()
    limiter = replica(own_server.url, on_failure, clock=clock)
    own_server.kill()
    hard, soft = with_budget(10**6), with_budget(10**6, "b", hard=False)
    first = await limiter.reserve(hard, demand())
    assert isinstance(first, Refused if on_failure == "closed" else Lease)
    clock.now += 61.0
    assert isinstance(await limiter.reserve(hard, demand()), last)
    assert isinstance(await limiter.reserve(soft, demand()), Refused if on_failure == "closed" else Lease)


async def test_nothing_tells_where_the_store_is(
    own_server: RedisServer, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = own_server.url.replace("unix://", "unix://:hunter2@")
    limiter = replica(url, "open")
    await taken(limiter, tenant("a", rpd=1))  # there is no password to ask for: it is refused
    assert limiter.failed_open == 1
    assert "does not answer" in caplog.text
    assert "hunter2" not in caplog.text + repr(limiter) + repr(vars(limiter))


@pytest.mark.parametrize("wrong", ["redis://:hunter2@a.example:port/0", "redis://:hunter2@a.example/0?colour=red"])
async def test_an_address_that_cannot_be_is_an_error_that_does_not_quote_it(wrong: str) -> None:
    with pytest.raises(ValueError, match="shared store") as caught:
        SharedLimiter(wrong)
    assert "hunter2" not in str(caught.value)


async def test_standings_without_the_store(own_server: RedisServer, replica: Replica) -> None:
    counted = tenant("a", rpd=5)
    local, blind = replica(own_server.url, "local"), replica(own_server.url, "open")
    own_server.kill()
    await taken(local, counted)
    await taken(blind, counted)
    assert await used(local, counted) == {"rpd": 1}
    assert await used(blind, counted) == {}
