"""The shared store goes away and comes back while clients ask: what they get, and what the operator sees."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.redis_server import RedisServer
from tests.limits.asks import Ask, Client, body_of
from tests.limits.backend import Backend
from tests.limits.clients import Call, Got, send_once
from tests.limits.replicas import Replica, Tenants, configuration, get, replicas

pytestmark = pytest.mark.timeout(180)  # processes take long to start where others are busy

TENANT = "t"
FEW = 3  # requests a day
SOON_S = 10.0


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


class Served:
    """One replica and its one tenant, which may ask `FEW` times a day."""

    def __init__(self, replica: Replica, key: str) -> None:
        self.replica = replica
        self._key = key

    async def send(self, client: Client = "chat") -> Got:
        ask = Ask(TENANT)
        body = body_of(ask, client, "chat-m", stream=False, most=20)
        return await send_once(self.replica.port, Call(ask, client, self._key, body))

    async def statuses(self, count: int) -> list[int | None]:
        return [(await self.send()).status for _ in range(count)]

    async def decided_without_store(self) -> dict[str, float]:
        name = "dragoman_limiter_backend_errors_total"
        return {action: await self.replica.metric(name, action=action) for action in ("failed_open", "failed_closed")}

    async def readiness(self) -> tuple[int, object]:
        status, told = await get(self.replica.admin_port, "/readyz")
        return status, json.loads(told).get("failed")

    async def until(self, status: int) -> None:
        """Ask until this is the answer."""
        async with asyncio.timeout(SOON_S):
            while True:
                if (await self.send()).status == status:
                    return
                await asyncio.sleep(0.02)

    async def until_counted(self) -> list[int | None]:
        """What is answered once the store counts again: it lets a day's requests through, and then no more."""
        await self.until(429)
        return await self.statuses(2)


@asynccontextmanager
async def serving(redis: RedisServer, on_failure: str) -> AsyncIterator[Served]:
    tenants = Tenants({TENANT: {"rpd": FEW}})
    async with Backend() as backend:
        state = {**configuration(tenants, backend.url, redis.url)["state"], "on_failure": on_failure}
        async with replicas(1, tenants, backend.url, redis.url, state=state) as (replica,):
            served = Served(replica, tenants.keys[TENANT])
            await until_first_admitted(served)
            yield served


async def until_first_admitted(served: Served) -> None:
    """The first question takes longest, on a busy machine too long."""
    async with asyncio.timeout(SOON_S):
        while int(await served.replica.metric("dragoman_tenant_requests_total", outcome="ok")) == 0:
            await served.send()


async def test_closed_refuses_in_each_dialect_and_takes_no_more_traffic(redis: RedisServer) -> None:
    async with serving(redis, "closed") as served:
        assert await served.readiness() == (200, None)
        before = await served.decided_without_store()
        redis.kill()
        chat, responses, messages = [await served.send(client) for client in ("chat", "responses", "messages")]
        assert await served.readiness() == (503, ["limiter"])
        after = await served.decided_without_store()
        redis.start()
        assert await served.until_counted() == [429, 429]
        assert await served.readiness() == (200, None)
    for got in (chat, responses):
        assert (got.status, got.reason) == (503, "overloaded")
        assert json.loads(got.body)["error"]["code"] == "server_is_overloaded"
    assert (messages.status, messages.reason) == (529, "overloaded")
    assert json.loads(messages.body)["error"]["type"] == "overloaded_error"
    assert [after[action] - before[action] for action in after] == [0, 3]


async def test_open_admits_all(redis: RedisServer) -> None:
    async with serving(redis, "open") as served:
        before = await served.decided_without_store()
        redis.kill()
        assert await served.statuses(FEW + 2) == [200] * (FEW + 2)
        assert await served.readiness() == (200, None)
        after = await served.decided_without_store()
        redis.start()
        assert await served.until_counted() == [429, 429]
    assert [after[action] - before[action] for action in after] == [FEW + 2, 0]


async def test_local_counts_in_the_process_until_the_store_is_back(redis: RedisServer) -> None:
    async with serving(redis, "local") as served:
        before = await served.decided_without_store()
        redis.kill()
        statuses = await served.statuses(FEW + 2)
        assert await served.readiness() == (200, None)
        after = await served.decided_without_store()
        redis.start()
        await served.until(200)  # the process would refuse them all; the store has forgotten what it knew
        assert await served.until_counted() == [429, 429]
    # What the process alone counted before, on a busy machine, is gone from these.
    assert statuses == sorted(statuses)
    assert set(statuses) == {200, 429}
    assert sum(after.values()) - sum(before.values()) == FEW + 2


async def test_a_store_that_hangs_forgets_nothing(redis: RedisServer) -> None:
    """A tenant that has asked as often as it may is refused again when the store goes on."""
    async with serving(redis, "open") as served:
        assert await served.until_counted() == [429, 429]
        redis.freeze()
        assert await served.statuses(4) == [200] * 4
        redis.thaw()
        await served.until(429)
