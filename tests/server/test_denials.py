"""What a client reads that is refused: each reason in each dialect, whole or streamed (operations.md 9.5, 10)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant, TenantLimits
from proxy.tenancy.limits import Demand, Refused
from proxy.tenancy.memory import MemoryLimiter
from proxy.translation.codecs import ClientProtocol
from tests.server.policy_rules import EVERYTHING, PRICES, RULES, USING_UP, Rule
from tests.server.routes import PROTOCOLS, Route, Site, all_routes, model_of, site
from tests.server.serving import PATHS, REQUESTS, says_hello
from tests.server.tenancy import bearer, let_in, tenant

CLIENTS: tuple[ClientProtocol, ...] = ("chat", "responses", "messages", "completions")
GENERATING = {(route.client, route.backend): route for route in all_routes() if route.handler == "generate"}

# status, type, code; of Messages status and type.
OPENAI: dict[Reason, tuple[int, str, str | None]] = {
    Reason.AUTH_MISSING: (401, "invalid_request_error", "invalid_api_key"),
    Reason.AUTH_UNKNOWN: (401, "invalid_request_error", "invalid_api_key"),
    Reason.IP_DENIED: (403, "permission_error", "dragoman_ip_denied"),
    Reason.PROTOCOL_DENIED: (403, "permission_error", "dragoman_protocol_denied"),
    Reason.ENDPOINT_DENIED: (403, "permission_error", "dragoman_endpoint_denied"),
    Reason.MODEL_DENIED: (404, "invalid_request_error", "model_not_found"),
    Reason.TOOL_DENIED: (403, "permission_error", "dragoman_tool_denied"),
    Reason.HOSTED_TOOL_DENIED: (403, "permission_error", "dragoman_hosted_tool_denied"),
    Reason.MCP_DENIED: (403, "permission_error", "dragoman_mcp_denied"),
    Reason.BODY_TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    Reason.MALFORMED: (400, "invalid_request_error", None),
    Reason.LOSS_REFUSED: (400, "invalid_request_error", "unsupported_parameter"),
    Reason.RPM: (429, "requests", "rate_limit_exceeded"),
    Reason.CONCURRENCY: (429, "requests", "rate_limit_exceeded"),
    Reason.TPM: (429, "tokens", "rate_limit_exceeded"),
    Reason.RPD: (429, "requests", "rate_limit_exceeded"),
    Reason.TPD: (429, "tokens", "rate_limit_exceeded"),
    Reason.BUDGET: (429, "insufficient_quota", "insufficient_quota"),
}
MESSAGES: dict[Reason, tuple[int, str]] = {
    Reason.AUTH_MISSING: (401, "authentication_error"),
    Reason.AUTH_UNKNOWN: (401, "authentication_error"),
    Reason.IP_DENIED: (403, "permission_error"),
    Reason.PROTOCOL_DENIED: (403, "permission_error"),
    Reason.ENDPOINT_DENIED: (403, "permission_error"),
    Reason.MODEL_DENIED: (404, "not_found_error"),
    Reason.TOOL_DENIED: (403, "permission_error"),
    Reason.HOSTED_TOOL_DENIED: (403, "permission_error"),
    Reason.MCP_DENIED: (403, "permission_error"),
    Reason.BODY_TOO_LARGE: (413, "request_too_large"),
    Reason.MALFORMED: (400, "invalid_request_error"),
    Reason.LOSS_REFUSED: (400, "invalid_request_error"),
    Reason.RPM: (429, "rate_limit_error"),
    Reason.CONCURRENCY: (429, "rate_limit_error"),
    Reason.TPM: (429, "rate_limit_error"),
    Reason.RPD: (429, "rate_limit_error"),
    Reason.TPD: (429, "rate_limit_error"),
    Reason.BUDGET: (402, "billing_error"),
}
# What the error is about, by rule; in Messages it stands at the beginning of the message.
ABOUT = {
    "models.allow": {"": "model"},
    "models.deny": {"": "model"},
    "functions": {"": "tools[0]"},
    "functions.max": {"": "tools[0]"},
    "hosted": {"": "tools[0]", "chat": "web_search_options", "completions": "web_search_options"},
    "mcp_servers": {"": "tools[0].server_url", "messages": "mcp_servers[0].url"},
    "max_output_tokens": {"": "max_tokens", "responses": "max_output_tokens"},
    "loss": {"chat": "seed", "completions": "suffix", "responses": "truncation", "messages": "top_k"},
}
WAIT = frozenset({Reason.RPM, Reason.TPM, Reason.CONCURRENCY})
STOP = frozenset({Reason.RPD, Reason.TPD, Reason.BUDGET})
DENYING = [name for name in RULES if not name.startswith(("endpoints without", "stored"))]


@asynccontextmanager
async def denying(rule: Rule) -> AsyncIterator[Site]:
    """Where the rule refuses, from now on."""
    who = tenant(**{"endpoints": EVERYTHING, **rule.fields})
    async with site(who, slow=rule.held, prices=PRICES) as proxy_site:
        if rule.used_up:
            await proxy_site.proxy.post("/v1/messages", USING_UP, rule.headers)
        holding = asyncio.create_task(proxy_site.hold(rule.headers)) if rule.held else None
        if holding is not None:
            await proxy_site.slow.got_one.wait()
        yield proxy_site
        if holding is not None:
            holding.cancel()
            await asyncio.wait([holding])
            await proxy_site.all_over()


def route_for(rule: Rule, client: str) -> Route | None:
    """Where the client meets the rule: first where nothing is translated."""
    backends = (client, *(name for name in PROTOCOLS if name != client))
    routes = (GENERATING.get((client, backend)) for backend in backends)
    return next((route for route in routes if route is not None and rule.expected(route) is not None), None)


@pytest.mark.parametrize("name", DENYING)
async def test_a_refusal_is_told_in_the_clients_own_dialect(name: str) -> None:
    rule = RULES[name]
    async with denying(rule) as proxy_site:
        for client in CLIENTS:
            route = route_for(rule, client)
            assert route is not None
            for more in ({}, {"stream": True}):
                body = route.body(model_of(route), **{**rule.members(route), **more})
                status, headers, answered = await proxy_site.ask(route, rule.headers, body=body)
                about = ABOUT.get(name, {})
                param = about.get(client, about.get(""))
                assert headers["content-type"] == "application/json"
                assert headers["dragoman-reason"] == rule.reason.value
                _check_body(client, rule.reason, param, status, headers, json.loads(answered))
                _check_retry(rule.reason, headers)


def _check_body(
    client: str, reason: Reason, param: str | None, status: int, headers: dict[str, str], wire: dict[str, object]
) -> None:
    error = wire["error"]
    assert isinstance(error, dict)
    message = error.pop("message")
    assert isinstance(message, str)
    assert message
    if client == "messages":
        assert (status, error.pop("type")) == MESSAGES[reason]
        error.pop("details", None)
        assert wire == {"type": "error", "error": {}, "request_id": headers["request-id"]}
        assert param is None or param in message or param == "model"
    else:
        expected = OPENAI[reason]
        assert (status, wire) == (expected[0], {"error": {"type": expected[1], "code": expected[2], "param": param}})


def _check_retry(reason: Reason, headers: dict[str, str]) -> None:
    told = {name: headers.get(name) for name in ("retry-after", "retry-after-ms", "x-should-retry")}
    if reason in WAIT:
        assert re.fullmatch(r"\d+", told["retry-after"] or "")
        assert 1 <= int(told["retry-after"] or "") <= 120
        assert re.fullmatch(r"\d+", told["retry-after-ms"] or "")
        assert 0 < int(told["retry-after-ms"] or "") <= 120_000
        assert told["x-should-retry"] is None
    else:
        stop = "false" if reason in STOP else None
        assert told == {"retry-after": None, "retry-after-ms": None, "x-should-retry": stop}


def test_every_reason_of_a_rule_is_told_in_both_families() -> None:
    assert {rule.reason for rule in RULES.values()} == OPENAI.keys() == MESSAGES.keys()


# ---- how the tenant's own limits stand

OPENAI_DURATION = re.compile(r"(\d+h)?(\d+m)?(\d+(\.\d+)?s|\d+ms)?")
LIMITED = {
    "rpm and tpm": TenantLimits(rpm=600, tpm=1_000_000),
    "rpd": TenantLimits(rpd=600),
    "tpd": TenantLimits(tpd=1_000_000),
    "all": TenantLimits(rpm=600, rpd=10**6, tpm=1_000_000, tpd=10**9, concurrency=5),
}


@pytest.mark.parametrize("name", LIMITED)
async def test_answers_say_how_the_limits_stand(name: str) -> None:
    limits = LIMITED[name]
    units = [unit for unit, counts in _counted(limits).items() if counts]
    async with site(tenant(limits=limits)) as proxy_site:
        for client in CLIENTS:
            for backend in PROTOCOLS:
                route = GENERATING.get((client, backend))
                if route is None:
                    continue
                for more in ({}, {"stream": True}):
                    body = route.body(model_of(route), **more)
                    status, headers, _ = await proxy_site.ask(route, bearer(), body=body)
                    assert status == 200
                    for unit in units:
                        limit, remaining, seconds = _standing(client, headers, unit)
                        assert limit == {"requests": 600, "tokens": 1_000_000}[unit]
                        assert 0 <= remaining < limit
                        assert 0 <= seconds <= 25 * 3600
                    assert len(_limit_headers(headers)) == 3 * len(units)


def _counted(limits: TenantLimits) -> dict[str, bool]:
    return {
        "requests": (limits.rpm or limits.rpd) is not None,
        "tokens": (limits.tpm or limits.tpd) is not None,
    }


def _limit_headers(headers: dict[str, str]) -> list[str]:
    return [name for name in headers if "ratelimit" in name]


def _standing(client: str, headers: dict[str, str], unit: str) -> tuple[int, int, float]:
    """(limit, remaining, seconds until it is whole again), read as the family of the client writes them."""
    if client == "messages":
        limit, remaining, reset = (
            headers[f"anthropic-ratelimit-{unit}-{what}"] for what in ("limit", "remaining", "reset")
        )
        moment = datetime.strptime(reset, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC) + timedelta(seconds=1)).total_seconds()
        return int(limit), int(remaining), seconds
    limit, remaining, reset = (headers[f"x-ratelimit-{what}-{unit}"] for what in ("limit", "remaining", "reset"))
    assert reset
    assert OPENAI_DURATION.fullmatch(reset)
    parts = re.findall(r"([\d.]+)(ms|h|m|s)", reset)
    return int(limit), int(remaining), sum(float(n) * {"h": 3600, "m": 60, "s": 1, "ms": 1e-3}[u] for n, u in parts)


@pytest.mark.parametrize(
    ("name", "unit"), [("rpm", "requests"), ("rpd", "requests"), ("tpm", "tokens"), ("tpd", "tokens")]
)
async def test_a_refusal_says_how_the_limits_stand(name: str, unit: str) -> None:
    rule = RULES[name]
    async with denying(rule) as proxy_site:
        for client in CLIENTS:
            route = route_for(rule, client)
            assert route is not None
            _, headers, _ = await proxy_site.ask(route, rule.headers)
            limit, remaining, seconds = _standing(client, headers, unit)
            assert (remaining, limit > 0, seconds > 0) == (0, True, True)
            assert len(_limit_headers(headers)) == 3


async def test_a_longer_wait_than_sdks_accept_is_told_whole_beside() -> None:
    rule = RULES["tpm"]  # of which 3001 are used, at 10 a minute
    async with denying(rule) as proxy_site:
        _, headers, _ = await proxy_site.proxy.post(PATHS["chat"], {**USING_UP}, rule.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("120", "120000")
    assert 17_900 < int(headers["dragoman-retry-after"]) <= 18_006


class Failing(MemoryLimiter):
    """One whose store is away."""

    async def reserve(self, tenant: Tenant, demand: Demand) -> Refused:
        return Refused(Reason.OVERLOADED, None)


@pytest.mark.parametrize("stream", [False, True])
async def test_limits_that_can_not_be_checked_are_told_as_overload(stream: bool) -> None:
    async with site(tenant()) as proxy_site:
        proxy_site.proxy.runtime.limiter = Failing()
        for client in CLIENTS:
            route = route_for(RULES["no key"], client)
            assert route is not None
            body = route.body(model_of(route), stream=stream)
            status, headers, answered = await proxy_site.ask(route, bearer(), body=body)
            error = json.loads(answered)["error"]
            if client == "messages":
                assert (status, error["type"]) == (529, "overloaded_error")
            else:
                told = (status, error["type"], error["code"])
                assert told == (503, "service_unavailable_error", "server_is_overloaded")
            assert (headers["dragoman-reason"], headers["retry-after"]) == ("overloaded", "1")
        assert proxy_site.asked == 0


async def test_who_has_used_little_is_not_told_to_have_used_all() -> None:
    who = tenant(limits=TenantLimits(tpd=20))
    async with let_in("chat", says_hello("chat", streamed=False), tenants=[who]) as (proxy, _):
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer()))[0] == 200
        status, _, body = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
    said = "Rate limit reached: this key's team has less left of its tokens a day than this request may use."
    assert (status, json.loads(body)["error"]["message"]) == (429, said)
