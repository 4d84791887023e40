"""Requests that hide behind an endpoint nobody translates: in batches, under other spellings of a path."""

import json

import pytest

from proxy.server.passthrough import class_of, owners_of
from proxy.settings.tenants import Budget, ModelRules, NameRules, Price, TenantLimits, ToolRules
from tests.server.serving import REQUESTS
from tests.server.tenancy import OTHER_ENTRY, OTHER_KEY, bearer, let_in, tenant
from tests.upstream.scripted import reply

ENDPOINTS = frozenset({"generate", "stored", "other"})
PARAMS = {**REQUESTS["messages"], "model": "dear"}
ONLY_CHEAP = {"models": ModelRules(NameRules(("cheap",)))}


@pytest.mark.parametrize("beside", [{}, {"model": "cheap"}])
async def test_a_batch_is_looked_into_also_where_it_names_a_model_itself(beside: dict[str, str]) -> None:
    batch = {"requests": [{"custom_id": "a", "params": PARAMS}], **beside}
    async with let_in("messages", reply(200, "{}"), tenants=[tenant(endpoints=ENDPOINTS, **ONLY_CHEAP)]) as (
        proxy,
        backend,
    ):
        status, headers, _ = await proxy.post("/v1/messages/batches", batch, bearer())
    assert (status, headers["dragoman-reason"], backend.asked) == (404, "model_denied", [])


@pytest.mark.parametrize("beside", [{}, {"model": "cheap"}])
@pytest.mark.parametrize("path", ["/v1/batches", "/v1/batches/", "/v1/batches/%2F"])
async def test_a_batch_in_a_file_is_refused_however_it_is_asked_for(path: str, beside: dict[str, str]) -> None:
    batch = {"input_file_id": "file_1", "endpoint": "/v1/responses", **beside}
    async with let_in("chat", reply(200, "{}"), tenants=[tenant(endpoints=ENDPOINTS, **ONLY_CHEAP)]) as (
        proxy,
        backend,
    ):
        status, _, _ = await proxy.post(path, batch, bearer())
    assert (status in (403, 404), backend.asked) == (True, [])


@pytest.mark.parametrize(
    "path",
    [
        "/files/../responses",
        "/files/%2e%2e/responses",
        "/files/..%2fresponses",
        "/files/..%5cresponses",
        "/responses//compact",
        "/responses/%2Fcompact",
    ],
)
def test_nobody_has_a_path_that_leads_elsewhere(path: str) -> None:
    assert owners_of("POST", path, messages_client=False) == ()


@pytest.mark.parametrize("path", ["/responses/compact", "/responses/compact/", "/responses/%63ompact"])
def test_an_endpoint_is_the_same_however_its_path_is_encoded(path: str) -> None:
    assert class_of(path) == "generate"


async def test_of_two_models_in_one_body_a_budget_believes_neither() -> None:
    prices = (Price("cheap", 1, 1, 1, 1, 1, 1), Price("dear", 10**9, 10**9, 0, 0, 0, 0))
    raw = b'{"model":"dear","messages":[{"role":"user","content":"x"}],"model":"cheap"}'
    who = tenant(limits=TenantLimits(budget=Budget(1000)))
    async with let_in("chat", reply(200, "{}"), tenants=[who], prices=prices) as (proxy, backend):
        status, headers, _ = await proxy.post("/v1/chat/completions", raw, bearer())
    assert (status, headers["dragoman-reason"], backend.asked) == (400, "malformed", [])


@pytest.mark.parametrize("content_type", ["multipart/form-data; boundary=x", "text/plain", "application/x-ndjson"])
@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/messages/batches", "/v1/batches"])
async def test_what_nobody_can_read_asks_for_no_answer(path: str, content_type: str) -> None:
    who = tenant(endpoints=ENDPOINTS, tools=ToolRules(hosted=NameRules(())))
    protocol = "messages" if "messages" in path else "responses"
    headers = {**bearer(), "content-type": content_type}
    async with let_in(protocol, reply(200, "{}"), tenants=[who]) as (proxy, backend):  # type: ignore[arg-type]
        status, _, _ = await proxy.ask("POST", path, headers, b'--x\r\n{"tools":[{"type":"web_search"}]}')
    assert (status, backend.asked) == (403, [])


async def test_a_count_is_not_anothers_whose_model_is_unsaid() -> None:
    """Two tenants send the same bytes, and each has its own default model."""
    body = {"messages": [{"role": "user", "content": "Say hello."}]}
    tenants = [
        tenant(models=ModelRules(default="cheap")),
        tenant("team-b", keys=(OTHER_ENTRY,), models=ModelRules(default="dear")),
    ]
    says = [reply(200, json.dumps({"input_tokens": tokens})) for tokens in (3, 4)]
    async with let_in("messages", *says, tenants=tenants) as (proxy, backend):
        for key in (bearer(), bearer(OTHER_KEY)):
            await proxy.post("/v1/messages/count_tokens", body, key)
    assert [json.loads(asked.body)["model"] for asked in backend.asked] == ["cheap", "dear"]
