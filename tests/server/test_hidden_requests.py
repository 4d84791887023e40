"""Requests that hide behind an endpoint nobody translates: in batches, under other spellings of a path."""

import asyncio
import json

import pytest
from pydantic import SecretBytes, SecretStr

from proxy.server.passthrough import class_of, owners_of
from proxy.settings import ProtocolName
from proxy.settings.tenants import Budget, ModelRules, NameRules, Price, TenantLimits, ToolRules, UpstreamKeys
from tests.server.serving import REQUESTS, serving, upstream
from tests.server.tenancy import KEY, OTHER_ENTRY, OTHER_KEY, PEPPER, bearer, let_in, tenant
from tests.upstream.scripted import HOLD, Scripted, reply

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
        "/responses/compact;x=1",
        "/responses/compact%3bx",
        "/batches/;x",
        "/responses/compact%00",
        "/responses/compact%0d%0a",
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


@pytest.mark.parametrize("content_type", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/v1/audio/transcriptions", 403, "model_denied"),
        ("/v1/images/edits", 403, "model_denied"),
        ("/v1/files", 200, None),
    ],
)
async def test_a_form_may_name_any_model(path: str, status: int, reason: str | None, content_type: str) -> None:
    """So one that asks a model is closed to whom it matters which; one that stores a file asks none."""
    headers = {**bearer(), "content-type": content_type}
    async with let_in("chat", reply(200, "{}"), tenants=[tenant(endpoints=ENDPOINTS, **ONLY_CHEAP)]) as (
        proxy,
        backend,
    ):
        told, answered, _ = await proxy.ask("POST", path, headers, b"--x\r\nmodel=dear")
    assert (told, answered.get("dragoman-reason"), len(backend.asked)) == (status, reason, int(status == 200))


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


# ---- what a vendor keeps


@pytest.mark.parametrize("body", [b"", b"{}", b'{"model": "m"}'])
@pytest.mark.parametrize("path", ["/v1/chat/completions/chatcmpl-1", "/v1/vector_stores", "/v1/files"])
async def test_what_is_kept_under_a_shared_key_is_closed_also_to_who_has_keys_elsewhere(path: str, body: bytes) -> None:
    """Whether or not the request names a model, whose backend the tenant has no key of its own for."""
    keys = UpstreamKeys("map", {"another": SecretStr("own-key")})
    headers = {**bearer(), "content-type": "application/json"}
    async with let_in("chat", reply(200, "{}"), tenants=[tenant(upstream=keys)]) as (proxy, backend):
        status, told, _ = await proxy.ask("POST", path, headers, body)
    assert (status, told["dragoman-reason"], backend.asked) == (403, "endpoint_denied", [])


async def test_an_upload_goes_where_the_callers_own_key_may_go() -> None:
    who = tenant(upstream=UpstreamKeys("byok", byok_upstreams=frozenset({"second"})))
    headers = {"x-api-key": KEY, "authorization": "Bearer byok-key"}
    async with Scripted(reply(200, "{}")) as first, Scripted(reply(200, "{}")) as second:
        tos = [upstream("chat", first.base_url, name="first"), upstream("chat", second.base_url, name="second")]
        async with serving(*tos, tenants=[who], key_pepper=SecretBytes(PEPPER)) as proxy:
            status, _, _ = await proxy.ask("GET", "/v1/files", headers)
    assert (status, first.asked, second.asked[0].headers["authorization"]) == (200, [], "Bearer byok-key")


@pytest.mark.parametrize("limits", [TenantLimits(tpm=1000), TenantLimits(tpd=1000), TenantLimits(budget=Budget(10**6))])
@pytest.mark.parametrize("protocol", ["responses", "chat"])
async def test_no_answer_is_made_where_nobody_counts_it(protocol: ProtocolName, limits: TenantLimits) -> None:
    prices = (Price("*", 1, 1, 1, 1, 1, 1),)
    wire = {**REQUESTS["responses"], "background": True}
    async with let_in(protocol, reply(200, "{}"), tenants=[tenant(limits=limits)], prices=prices) as (proxy, backend):
        status, told, body = await proxy.post("/v1/responses", wire, bearer())
    assert (status, told["dragoman-reason"], backend.asked) == (403, "endpoint_denied", [])
    assert json.loads(body)["error"]["param"] == "background"


async def test_a_stored_answer_that_is_streamed_again_is_a_stream() -> None:
    who = tenant(endpoints=ENDPOINTS, limits=TenantLimits(streams=1))
    async with let_in("responses", [HOLD], reply(200, "{}"), tenants=[who]) as (proxy, backend):
        url = f"{proxy.url}/v1/responses/resp_1?stream=true"
        first = asyncio.create_task(proxy.session.get(url, headers=bearer()).__aenter__())
        await backend.got_one.wait()
        status, told, _ = await proxy.ask("GET", "/v1/responses/resp_1?stream=true", bearer())
        whole, _, _ = await proxy.ask("GET", "/v1/responses/resp_1", bearer())
        first.cancel()
        await asyncio.wait([first])
    assert (status, told["dragoman-reason"], whole) == (429, "concurrency", 200)


@pytest.mark.parametrize("path", ["/embeddings", "/responses/compact", "/chat/completions/chatcmpl-1", "/audio/speech"])
async def test_a_header_makes_no_other_protocol_of_an_endpoint(path: str) -> None:
    headers = {**bearer(), "anthropic-version": "2023-06-01"}
    who = tenant(endpoints=ENDPOINTS, protocols=frozenset({"messages"}))
    async with let_in("chat", reply(200, "{}"), tenants=[who]) as (proxy, backend):
        status, told, _ = await proxy.post(f"/v1{path}", {"model": "m", "input": "hello"}, headers)
    assert (status, told["dragoman-reason"], backend.asked) == (403, "protocol_denied", [])
