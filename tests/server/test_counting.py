"""Counting tokens: the backend's count where there is one, else an estimate that says so."""

import json

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from proxy.settings import ProtocolName
from tests.server.serving import before
from tests.upstream.scripted import reply

MESSAGES = {
    "model": "m",
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Say hello."}],
    "tools": [{"name": "wait", "description": "Wait.", "input_schema": {"type": "object", "properties": {}}}],
}
RESPONSES = {
    "model": "m",
    "instructions": "Be brief.",
    "input": "Say hello.",
    "tools": [{"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}}],
}
PATHS = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
REQUESTS: dict[str, dict[str, object]] = {"messages": MESSAGES, "responses": RESPONSES}
COUNTED = {
    "messages": json.dumps({"input_tokens": 42}),
    "responses": json.dumps({"object": "response.input_tokens", "input_tokens": 42}),
}


@pytest.mark.parametrize("backend_protocol", ["messages", "responses"])
async def test_both_sdks_get_the_backends_count(backend_protocol: ProtocolName) -> None:
    async with before(backend_protocol, reply(200, COUNTED[backend_protocol])) as (proxy, backend):
        async with AsyncAnthropic(base_url=proxy.url, api_key="k") as anthropic:
            counted = await anthropic.messages.count_tokens(**MESSAGES)  # type: ignore[arg-type]
        async with AsyncOpenAI(base_url=proxy.url + "/v1", api_key="k") as openai:
            also = await openai.responses.input_tokens.count(**RESPONSES)  # type: ignore[arg-type]
    assert (counted.input_tokens, also.input_tokens, also.object) == (42, 42, "response.input_tokens")
    assert [asked.line for asked in backend.asked] == [f"POST {PATHS[backend_protocol]} HTTP/1.1"] * 2


@pytest.mark.parametrize("protocol", ["messages", "responses"])
async def test_within_a_protocol_the_question_passes_as_it_is(protocol: ProtocolName) -> None:
    raw = json.dumps({**REQUESTS[protocol], "future": 1}, indent=2).encode()
    async with before(protocol, reply(200, COUNTED[protocol])) as (proxy, backend):
        _, headers, body = await proxy.post(PATHS[protocol], raw)
    assert (backend.asked[0].body, body, "dragoman-usage" in headers) == (raw, COUNTED[protocol].encode(), False)


@pytest.mark.parametrize(
    ("client", "backend_protocol", "fields"),
    [
        ("messages", "responses", {"model", "input", "instructions", "tools"}),
        ("responses", "messages", {"model", "messages", "system", "tools"}),
    ],
)
async def test_another_protocol_is_asked_with_the_fields_that_it_counts(
    client: str, backend_protocol: ProtocolName, fields: set[str]
) -> None:
    async with before(backend_protocol, reply(200, COUNTED[backend_protocol])) as (proxy, backend):
        await proxy.post(PATHS[client], REQUESTS[client])
    asked = set(json.loads(backend.asked[0].body))
    assert asked >= fields
    assert not asked & {"max_tokens", "max_output_tokens", "store", "stream"}


@pytest.mark.parametrize(
    "script",
    [
        reply(404, "{}"),
        reply(405, ""),
        reply(501, ""),
        reply(200, "{}"),
        reply(200, "<html>"),
        reply(200, '{"input_tokens":-1}'),
    ],
)
@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("backend_protocol", ["messages", "responses"])
async def test_a_backend_that_does_not_count_leaves_it_to_an_estimate(
    client: str, backend_protocol: ProtocolName, script: bytes
) -> None:
    async with before(backend_protocol, script) as (proxy, _):
        status, headers, body = await proxy.post(PATHS[client], REQUESTS[client])
    assert (status, headers["dragoman-usage"]) == (200, "estimated")
    assert 10 < json.loads(body)["input_tokens"] < 60


@pytest.mark.parametrize("client", PATHS)
async def test_a_chat_backend_is_not_even_asked(client: str) -> None:
    async with before("chat", []) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS[client], REQUESTS[client])
    assert (status, headers["dragoman-usage"], backend.asked) == (200, "estimated", [])
    assert 10 < json.loads(body)["input_tokens"] < 60


async def test_a_thinking_budget_needs_no_limit_beside_it_when_counting() -> None:
    request = {**MESSAGES, "thinking": {"type": "enabled", "budget_tokens": 32000}}
    async with before("chat", []) as (proxy, _):
        status, _, _ = await proxy.post(PATHS["messages"], request)
    assert status == 200


async def test_the_same_question_is_asked_once_a_minute() -> None:
    async with before("messages", reply(200, COUNTED["messages"])) as (proxy, backend):
        for request in (MESSAGES, MESSAGES, {**MESSAGES, "system": "Be long."}, MESSAGES):
            _, _, body = await proxy.post(PATHS["messages"], request)
    assert (len(backend.asked), json.loads(body)) == (2, {"input_tokens": 42})


async def test_but_not_for_another_clients_key() -> None:
    async with before("messages", reply(200, COUNTED["messages"]), key=None) as (proxy, backend):
        for key in ("one", "two"):
            await proxy.post(PATHS["messages"], MESSAGES, {"x-api-key": key})
    assert [asked.headers["x-api-key"] for asked in backend.asked] == ["one", "two"]


@pytest.mark.parametrize(("status", "got"), [(400, 400), (401, 502), (429, 429), (500, 500), (529, 529)])
async def test_a_refusal_is_passed_on(status: int, got: int) -> None:
    wire = {"type": "error", "error": {"type": "x", "message": "no"}}
    async with before("messages", reply(status, json.dumps(wire))) as (proxy, _):
        seen, _, _ = await proxy.post(PATHS["messages"], MESSAGES)
    assert seen == got


@pytest.mark.parametrize("client", PATHS)
async def test_a_malformed_question_is_refused(client: str) -> None:
    name = "messages" if client == "messages" else "input"
    async with before("chat", []) as (proxy, _):
        status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], name: 7})
    assert (status, headers["dragoman-reason"]) == (400, "malformed")
    assert json.loads(body)["error"]["message"].startswith(f"{name}: ")


async def test_servers_of_tools_are_counted_with_what_they_need() -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": "https://tools.example/mcp", "require_approval": "never"}
    async with before("messages", reply(200, COUNTED["messages"]), dialect="anthropic") as (proxy, backend):
        await proxy.post(PATHS["responses"], {**RESPONSES, "tools": [tool]})
    [asked] = backend.asked
    assert json.loads(asked.body)["mcp_servers"] == [{"type": "url", "url": tool["server_url"], "name": "s"}]
    assert asked.headers["anthropic-beta"] == "mcp-client-2025-11-20"
