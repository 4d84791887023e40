"""What the vendors' Node SDKs do with our refusals, by themselves."""

import asyncio
import json
from pathlib import Path

import pytest

from proxy.settings.tenants import ModelRules, NameRules, TenantLimits
from proxy.tenancy.memory import MemoryLimiter
from tests.e2e.node.conftest import INSTALL_WITHIN_S
from tests.server.policy_rules import EVERYTHING, PRICES, RULES, USING_UP
from tests.server.routes import Site, site
from tests.server.tenancy import KEY, bearer, tenant

RUN_WITHIN_S = 30

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(INSTALL_WITHIN_S + RUN_WITHIN_S)]

Seen = list[dict[str, object] | None]


async def run(programs: Path, proxy_site: Site) -> Seen:
    """What the program saw by Chat, Responses and Messages."""
    program = str(programs / "limits.mjs")
    node = await asyncio.create_subprocess_exec(
        "node", program, proxy_site.proxy.url, KEY, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(node.communicate(), RUN_WITHIN_S)
    assert node.returncode == 0
    seen: Seen = json.loads(output)
    return seen


def raised(name: str, status: int, code: str | None = None) -> dict[str, object]:
    return {"name": name, "status": status, "code": code}


LIMIT, SPENT, NO_MODEL = "rate_limit_exceeded", "insufficient_quota", "model_not_found"
REFUSALS: dict[str, tuple[dict[str, object], str, Seen]] = {
    "budget": (
        RULES["budget"].fields,
        "budget",
        [*[raised("RateLimitError", 429, SPENT)] * 2, raised("PaymentRequiredError", 402)],
    ),
    "rpd": (RULES["rpd"].fields, "rpd", [*[raised("RateLimitError", 429, LIMIT)] * 2, raised("RateLimitError", 429)]),
    "models": (
        {"models": ModelRules(NameRules(("nothing",)))},
        "model_denied",
        [*[raised("NotFoundError", 404, NO_MODEL)] * 2, raised("NotFoundError", 404)],
    ),
    "keys": (
        {"disabled": True},
        "auth_disabled",
        [*[raised("AuthenticationError", 401, "invalid_api_key")] * 2, raised("AuthenticationError", 401)],
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_node_sdks_stop_at_once(name: str, programs: Path) -> None:
    fields, reason, expected = REFUSALS[name]
    async with site(tenant(**{"endpoints": EVERYTHING, **fields}), prices=PRICES) as proxy_site:
        await proxy_site.proxy.post("/v1/messages", USING_UP, bearer())
        records = proxy_site.proxy.access.records
        records.clear()
        assert await run(programs, proxy_site) == expected
        assert [record["reason"] for record in records] == [reason] * 3


async def test_node_sdks_wait_as_told_and_succeed(programs: Path) -> None:
    """After a burst of 50 there is room for one more every 200 ms, by a clock that goes on as each refusal says."""
    async with site(tenant(endpoints=EVERYTHING, limits=TenantLimits(rpm=300))) as proxy_site:
        records = proxy_site.proxy.access.records

        def clock() -> float:
            return 0.2 * sum(record["reason"] == "rpm" for record in records)

        proxy_site.proxy.runtime.limiter = MemoryLimiter(clock=clock)
        for _ in range(50):
            await proxy_site.proxy.ask("GET", "/v1/models", bearer())
        assert await run(programs, proxy_site) == [None] * 3
        assert [record["reason"] for record in records] == [None] * 50 + ["rpm", None] * 3
