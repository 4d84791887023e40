"""A turn that the backend pauses goes on by the proxy's own asking (mapping.md 12.3)."""

import json

import pytest

from proxy.canonical.tools import FunctionTool
from tests.harness.assemble import assemble
from tests.harness.wire import Protocol, read_events
from tests.server.serving import before
from tests.translation.test_continuation import GOING_ON, ROUNDS, events, message, stop_and_usage, text, words
from tests.upstream.scripted import CUT, Step, reply, stream

TOOLS = {
    "chat": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "f", "strict": False, "parameters": {"type": "object"}}],
}
REQUESTS: dict[str, dict[str, object]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS["chat"]},
    "responses": {"model": "m", "input": "hi", "tools": TOOLS["responses"]},
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}


@pytest.fixture(autouse=True)
def _any_tool_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses come with tools that the backend runs itself; here with any."""
    monkeypatch.setattr("proxy.translation.prepare.HostedTool", FunctionTool)


def said(*messages: dict[str, object], streamed: bool) -> list[list[Step]]:
    if streamed:
        return [stream(*events(entry)) for entry in messages]
    return [[reply(200, json.dumps(entry))] for entry in messages]


@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize("asks_stream", [True, False])
@pytest.mark.parametrize("gets_stream", [True, False])
async def test_the_client_gets_one_answer(client: Protocol, asks_stream: bool, gets_stream: bool) -> None:
    more = {"stream_options": {"include_usage": True}} if client == "chat" and asks_stream else {}
    async with before("messages", *said(*ROUNDS, streamed=gets_stream)) as (proxy, backend):
        wire = {**REQUESTS[client], "stream": asks_stream, **more}
        status, _, raw = await proxy.post(PATHS[client], wire)
        record = await proxy.record()
    assert status == 200
    answer = assemble(client, read_events(raw.decode()).events) if asks_stream else json.loads(raw)
    assert words(client, answer) == "One two three."
    assert stop_and_usage(client, answer)[1:] == (315, 60)
    turns = [json.loads(asked.body)["messages"][1:] for asked in backend.asked]
    assert turns == [[], *(body["messages"][1:] for body in GOING_ON)]
    assert (record["outcome"], record["tokens"]) == (
        "ok",
        {"input": 315, "output": 60, "cache_read": 15, "cache_write": 0, "reasoning": 0},
    )


@pytest.mark.parametrize("second", [[CUT], [reply(529, '{"type":"error","error":{"type":"overloaded_error"}}')]])
async def test_a_turn_that_cannot_go_on_is_an_error(second: list[Step]) -> None:
    (first,) = said(message([text("One ")], "pause_turn"), streamed=True)
    async with before("messages", first, second) as (proxy, _):
        _, _, raw = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": True})
        record = await proxy.record()
    assert b'"content":"One "' in raw
    assert b'data: {"error"' in raw
    assert b"[DONE]" not in raw
    assert record["outcome"] == "incomplete"


async def test_a_model_that_cannot_be_forced_is_asked_twice() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    answers = said(message([text("Hm.")], "end_turn"), message([call], "tool_use"), streamed=False)
    async with before("messages", *answers) as (proxy, backend):
        wire = {**REQUESTS["chat"], "model": "claude-opus-5-5", "tool_choice": "required", "max_tokens": 500}
        _, headers, raw = await proxy.post(PATHS["chat"], wire)
    first, second = (asked.body for asked in backend.asked)
    assert first == second
    choice = json.loads(raw)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert "forced-choice;approx" in headers["dragoman-loss"]
