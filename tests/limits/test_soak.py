"""After thousands of requests of which many go wrong, tenants are charged what the backend told, and nothing is held.

`DRAGOMAN_SOAK` says how many requests, if other than 10,000.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.harness.redis_server import RedisServer
from tests.limits.accounts import Charged, Record, charged, contradictions
from tests.limits.backend import Backend
from tests.limits.clients import Call, Caller, Got, NobodyListens
from tests.limits.plans import MOST_OUTPUT, MOST_PROMPT, calls
from tests.limits.replicas import Books, Replica, Tenants, replicas, until

Show = Callable[[str, object], None]

CLIENTS = 16
COUNT = int(os.environ.get("DRAGOMAN_SOAK", "10000"))
BACK_OFF_S = 0.1
# `wide` meets no limit; `narrow` is refused often; `poor` uses up its budget.
SHARES = {"wide": 70, "narrow": 15, "poor": 15}
_COUNTED = {"rpd": 10**6, "tpd": 10**9}
LIMITS = {
    "wide": {"rpm": 600_000, **_COUNTED, "tpm": 10**9, "concurrency": 100, "budget": {"usd": 10_000}},
    "narrow": {"rpm": 6000, **_COUNTED, "concurrency": 2, "streams": 1, "budget": {"usd": 10_000}},
    "poor": {**_COUNTED, "budget": {"usd": 0.05}},
}
POOR_LIMIT = 50_000  # micro-dollars
MOST_COST = 3 * MOST_PROMPT + 15 * MOST_OUTPUT  # of one request


class Load:
    """Clients that take turns at one list of calls, each at a replica that listens."""

    def __init__(self, planned: Iterator[Call], running: Sequence[Replica]) -> None:
        self.got: list[Got] = []
        self._planned = planned
        self._running = running

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def sent(self, count: int) -> None:
        """Wait until so many have ended."""
        await until(lambda: len(self.got) >= count, within=120)

    async def _client(self, number: int) -> None:
        async with Caller() as caller:
            for turn, call in enumerate(self._planned, number):
                got = await self._send(caller, call, turn)
                self.got.append(got)
                if got.reason == "overloaded":  # told to try later, not to try as fast as it can
                    await asyncio.sleep(BACK_OFF_S)

    async def _send(self, caller: Caller, call: Call, turn: int) -> Got:
        while True:
            for step in range(len(self._running)):
                replica = self._running[(turn + step) % len(self._running)]
                try:
                    return await caller.send(replica.port, call)
                except NobodyListens:
                    continue
            await asyncio.sleep(0.01)


async def replace_one_after_the_other(running: Sequence[Replica], load: Load) -> None:
    """As a rollout does, while requests go on."""
    for number, replica in enumerate(running, 1):
        await load.sent(COUNT * number // (len(running) + 1))
        assert await replica.metric("dragoman_lease_expired_total") == 0
        assert await replica.end(signal.SIGTERM) == 0
        await replica.start()


@pytest.mark.timeout(300)
async def test_replicas_charge_what_the_backend_told_and_hold_nothing(record_property: Show) -> None:
    tenants = Tenants(LIMITS)
    with RedisServer() as redis:
        books = Books(redis.url)
        async with Backend() as backend, replicas(2, tenants, backend.url, redis.url) as running:
            load = Load(calls(7, COUNT, tenants.keys, SHARES), running)
            await asyncio.gather(load.run(), replace_one_after_the_other(running, load))
            await until(lambda: not books.leases())
            told = [{tenant: await replica.standings(tenant) for tenant in LIMITS} for replica in running]
            expired = [await replica.metric("dragoman_lease_expired_total") for replica in running]
            assert [await replica.end(signal.SIGTERM) for replica in running] == [0, 0]
            assert told[0] == told[1]
            assert expired == [0, 0]
            check(
                backend, load, [record for replica in running for record in replica.records()], told[0], record_property
            )
        assert books.kept_for_ever() == []
        books.close()


@pytest.mark.timeout(300)
async def test_one_process_without_a_store_does_the_same(record_property: Show) -> None:
    tenants = Tenants(LIMITS)
    async with Backend() as backend, replicas(1, tenants, backend.url, None) as (replica,):
        load = Load(calls(8, COUNT // 3, tenants.keys, SHARES), [replica])
        await load.run()
        await until(lambda: sum(backend.open.values()) == 0)
        told = {tenant: await replica.standings(tenant) for tenant in LIMITS}
        expired = await replica.metric("dragoman_lease_expired_total")
        assert await replica.end(signal.SIGTERM) == 0
        assert expired == 0
        check(backend, load, replica.records(), told, record_property)


def check(backend: Backend, load: Load, records: list[Record], told: dict[str, dict[str, int]], show: Show) -> None:
    sums = charged(records)
    for tenant, charges in sums.items():
        show("shown", f"{len(load.got)} requests, {tenant}: {charges}; standing at the end: {told[tenant]}")
    assert backend.faults == []
    assert contradictions(records, backend.ledger, load.got) == []
    for tenant, charges in sums.items():
        standings = told[tenant]
        used = standings["rpd"], standings["tpd"], standings["budget"]
        assert used == (charges.admitted, charges.tokens, charges.cost), tenant
        assert standings.get("concurrency", 0) == standings.get("streams", 0) == 0
    # What was open at once may cost more than was reserved for it.
    assert POOR_LIMIT * 0.9 < sums["poor"].cost < POOR_LIMIT + CLIENTS * MOST_COST
    check_that_much_happened(len(load.got), sums)


def check_that_much_happened(count: int, sums: dict[str, Charged]) -> None:
    """A test of nothing would agree with itself. How much depends on how busy the machine is."""
    wide = sums["wide"]
    assert sum(charges.admitted for charges in sums.values()) > count * 0.3
    assert wide.sources["reported"] > count * 0.2
    assert wide.sources["estimated"] > 0
    assert wide.refused.keys() <= {"overloaded"}
    assert sums["narrow"].refused["concurrency"] > count * 0.01
    assert sums["poor"].refused["budget"] > 0
