"""Models that take tools with reasoning only on Responses are asked there (mapping.md 8.4, "Endpoint choice")."""

import json

import pytest

from proxy.settings import LossPolicy
from tests.server.serving import PATHS, REQUESTS, before, says_hello

TOOLS: dict[str, list[dict[str, object]]] = {
    "messages": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
    "responses": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}],
}
MODEL = [("*", "gpt-5.5", LossPolicy())]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", TOOLS)
async def test_tools_with_reasoning(client: str, stream: bool) -> None:
    hello = says_hello("responses", streamed=stream)
    async with before("chat", hello, dialect="openai", models=MODEL) as (proxy, backend):
        asked = {**REQUESTS[client], "tools": TOOLS[client], "stream": stream}
        status, _, body = await proxy.post(PATHS[client], asked)
        record = await proxy.record()
    assert (status, b"Hel" in body, record["backend"]) == (200, True, "responses")
    [request] = backend.asked
    assert request.line == "POST /v1/responses HTTP/1.1"
    assert [tool["name"] for tool in json.loads(request.body)["tools"]] == ["f"]


@pytest.mark.parametrize("client", TOOLS)
async def test_without_tools_it_stays_as_it_was(client: str) -> None:
    hello = says_hello("chat", streamed=False)
    async with before("chat", hello, dialect="openai", models=MODEL) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS[client], REQUESTS[client])
    assert (status, backend.asked[0].line) == (200, "POST /v1/chat/completions HTTP/1.1")


@pytest.mark.parametrize(
    "dialect",
    [
        {"dialect": "azure", "dialect_flags": {"responses_too": False}},
        {"dialect": "openai", "dialect_flags": {"responses_too": False}},
    ],
)
async def test_a_backend_without_that_endpoint_refuses(dialect: dict[str, object]) -> None:
    async with before("chat", [], models=MODEL, **dialect) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "tools": TOOLS["messages"]})
    assert (status, backend.asked) == (400, [])
    assert "only on the Responses protocol" in json.loads(body)["error"]["message"]
