"""Every route the application has, crossed with every field of a tenant's policy.

Routes come from the application's own tables and fields from the dataclasses, so that a new one of either without a row
here fails. What does not apply says why: `policy_rules.py`.
"""

import asyncio
import dataclasses
import json
import typing
from collections.abc import Sequence
from ipaddress import ip_network

import pytest
from pydantic import SecretStr

from proxy.settings.losses import LossPolicy
from proxy.settings.tenants import Budget, ModelRules, NameRules, Tenant, TenantKey, TenantLimits, UpstreamKeys
from proxy.tenancy.memory import MemoryLimiter
from tests.server.policy_rules import EVERYTHING, PRICES, RULES, USING_UP, has_body, makes_answer, too_many_tokens
from tests.server.routes import PROTOCOLS, Route, Site, all_routes, model_of, site
from tests.server.tenancy import KEY, bearer, tenant
from tests.upstream.scripted import Asked

ROUTES = all_routes()

# Every field of a policy: the rules above or the tests below that hold it to, or why there is nothing to refuse.
FIELDS: dict[str, str | Sequence[str]] = {
    "Tenant.name": "a label",
    "Tenant.disabled": ["a disabled tenant"],
    "Tenant.not_before": ["a tenant not valid yet"],
    "Tenant.expires_at": ["an expired tenant"],
    "Tenant.keys": ["no keys", "another's key", "no key"],
    "Tenant.protocols": ["protocols"],
    "Tenant.endpoints": ["endpoints", "stored, by default"],
    "Tenant.models": ["models.allow"],
    "Tenant.upstream": ["test_backends_are_asked_with_the_key_that_the_policy_says"],
    "Tenant.tools": ["functions"],
    "Tenant.limits": ["rpm"],
    "Tenant.ip_allow": ["ip_allow"],
    "Tenant.loss": ["loss"],
    "Tenant.log_content": "of answers alone, by test_content.py",
    "Tenant.audit_denials": ["test_every_denial_is_audited"],
    "Tenant.metadata": ["test_metadata_goes_where_answers_are_made"],
    "Tenant.forward_metadata": ["test_metadata_goes_where_answers_are_made"],
    "TenantKey.kid": ["another's key"],
    "TenantKey.method": ["a hash of another method"],
    "TenantKey.digest": ["a key with a wrong secret"],
    "TenantKey.not_before": ["a key not valid yet"],
    "TenantKey.expires_at": ["an expired key"],
    "NameRules.allow": ["models.allow"],
    "NameRules.deny": ["models.deny"],
    "ModelRules.names": ["models.allow", "models.deny"],
    "ModelRules.default": ["test_a_request_without_a_model_gets_the_default_one"],
    "ToolRules.functions": ["functions"],
    "ToolRules.most_functions": ["functions.max"],
    "ToolRules.hosted": ["hosted"],
    "ToolRules.mcp_servers": ["mcp_servers"],
    "UpstreamKeys.mode": ["test_backends_are_asked_with_the_key_that_the_policy_says"],
    "UpstreamKeys.keys": ["test_backends_are_asked_with_the_key_that_the_policy_says"],
    "UpstreamKeys.byok_header": ["test_backends_are_asked_with_the_key_that_the_policy_says"],
    "UpstreamKeys.byok_upstreams": ["test_a_callers_key_goes_to_no_backend_that_is_not_named"],
    "Budget.limit": ["budget"],
    "Budget.period": "when a budget begins anew, not where it holds",
    "Budget.anchor": "the same",
    "Budget.timezone": "the same",
    "Budget.hard": ["test_a_soft_budget_refuses_nothing"],
    "TenantLimits.rpm": ["rpm"],
    "TenantLimits.rpd": ["rpd"],
    "TenantLimits.tpm": ["tpm"],
    "TenantLimits.tpd": ["tpd"],
    "TenantLimits.concurrency": ["concurrency"],
    "TenantLimits.streams": ["streams"],
    "TenantLimits.max_body_bytes": ["max_body_bytes"],
    "TenantLimits.max_output_tokens": ["max_output_tokens", "test_an_answer_is_limited_wherever_one_is_made"],
    "TenantLimits.on_excess_output": ["max_output_tokens", "test_an_answer_is_limited_wherever_one_is_made"],
    "TenantLimits.timezone": "when a day begins, not where it counts",
    "TenantLimits.budget": ["budget"],
}


def policy_classes() -> set[type]:
    """The dataclasses that a tenant is made of."""
    found: set[type] = set()
    waiting: list[object] = [Tenant]
    while waiting:
        kind = waiting.pop()
        waiting.extend(typing.get_args(kind))
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in (*found, LossPolicy):
            found.add(kind)
            waiting.extend(typing.get_type_hints(kind).values())
    return found


def test_every_field_of_a_policy_has_a_row() -> None:
    classes = policy_classes()
    assert TenantKey in classes
    fields = {f"{kind.__name__}.{each.name}" for kind in classes for each in dataclasses.fields(kind)}
    assert set(FIELDS) == fields
    named = {name for row in FIELDS.values() if not isinstance(row, str) for name in row}
    assert {name for name in named if name not in RULES and not callable(globals().get(name))} == set()


def test_every_class_of_endpoints_has_routes() -> None:
    assert {route.kind for route in ROUTES} == EVERYTHING


async def at_rest(proxy_site: Site, who: Tenant) -> None:
    """Nothing is reserved and nothing open once all has been answered."""
    limiter = proxy_site.proxy.runtime.limiter
    assert isinstance(limiter, MemoryLimiter)
    assert (limiter.reserved_tokens, limiter.expired) == (0, 0)
    used = {standing.dimension: standing.used for standing in await limiter.standings(who)}
    assert (used.get("concurrency", 0), used.get("streams", 0)) == (0, 0)


@pytest.mark.parametrize("name", RULES)
async def test_a_refusal_holds_at_every_route_and_asks_no_backend(name: str) -> None:
    rule = RULES[name]
    who = tenant(**{"endpoints": EVERYTHING, **rule.fields})
    async with site(who, slow=rule.held, prices=PRICES) as proxy_site:
        if rule.used_up:
            assert (await proxy_site.proxy.post("/v1/messages", USING_UP, rule.headers))[0] == 200
        holding = asyncio.create_task(proxy_site.hold(rule.headers)) if rule.held else None
        if holding is not None:
            await proxy_site.slow.got_one.wait()
        wrong = []
        for route, expected in [(route, reason) for route in ROUTES if (reason := rule.expected(route))]:
            before = proxy_site.asked
            body = route.body(model_of(route), **rule.members(route))
            status, headers, answered = await proxy_site.ask(route, rule.headers, body=body)
            told = (status, headers.get("dragoman-reason"), proxy_site.asked - before)
            if told != (rule.status(expected, route), expected.value, 0):
                wrong.append((str(route), expected.value, *told, answered[:200]))
        assert wrong == []
        if holding is not None:
            holding.cancel()
            await asyncio.wait([holding])
            await proxy_site.slow.asked[0].left.wait()
            await proxy_site.all_over()
        await at_rest(proxy_site, who)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_applies_somewhere(name: str) -> None:
    assert any(RULES[name].expected(route) for route in ROUTES)


LIMITED = TenantLimits(rpm=60_000, rpd=10_000, tpm=10**9, tpd=10**9, concurrency=2, streams=2, max_output_tokens=5000)
COUNTS_NOTHING = dataclasses.replace(LIMITED, tpm=None, tpd=None)


def from_memory(route: Route) -> bool:
    """Lists are kept for a while, and what a Chat backend can't count is estimated."""
    return route.kind == "models" or (route.kind == "count_tokens" and route.backend == "chat")


@pytest.mark.parametrize("counts", [True, False])
async def test_what_is_allowed_passes_at_every_route_and_leaves_nothing_behind(counts: bool) -> None:
    """Else the refusals above would show nothing. With limits on tokens, batches are closed: see `Rule.expected`."""
    who = tenant(endpoints=EVERYTHING, limits=LIMITED if counts else COUNTS_NOTHING, models=ModelRules(default="d"))
    if not counts:
        who = dataclasses.replace(who, limits=dataclasses.replace(COUNTS_NOTHING, max_output_tokens=None))
    async with site(who) as proxy_site:
        wrong = []
        for route in ROUTES:
            if counts and route.in_batch:
                continue
            before = proxy_site.asked
            status, headers, answered = await proxy_site.ask(route, bearer())
            reserved = getattr(proxy_site.proxy.runtime.limiter, "reserved_tokens", None)
            if status != 200 or reserved != 0 or (proxy_site.asked == before and not from_memory(route)):
                wrong.append((str(route), status, reserved, headers.get("dragoman-reason"), answered[:200]))
        assert wrong == []
        await at_rest(proxy_site, who)


def protocols_of(route: Route) -> set[str]:
    """Whose users need the route: what belongs to neither of OpenAI's protocols alone is for both."""
    if route.client in ("messages", "responses"):
        return {route.client}
    return {"chat"} if route.path.startswith(("/chat", "/completions")) else {"chat", "responses"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_may_use_one_protocol_may_use_all_that_belongs_to_it(protocol: str) -> None:
    async with site(tenant(endpoints=EVERYTHING, protocols=frozenset({protocol}))) as proxy_site:
        for route in ROUTES:
            status, told, _ = await proxy_site.ask(route, bearer())
            expected = (200, None) if protocol in protocols_of(route) else (403, "protocol_denied")
            assert (status, told.get("dragoman-reason")) == expected, str(route)


# ---- what a policy changes instead of refusing


def asked_of(proxy_site: Site, protocol: str | None, count: int) -> list[Asked]:
    """What a backend has been asked since it had been asked so often."""
    return proxy_site.backends[protocol or "chat"].asked[count:]


def credentials(asked: Asked) -> set[str]:
    names = ("authorization", "x-api-key", "api-key")
    return {asked.headers[name].removeprefix("Bearer ") for name in names if name in asked.headers}


KEYS = {
    "shared": (UpstreamKeys(), bearer()),
    "map": (UpstreamKeys("map", {name: SecretStr(f"map-key-of-{name}") for name in PROTOCOLS}), bearer()),
    "byok": (
        UpstreamKeys("byok", byok_header="authorization", byok_upstreams=frozenset(PROTOCOLS)),
        {"x-api-key": KEY, "authorization": "Bearer byok-key"},
    ),
    "byok by a header of its own": (
        UpstreamKeys("byok", byok_header="x-own-key", byok_upstreams=frozenset(PROTOCOLS)),
        {**bearer(), "x-own-key": "byok-key"},
    ),
}


@pytest.mark.parametrize("name", KEYS)
async def test_backends_are_asked_with_the_key_that_the_policy_says(name: str) -> None:
    keys, headers = KEYS[name]
    expected = {"shared": "shared-key-of-{}", "map": "map-key-of-{}"}.get(name, "byok-key")
    async with site(tenant(endpoints=EVERYTHING, upstream=keys)) as proxy_site:
        for route in ROUTES:
            assert (await proxy_site.ask(route, headers))[0] == 200, str(route)
        for protocol, backend in proxy_site.backends.items():
            assert {key for asked in backend.asked for key in credentials(asked)} == {expected.format(protocol)}
            assert [asked.line for asked in backend.asked if len(credentials(asked)) != 1] == []
            assert not [asked for asked in backend.asked if KEY in str((asked.line, asked.headers, asked.body))]


@pytest.mark.parametrize("named", [False, True])
async def test_a_callers_key_goes_to_no_backend_that_is_not_named(named: bool) -> None:
    """And where it is named, nothing else takes the place of a key that does not come."""
    keys = UpstreamKeys("byok", byok_upstreams=frozenset(PROTOCOLS if named else ()))
    headers = bearer() if named else {"x-api-key": KEY, "authorization": "Bearer byok-key"}
    async with site(tenant(endpoints=EVERYTHING, upstream=keys)) as proxy_site:
        for route in ROUTES:
            status, told, body = await proxy_site.ask(route, headers)
            if route.handler == "list_models":  # of which the configuration names some
                assert bool(json.loads(body)["data"]) is named
            elif route.kind != "models":
                expected = (401, "auth_missing") if named else (403, "model_denied")
                assert (status, told["dragoman-reason"]) == expected, str(route)
        assert proxy_site.asked == 0


async def test_no_vendor_chooses_the_model_for_whom_it_matters() -> None:
    who = tenant(endpoints=EVERYTHING, models=ModelRules(NameRules(None, ("another",))))
    async with site(who) as proxy_site:
        for route in ROUTES:
            if route.names_model and route.has_body and route.kind != "stored":
                status, told, _ = await proxy_site.ask(route, bearer(), body=route.body(None))
                assert (status, told["dragoman-reason"]) == (400, "malformed"), str(route)
        assert proxy_site.asked == 0


async def test_metadata_goes_where_answers_are_made() -> None:
    """Vendors other than OpenAI have no place for it, and what nobody translates passes as it is."""
    who = tenant(endpoints=EVERYTHING, metadata={"cost": "4711", "owner": "a"}, forward_metadata=("cost",))
    async with site(who, dialect="openai") as proxy_site:
        for route in ROUTES:
            takes = route.handler == "generate" and route.backend != "messages"
            before = len(proxy_site.backends[route.backend or "chat"].asked)
            assert (await proxy_site.ask(route, bearer()))[0] == 200, str(route)
            for asked in asked_of(proxy_site, route.backend, before):
                wire = json.loads(asked.body) if asked.body else {}
                assert wire.get("metadata") == ({"cost": "4711"} if takes else None), str(route)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_request_without_a_model_gets_the_default_one(protocol: str) -> None:
    """Where one is asked for an answer. What a vendor keeps is about none, OpenAI's batches hold theirs in a file, and
    what measures or draws has models of its own kind."""
    name = f"on-{protocol}"
    who = tenant(endpoints=EVERYTHING, models=ModelRules(NameRules((name,)), name))
    async with site(who) as proxy_site:
        for route in ROUTES:
            asks = route.kind in ("generate", "count_tokens") or route.path == "/messages/batches"
            if not (asks and has_body(route) and route.backend == protocol):
                continue
            before = len(proxy_site.backends[protocol].asked)
            status, _, answered = await proxy_site.ask(route, bearer(), body=route.body(None))
            assert status == 200, (str(route), answered)
            for asked in asked_of(proxy_site, protocol, before):
                wire = json.loads(asked.body)
                told = wire["requests"][0]["params"] if "requests" in wire else wire
                assert told["model"] == name, str(route)


@pytest.mark.parametrize("said", [True, False])
async def test_an_answer_is_limited_wherever_one_is_made(said: bool) -> None:
    who = tenant(endpoints=EVERYTHING, limits=TenantLimits(max_output_tokens=100))
    async with site(who) as proxy_site:
        for route in filter(makes_answer, ROUTES):
            if not has_body(route) or route.backend is None:
                continue
            before = len(proxy_site.backends[route.backend].asked)
            body = route.body(model_of(route), **(too_many_tokens(route) if said else {}))
            assert (await proxy_site.ask(route, bearer(), body=body))[0] == 200, str(route)
            (asked,) = asked_of(proxy_site, route.backend, before)
            wire = json.loads(asked.body)
            told = wire["requests"][0]["params"] if "requests" in wire else wire
            limits = [
                told[name] for name in told if name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
            ]
            unsaid = [16] if route.client == "completions" else [] if route.path == "/responses/compact" else [100]
            assert limits == ([100] if said else unsaid), str(route)


async def test_a_soft_budget_refuses_nothing() -> None:
    """A batch whose cost can't be seen is closed to it all the same."""
    who = tenant(endpoints=EVERYTHING, limits=TenantLimits(budget=Budget(1000, hard=False)))
    async with site(who, prices=PRICES) as proxy_site:
        assert (await proxy_site.proxy.post("/v1/messages", {**USING_UP, "max_tokens": 100}, bearer()))[0] == 200
        for route in ROUTES:
            assert (await proxy_site.ask(route, bearer()))[0] == (403 if route.in_batch else 200), str(route)


async def test_lists_of_models_show_those_that_are_allowed() -> None:
    who = tenant(models=ModelRules(NameRules(("*-chat", "*-listed"), ("messages-*",))))
    async with site(who) as proxy_site:
        for route in ROUTES:
            if route.handler == "list_models":
                _, _, body = await proxy_site.ask(route, bearer())
                names = {model["id"] for model in json.loads(body)["data"]}
                assert names == {"on-chat", "chat-listed", "responses-listed"}


async def test_every_denial_is_audited() -> None:
    who = tenant(endpoints=EVERYTHING, ip_allow=(ip_network("10.0.0.0/8"),), audit_denials=True)
    async with site(who) as proxy_site:
        for route in ROUTES:
            await proxy_site.ask(route, bearer())
        written = proxy_site.proxy.access.records
    denials = [record for record in written if record["log"] == "audit"]
    assert len(denials) == len(ROUTES) == len(written) - len(denials)
    assert {(record["actor"], record["result"]) for record in denials} == {("team-a", "ip_denied")}
