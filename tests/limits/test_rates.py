"""Limits are kept to from both sides: never more than is documented, and no less than clients who want all could have.

All is measured by the backend's clock. Sixteen clients ask as fast as they can, at two replicas by turns.
"""

import asyncio
import itertools
import time
from collections.abc import Iterable, Sequence

import pytest

from tests.harness.redis_server import RedisServer
from tests.limits.adjusted import command
from tests.limits.asks import Ask, body_of
from tests.limits.backend import Backend
from tests.limits.clients import Call, Caller, Got
from tests.limits.replicas import Replica, Tenants, replicas

pytestmark = pytest.mark.timeout(180)  # processes take long to start where others are busy

CLIENTS = 16
SECONDS = 2.5
ON_THE_WAY_S = 0.25  # from the store's clock to the backend's, on a busy machine
TENANT = "t"


async def hammer(running: Sequence[Replica], planned: Iterable[Call]) -> tuple[list[Got], float]:
    """What came of it, and how long it went on."""
    calls, begun = iter(planned), time.monotonic()
    got: list[Got] = []

    async def client(turn: int) -> None:
        async with Caller() as caller:
            while time.monotonic() < begun + SECONDS:
                got.append(await caller.send(running[turn % len(running)].port, next(calls)))
                turn += 1

    await asyncio.gather(*map(client, range(CLIENTS)))
    return got, time.monotonic() - begun


def wholes(tenants: Tenants, ask: Ask, most: int = 20) -> Iterable[Call]:
    """The same request again and again."""
    body = body_of(ask, "chat", "messages-m", stream=False, most=most)
    return itertools.repeat(Call(ask, "chat", tenants.keys[TENANT], body))


def arrivals(backend: Backend) -> list[float]:
    return sorted(entry.arrivals[0] for entry in backend.ledger.values())


async def test_requests_a_minute_hold_in_every_window_and_none_is_lost() -> None:
    tenants = Tenants({TENANT: {"rpm": 600}})
    rate, burst = 10, 100
    with RedisServer() as redis:
        async with (
            Backend() as backend,
            replicas(2, tenants, backend.url, redis.url, command=command()) as running,
        ):
            got, _ = await hammer(running, wholes(tenants, Ask(TENANT)))
    times = arrivals(backend)
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            window = times[last] - begin + ON_THE_WAY_S
            assert last - first + 1 <= burst + rate * window + 1, (first, last, window)
    assert len(times) >= burst + rate * (times[-1] - times[0]) - 2
    assert times[-1] - times[0] > SECONDS - 1
    assert {answer.reason for answer in got if not answer.whole} == {"rpm"}


async def test_no_more_are_open_than_may_be_and_no_place_stays_empty() -> None:
    tenants = Tenants({TENANT: {"concurrency": 5, "streams": 2}})
    ask = Ask(TENANT, "slow")
    calls = [
        Call(ask, client, tenants.keys[TENANT], body_of(ask, client, "messages-m", stream=stream, most=20))
        for client in ("chat", "messages")
        for stream in (True, False)
    ]
    with RedisServer() as redis:
        async with (
            Backend() as backend,
            replicas(2, tenants, backend.url, redis.url, command=command()) as running,
        ):
            got, _ = await hammer(running, itertools.cycle(calls))
    assert (backend.most_open[TENANT], backend.most_streams[TENANT]) == (5, 2)
    assert {answer.reason for answer in got if not answer.whole} == {"concurrency"}
    assert sum(answer.whole for answer in got) > 3 * 5


async def test_tokens_a_minute_hold_but_for_the_debt_of_what_was_open() -> None:
    """Each uses more than was reserved for it, as is known only afterwards."""
    tenants = Tenants({TENANT: {"tpm": 12_000}})
    ask = Ask(TENANT, prompt=100, output=140)
    total, took = await tokens_used(tenants, ask, most=30)
    assert total <= 12_000 + 200 * took + CLIENTS * 240
    assert total >= 12_000 + 200 * took - 2 * 240


async def test_tokens_that_were_reserved_and_not_used_can_be_used() -> None:
    """Each asks for much more than it uses."""
    tenants = Tenants({TENANT: {"tpm": 12_000}})
    ask = Ask(TENANT, prompt=20, output=10)
    total, took = await tokens_used(tenants, ask, most=1000)
    most_reserved = 150  # once it is known how long answers are
    assert 12_000 + 200 * took - CLIENTS * most_reserved <= total <= 12_000 + 200 * took + 30


async def tokens_used(tenants: Tenants, ask: Ask, most: int) -> tuple[int, float]:
    """As the backend told, and the seconds in which they were."""
    with RedisServer() as redis:
        async with (
            Backend() as backend,
            replicas(2, tenants, backend.url, redis.url, command=command()) as running,
        ):
            got, took = await hammer(running, wholes(tenants, ask, most))
    assert {answer.reason for answer in got if not answer.whole} == {"tpm"}
    return sum(used.prompt + used.output for entry in backend.ledger.values() for used in entry.told), took
