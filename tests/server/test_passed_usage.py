"""What endpoints that nobody translates have used, whatever becomes of their answers (operations.md 9.2)."""

import json

import aiohttp
import pytest

from proxy.settings import Timeouts
from proxy.settings.tenants import TenantLimits
from tests.server.serving import Proxy
from tests.server.tenancy import bearer, let_in, tenant
from tests.upstream.scripted import CUT, HOLD, Step, reply

REQUEST = {"model": "m", "input": "Say hello."}
ESTIMATE = 11  # tokens of it, by its bytes
VECTORS = json.dumps({"object": "list", "data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}})
LIMITED = tenant(limits=TenantLimits(tpd=1000, concurrency=3))
SHORT = Timeouts(first_event_whole=0.2, idle=0.2)


async def settled(proxy: Proxy, *, cut: bool = False) -> tuple[object, dict[str, int]]:
    """Where the count came from, and what the tenant's day has used once the answer, or its broken half, is there."""
    try:
        await proxy.post("/v1/embeddings", REQUEST, bearer())
        assert not cut
    except aiohttp.ClientPayloadError:
        assert cut
    record = await proxy.record()
    standings = await proxy.runtime.limiter.standings(LIMITED)
    return record["usage_source"], {standing.dimension: standing.used for standing in standings}


async def test_what_was_told() -> None:
    async with let_in("chat", reply(200, VECTORS), tenants=[LIMITED]) as (proxy, _):
        assert await settled(proxy) == ("reported", {"tpd": 3, "concurrency": 0})


@pytest.mark.parametrize("refusal", [reply(400, "{}"), reply(429, "{}"), reply(500, b"")])
async def test_a_refusal_costs_nothing(refusal: bytes) -> None:
    async with let_in("chat", refusal, tenants=[LIMITED]) as (proxy, _):
        assert await settled(proxy) == ("none", {"tpd": 0, "concurrency": 0})


async def test_a_backend_that_is_not_there_costs_nothing() -> None:
    async with let_in("chat", [CUT], [CUT], tenants=[LIMITED]) as (proxy, _):
        assert await settled(proxy) == ("none", {"tpd": 0, "concurrency": 0})


@pytest.mark.parametrize("end", [CUT, HOLD])
async def test_an_answer_that_breaks_off_costs_its_prompt(end: Step) -> None:
    half = reply(200, VECTORS)[:-30]
    async with let_in("chat", [half, end], tenants=[LIMITED], timeouts=SHORT) as (proxy, _):
        assert await settled(proxy, cut=True) == ("estimated", {"tpd": ESTIMATE, "concurrency": 0})


async def test_a_backend_that_says_nothing_in_time_may_have_read_the_prompt() -> None:
    async with let_in("chat", [HOLD], tenants=[LIMITED], timeouts=SHORT) as (proxy, _):
        assert await settled(proxy) == ("estimated", {"tpd": ESTIMATE, "concurrency": 0})
