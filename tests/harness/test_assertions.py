"""The paths and operations of the cases' assertions."""

import json

import pytest

from tests.harness.assertions import problems
from tests.harness.capture import Capture
from tests.harness.model_replies import render
from tests.harness.paths import find
from tests.harness.samples import sample_events, sample_stream
from tests.harness.wire import PROTOCOLS, Json, Protocol

TREE = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "n": 1}]},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
    ],
    "by-name": {"$ref": True},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("messages[0].role", ["user"]),
        ("messages[-1].role", ["assistant"]),
        ("messages[7].role", []),
        ("messages[*].role", ["user", "assistant"]),
        ("messages[*].content[0].text", ["a", "b"]),
        ("messages[1].content[type=text].text", ["b", "c"]),
        ("messages[1].content[type=text][1].text", ["c"]),
        ("messages[*].content[type=text][-1].text", ["c"]),
        ("messages[0].content[n=1].type", ["image"]),
        ("messages[role=user].content[*].type", ["text", "image"]),
        ("by-name[$ref=True].$ref", [True]),
        ("by-name.nothing", []),
        ("messages.role", []),
    ],
)
def test_paths(path: str, values: list[Json]) -> None:
    assert find(TREE, path) == values


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="is no path"):
        find(TREE, "messages[a]")


OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
STRICT_SCHEMA = {**OPEN_SCHEMA, "additionalProperties": False, "required": ["a"]}

# (operation, value, what makes it hold, what does not), on the field `x`
ON_FIELD: list[tuple[str, Json, Json, Json]] = [
    ("equals", 1, 1.0, True),
    ("equals", {"a": [1], "b": 2}, {"b": 2, "a": [1]}, {"a": [1, 2], "b": 2}),
    ("one_of", [1, "a"], "a", "b"),
    ("matches", "^a.c$", "abc", "abcd"),
    ("length", 2, [0, 0], [0]),
    ("json_equals", {"a": 1}, '{ "a": 1.0 }', '{"a": 2}'),
    ("is_type", "integer", 3, True),
    ("is_type", "string_or_array", [], {}),
    ("at_least", 3, 3, 2),
    ("less_than_path", "y", 4, 5),
    ("present", None, 0, None),
    ("absent", None, None, 0),
    ("contains", "needle", {"deep": ["a needle here"]}, ["need"]),
    ("contains", 2, [1, 2], [[2]]),
    ("not_contains", "needle", "hay", {"deep": ["needle"]}),
    ("not_equals", 1, 2, 1.0),
    ("not_one_of", [1, 2], 3, 2),
    ("same_as", "y", 5, 4),
    ("differs_from", "y", 4, 5),
    ("one_string_property", None, OPEN_SCHEMA, {"properties": {}}),
    ("one_string_value", None, {"any": "text"}, {"any": 1}),
    ("strict_schema", None, STRICT_SCHEMA, {**STRICT_SCHEMA, "properties": {"a": OPEN_SCHEMA}}),
]


def _found(assertion: Json, seen: Capture) -> bool:
    return bool(problems([assertion], seen))


def _request(body: Json, protocol: Protocol = "messages") -> Capture:
    return Capture(
        protocol, json.dumps(body).encode(), [("X-Key", "k"), ("x-other", "o")], path="/v1/messages", count=2
    )


@pytest.mark.parametrize(("operation", "value", "right", "wrong"), ON_FIELD)
def test_operations_on_a_field(operation: str, value: Json, right: Json, wrong: Json) -> None:
    assertion = {"path": "x", "op": operation, "value": value}
    assert not _found(assertion, _request({"x": right, "y": 5}))
    assert _found(assertion, _request({"x": wrong, "y": 5}))


def test_a_comparison_needs_both_sides() -> None:
    for operation in ("same_as", "differs_from"):
        assert _found({"path": "x", "op": operation, "value": "nowhere"}, _request({"x": 1}))


def test_operations_on_one_value_want_exactly_one() -> None:
    assert _found({"path": "x", "op": "equals", "value": None}, _request({}))
    assert _found({"path": "x[*]", "op": "equals", "value": 1}, _request({"x": [1, 1]}))
    assert not _found({"path": "x[*]", "op": "count", "value": 2}, _request({"x": [1, 1]}))


def test_special_roots() -> None:
    seen = _request({"x": 1})
    for path, value in [
        ("$headers.x-key", "k"),
        ("$headers_text", "x-key: k\nx-other: o"),
        ("$body_text", '{"x": 1}'),
        ("$path", "/v1/messages"),
        ("$count", 2),
    ]:
        assert not _found({"path": path, "op": "equals", "value": value}, seen)
    assert not _found({"path": "$headers.x-none", "op": "absent"}, seen)


def test_a_body_that_is_no_json_fails_what_looks_into_it() -> None:
    seen = Capture("chat", b"<html>", status=502)
    assert _found({"path": "x", "op": "absent"}, seen)
    assert _found({"op": "error"}, seen)
    assert not _found({"path": "$status", "op": "equals", "value": 502}, seen)


# What all three sample streams say.
ON_REPLY: list[tuple[Json, Json]] = [
    ({"op": "concat_text", "value": "Let me look."}, {"op": "concat_text", "value": "Let me"}),
    ({"op": "concat_reasoning", "value": "Two cities."}, {"op": "concat_reasoning", "value": ""}),
    (
        {"op": "tool_calls", "value": [{"name": "get_weather", "arguments": {"city": c}} for c in ("Lima", "Oslo")]},
        {"op": "tool_calls", "value": []},
    ),
    ({"op": "valid_stream"}, {"op": "error"}),
    ({"op": "all_data_json"}, {"op": "stream_error"}),
    ({"path": "$status", "op": "equals", "value": 200}, {"op": "rejected"}),
    ({"op": "any_of", "value": [[{"op": "error"}], [{"op": "valid_stream"}]]}, {"op": "any_of", "value": []}),
    ({"path": "$upstream_count", "op": "equals", "value": 2}, {"path": "$upstream_count", "op": "equals", "value": 1}),
    (
        {"op": "upstream", "value": [{"path": "x", "op": "equals", "value": 1}]},
        {"op": "upstream", "value": [{"path": "x", "op": "equals", "value": 2}]},
    ),
]
ON_REPLY_OF: dict[Protocol, list[tuple[Json, Json]]] = {
    "chat": [
        ({"op": "stop", "value": "tool_calls"}, {"op": "stop", "value": "stop"}),
        ({"op": "usage", "value": {"prompt_tokens": 12}}, {"op": "usage", "value": {"prompt_tokens": 8}}),
        ({"path": "$done", "op": "equals", "value": True}, {"op": "no_empty_choices"}),
        (
            {"path": "final.choices[0].message.tool_calls[1].id", "op": "equals", "value": "call_1"},
            {"path": "events[0].data.choices", "op": "length", "value": 2},
        ),
    ],
    "messages": [
        ({"op": "stop", "value": "tool_use"}, {"op": "stop", "value": "end_turn"}),
        ({"op": "usage", "value": {"output_tokens": 7}}, {"op": "usage", "value": {"output_tokens": 0}}),
        (
            {"op": "event_order", "value": ["message_start", "content_block_stop", "message_stop"]},
            {"op": "event_order", "value": ["message_stop", "message_start"]},
        ),
    ],
    "responses": [
        ({"op": "stop", "value": "completed"}, {"op": "stop", "value": "incomplete:max_output_tokens"}),
        (
            {"op": "usage", "value": {"output_tokens_details.reasoning_tokens": 0}},
            {"op": "usage", "value": {"output_tokens_details.reasoning_tokens": 3}},
        ),
        (
            {"op": "joined_deltas", "value": {"event": "response.output_text.delta", "value": "Let me look."}},
            {"op": "joined_deltas", "value": {"event": "response.output_text.delta", "value": "Let"}},
        ),
    ],
}


@pytest.mark.parametrize("protocol", ON_REPLY_OF)
def test_operations_on_a_streamed_reply(protocol: Protocol) -> None:
    raw = sample_stream(protocol)
    seen = Capture(protocol, raw, status=200, streamed=True, other=_request({"x": 1}))
    for right, wrong in ON_REPLY + ON_REPLY_OF[protocol]:
        assert problems([right], seen) == []
        assert _found(wrong, seen), wrong


ERROR_BODIES: list[tuple[Protocol, Json, bool]] = [
    ("chat", {"error": {"message": "no"}}, True),
    ("chat", {"error": "no"}, False),
    ("responses", {"error": {"message": "no"}}, True),
    ("messages", {"type": "error", "error": {"type": "api_error", "message": "no"}}, True),
    ("messages", {"error": {"type": "api_error", "message": "no"}}, False),
    ("messages", {"type": "error", "error": {"message": "no"}}, False),
]


@pytest.mark.parametrize(("protocol", "body", "right"), ERROR_BODIES)
def test_error_bodies(protocol: Protocol, body: Json, right: bool) -> None:
    seen = Capture(protocol, json.dumps(body).encode(), status=400)
    assert _found({"op": "error", "value": {"status": [400], "message_contains": "no"}}, seen) is not right
    assert _found({"op": "rejected"}, seen) is not right
    assert _found({"op": "error", "value": {"status": [401]}}, seen)
    assert _found({"op": "error", "value": {"message_contains": "else"}}, seen)


ERROR_EVENTS: list[tuple[Protocol, Json]] = [
    ("chat", {"error": {"message": "no"}}),
    ("messages", {"type": "error", "error": {"type": "api_error", "message": "no"}}),
    ("responses", {"type": "error", "code": None, "message": "no"}),
    ("responses", {"type": "error", "error": {"message": "no"}}),
    ("responses", {"type": "response.failed", "response": {"status": "failed", "error": {"message": "no"}}}),
]


@pytest.mark.parametrize(("protocol", "event"), ERROR_EVENTS)
def test_error_events(protocol: Protocol, event: Json) -> None:
    told = Capture(protocol, render(protocol, [event]), status=200, streamed=True)
    assert problems([{"op": "error"}, {"op": "stream_error", "value": {"forbid_stop": True}}], told) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broken_stream_tells_its_error_by_breaking(protocol: Protocol) -> None:
    events = sample_events(protocol)
    cut = Capture(protocol, render(protocol, events[:6]), status=200, streamed=True, broken=True)
    assert problems([{"op": "stream_error", "value": {"forbid_stop": True}}], cut) == []
    assert _found({"op": "error"}, cut)
    assert _found({"op": "valid_stream"}, cut)
    stopped = Capture(protocol, render(protocol, events), status=200, streamed=True, broken=True)
    assert _found({"op": "stream_error", "value": {"forbid_stop": True}}, stopped)
    assert _found({"op": "valid_stream"}, stopped)


def test_operations_on_a_messages_request() -> None:
    good = {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"n": 1}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}]},
                    {"type": "text", "text": "go on"},
                ],
            },
        ]
    }
    bad = {"messages": [{"role": "tool", "content": [{"type": "text", "text": " "}]}], "half": "\ud83d"}
    first, second = "messages[0].content[type=tool_use]", "messages[1].content[type=tool_result]"
    for assertion in [
        {"op": "roles_valid", "value": ["user", "assistant"]},
        {"op": "no_empty_text"},
        {"op": "well_formed_unicode"},
        {"op": "pairs", "value": {"one": {"n": 1}}},
        {"op": "before", "value": [first, second]},
    ]:
        assert problems([assertion], _request(good)) == []
        assert _found(assertion, _request(bad)), assertion
    assert _found({"op": "before", "value": [second, first]}, _request(good))
    assert not _found({"op": "well_formed_unicode"}, _request({"whole": "\U0001f600 \\ud83d"}))
    assert _found({"op": "well_formed_unicode"}, Capture("messages", b'{"x": "\xff"}'))


def test_calls_and_their_outputs_in_a_responses_request() -> None:
    call, output = {"type": "function_call", "call_id": "a"}, {"type": "function_call_output", "call_id": "a"}
    assertion = {"op": "upstream_calls_answered"}
    reply = Capture("responses", b"{}", status=200, other=_request({"input": [call, output]}, "responses"))
    assert problems([assertion], reply) == []
    reply.other = _request({"input": [call]}, "responses")
    assert _found(assertion, reply)
    reply.other = None
    assert _found(assertion, reply)
    assert _found({"op": "upstream", "value": []}, reply)


def test_cancelling_has_a_limit() -> None:
    assertion = {"op": "upstream_cancelled", "value": 100}
    assert not _found(assertion, Capture("chat", cancelled_ms=99))
    assert _found(assertion, Capture("chat", cancelled_ms=101))
    assert _found(assertion, Capture("chat"))
