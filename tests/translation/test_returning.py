"""What a backend gets back of its reasoning after a client has kept it, changed it or lost some (mapping.md 8.6)."""

import json
from collections.abc import Callable

import pytest

from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.envelope import Scope
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import Json, Protocol
from tests.properties.test_carriers import first_request, with_answer

SCOPE = Scope("0123456789ab", (bytes(range(32)),))
BAD = "drg1.0123456789ab.AAAA"


def target(backend: Protocol, model: str = "m", dialect: str = "generic") -> Target:
    return Target(backend, model, PROFILES[backend].get(dialect, Dialect()), profile_of(model))


def prepared(client: Protocol, request: Json, backend: Target) -> pair.Prepared:
    return pair.prepare(pair.peek(client, json.dumps(request).encode()), backend, pair.Options(scope=SCOPE))


def history(ready: pair.Prepared) -> list[Json]:
    """What the backend gets behind the user's first words, without the results of tools."""
    body = json.loads(ready.body)
    entries = body["input" if ready.backend == "responses" else "messages"]
    return [
        entry for entry in entries[1:] if entry.get("type") != "function_call_output" and entry.get("role") != "tool"
    ]


def losses(ready: pair.Prepared) -> list[str]:
    return [loss.rule for loss in ready.losses]


def after(
    client: Protocol, backend: Target, reply: Json, change: Callable[[Json], None] | None = None
) -> pair.Prepared:
    """The request of the turn after this answer, which the client keeps, changed or not."""
    request = first_request(client, stream=False)
    answer = json.loads(prepared(client, request, backend).reply(json.dumps(reply).encode()))
    following = with_answer(client, request, answer)
    if change is not None:
        change(following)
    return prepared(client, following, backend)


# --- what backends answer ---


def claude(*blocks: Json) -> Json:
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(blocks)} | {
        "stop_reason": stop,
        "usage": usage,
    }


def thinking(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool_use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "tool_1", "input": {"a": "b"}}


# --- all or nothing (mapping.md 8.7) ---

TWO_THOUGHTS = claude(
    thinking("One.", "s1"),
    text("First."),
    tool_use("toolu_a"),
    thinking("Two.", "s2"),
    text("Then."),
    tool_use("toolu_b"),
)
WITHOUT = [{"role": "assistant", "content": [text("First."), tool_use("toolu_a"), text("Then."), tool_use("toolu_b")]}]


def kinds(ready: pair.Prepared) -> list[list[str]]:
    return [[block["type"] for block in entry["content"]] for entry in history(ready) if entry["role"] == "assistant"]


@pytest.mark.parametrize("lost", [0, 1])
def test_items_that_become_one_message_keep_all_of_their_thinking_or_none(lost: int) -> None:
    def change(request: Json) -> None:
        thoughts = [item for item in request["input"] if item.get("type") == "reasoning"]
        thoughts[lost]["encrypted_content"] = BAD

    ready = after("responses", target("messages", "claude-opus-4-8"), TWO_THOUGHTS, change)
    assert [entry for entry in history(ready) if entry["role"] == "assistant"] == WITHOUT
    assert losses(ready) == ["carrier-bad"]


def test_messages_that_become_one_keep_all_of_their_thinking_or_none() -> None:
    def change(request: Json) -> None:
        details = [{"type": "reasoning.encrypted", "data": BAD, "format": "dragoman-v1"}]
        request["messages"].insert(1, {"role": "assistant", "content": "Before.", "reasoning_details": details})

    ready = after("chat", target("messages", "claude-opus-4-8"), TWO_THOUGHTS, change)
    assert kinds(ready) == [["text", "text", "tool_use", "tool_use"]]
    assert losses(ready)[0] == "carrier-bad"


def test_a_budget_needs_the_thinking_of_the_whole_message() -> None:
    def change(request: Json) -> None:
        request["reasoning"] = {"effort": "high"}
        thoughts = [item for item in request["input"] if item.get("type") == "reasoning"]
        thoughts[0].pop("encrypted_content")

    ready = after("responses", target("messages", "claude-opus-4-5"), TWO_THOUGHTS, change)
    assert "thinking" not in json.loads(ready.body)
    assert [entry for entry in history(ready) if entry["role"] == "assistant"] == WITHOUT
    assert losses(ready) == ["foreign-reasoning", "thinking-missing"]


def test_a_budget_stays_where_the_whole_message_begins_with_thinking() -> None:
    def change(request: Json) -> None:
        request["reasoning"] = {"effort": "high"}

    ready = after("responses", target("messages", "claude-opus-4-5"), TWO_THOUGHTS, change)
    assert json.loads(ready.body)["thinking"]["type"] == "enabled"
    assert kinds(ready) == [["thinking", "text", "tool_use", "thinking", "text", "tool_use"]]
