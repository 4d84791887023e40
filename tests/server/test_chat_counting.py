"""Servers that speak Chat count by endpoints of their own, outside of `/v1` (mapping.md 16.2)."""

import json

import pytest

from tests.server.serving import before
from tests.server.test_counting import PATHS, REQUESTS
from tests.upstream.scripted import HOLD, reply

COUNTED = {"count": 42, "max_model_len": 8192, "tokens": [1, 2]}
WAIT = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_a_tokenizer_that_knows_conversations(client: str, dialect: str) -> None:
    async with before("chat", reply(200, json.dumps(COUNTED)), dialect=dialect) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS[client], REQUESTS[client])
    assert (status, json.loads(body)["input_tokens"], "dragoman-usage" in headers) == (200, 42, False)
    [asked] = backend.asked
    assert asked.line == "POST /tokenize HTTP/1.1"
    tools = [{**WAIT, "function": {**WAIT["function"], **described(client)}}]  # type: ignore[dict-item]
    assert json.loads(asked.body) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}],
        "tools": tools,
        "add_generation_prompt": True,
    }


def described(client: str) -> dict[str, str]:
    return {"description": "Wait."} if client == "messages" else {}


@pytest.mark.parametrize("client", PATHS)
async def test_a_template_and_a_tokenizer(client: str) -> None:
    template, tokens = json.dumps({"prompt": "<s>Say hello."}), json.dumps({"tokens": [1, 2, 3]})
    async with before("chat", reply(200, template), reply(200, tokens), dialect="llamacpp") as (proxy, backend):
        _, headers, body = await proxy.post(PATHS[client], REQUESTS[client])
    assert (json.loads(body)["input_tokens"], "dragoman-usage" in headers) == (3, False)
    assert [asked.line for asked in backend.asked] == ["POST /apply-template HTTP/1.1", "POST /tokenize HTTP/1.1"]
    assert json.loads(backend.asked[1].body) == {"content": "<s>Say hello.", "parse_special": True}


@pytest.mark.parametrize(
    "script",
    [
        reply(404, "{}"),
        reply(400, '{"error":"no template"}'),
        reply(500, ""),
        reply(200, "[]"),
        reply(200, "<html>"),
        reply(200, '{"count":-1,"prompt":5}'),
    ],
)
@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
async def test_a_server_that_can_not_leaves_it_to_an_estimate(dialect: str, script: bytes) -> None:
    async with before("chat", script, dialect=dialect) as (proxy, _):
        status, headers, body = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert (status, headers["dragoman-usage"]) == (200, "estimated")
    assert 10 < json.loads(body)["input_tokens"] < 60


async def test_one_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.chat_counting._WITHIN", 0.05)
    async with before("chat", [HOLD], dialect="vllm") as (proxy, backend):
        status, headers, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
        await backend.asked[0].left.wait()
    assert (status, headers["dragoman-usage"]) == (200, "estimated")
