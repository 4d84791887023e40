"""The words in which a call was asked for stand at the same place on every later turn (mapping.md 6.2)."""

import json

import pytest

from proxy.canonical.loss import Rule
from proxy.canonical.parts import Call, HostedCall, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.directives import put_back
from proxy.translation.envelope import PREFIXES, Scope
from proxy.translation.profiles import profile_of
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Json, Protocol, read_events
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes
from tests.properties.test_carriers import first_request, with_answer

SCRIPT = Script((Part("reasoning", ("Hm.",), 0), Part("call", ("{}",), 1)), "tool")
TARGET = Target("messages", "claude-opus-5-5", Dialect("anthropic", "anthropic"), profile_of("claude-opus-5-5"))
WORDS = {"required": "Answer by calling one of the tools.", "named": "Call the tool `tool_1` now."}


@pytest.mark.parametrize("scope", [Scope("0123456789ab"), Scope("0123456789ab", (bytes(range(32)),), "team-a")])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("choice", ["required", "named"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_they_come_back_with_the_answer(client: Protocol, choice: str, stream: bool, scope: Scope) -> None:
    request = first_request(client, stream=stream)
    named: dict[str, Json] = {
        "chat": {"type": "function", "function": {"name": "tool_1"}},
        "responses": {"type": "function", "name": "tool_1"},
    }
    wanted = choice if choice == "required" else named[client]
    options = pair.Options(scope=scope)
    asked = pair.prepare(pair.peek(client, json.dumps({**request, "tool_choice": wanted}).encode()), TARGET, options)
    before = json.loads(asked.body)
    assert before["messages"][-1]["content"][-1] == {"type": "text", "text": WORDS[choice]}
    if stream:
        translation = asked.translation()
        raw = b"".join([*map(translation.feed, event_bytes("messages", SCRIPT)), translation.end()])
        assert check_stream(client, raw) == []
        reply = assemble(client, read_events(raw.decode()).events)
    else:
        reply = json.loads(asked.reply(whole_bytes("messages", SCRIPT)))
    following = with_answer(client, request, reply)
    later = pair.prepare(pair.peek(client, json.dumps(following).encode()), TARGET, options)
    assert not any(mark.encode() in later.body for mark in PREFIXES)
    messages = json.loads(later.body)["messages"]
    assert messages[: len(before["messages"])] == before["messages"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "tool_use"]
    elsewhere = pair.prepare(
        pair.peek(client, json.dumps(following).encode()), TARGET, pair.Options(scope=Scope("ba9876543210"))
    )
    assert WORDS[choice].encode() not in elsewhere.body


def directive(text: object) -> HostedCall:
    return HostedCall("directive", {"type": "directive", "text": text})


def test_where_they_stood() -> None:
    answer = Turn("assistant", [Call("c", "f"), directive("Call it.")])
    request = Request("chat", "m", turns=[Turn("user", [Text("hi")]), answer, Turn("assistant", [directive("Now.")])])
    put_back(request)
    assert request.turns == [
        Turn("user", [Text("hi"), Text("Call it.")]),
        Turn("assistant", [Call("c", "f")]),
        Turn("user", [Text("Now.")]),
        Turn("assistant", []),
    ]


@pytest.mark.parametrize("text", [None, 7, "", ["x"]])
def test_what_is_no_text_is_left_out(text: object) -> None:
    request = Request("chat", "m", turns=[Turn("user", [Text("hi")]), Turn("assistant", [directive(text)])])
    put_back(request)
    assert request.turns == [Turn("user", [Text("hi")]), Turn("assistant", [])]


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_a_call_that_is_asked_for_in_words_is_not_asked_to_be_json_text_besides(client: Protocol) -> None:
    form: Json = {"name": "map", "schema": {"type": "object", "additionalProperties": True}}
    request = {**first_request(client, stream=False), "tool_choice": "required"}
    if client == "chat":
        request["response_format"] = {"type": "json_schema", "json_schema": form}
    else:
        request["text"] = {"format": {"type": "json_schema", **form}}
    asked = pair.prepare(pair.peek(client, json.dumps(request).encode()), TARGET, pair.Options())
    body = json.loads(asked.body)
    assert body["messages"][-1]["content"][-1] == {"type": "text", "text": WORDS["required"]}
    assert "JSON" not in json.dumps(body.get("system"))
    assert [loss.rule for loss in asked.losses].count(Rule.SCHEMA_FALLBACK) == 1
