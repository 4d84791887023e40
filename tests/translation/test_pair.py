"""One exchange without a socket: what passes through, what is refused, what is answered at once."""

import json
import re

import pytest

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol, ClientProtocol
from proxy.translation.envelope import Scope
from proxy.translation.prepared import Prepared
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Protocol, read_events
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes

DEEP = 900
STREAMED: dict[ClientProtocol, bytes] = {
    "chat": b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    "messages": b'{"model":"m","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}',
    "responses": b'{"model":"m","stream":true,"input":"hi"}',
}


def prepared(client: ClientProtocol, backend: BackendProtocol, raw: bytes, **options: object) -> Prepared:
    target = Target(backend, "there", Dialect())
    return pair.prepare(pair.peek(client, raw), target, pair.Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "must be a JSON object"),
        (b"{}", "model: this field is required"),
        (b'{"model":""}', "model: must not be empty"),
        (b'{"model":"' + b"m" * 2049 + b'"}', "model: must be at most 2048 characters long"),
        (b'{"model":3}', "model: expected a string, got a number"),
        (b'{"model":"m","stream":"yes"}', "stream: expected a boolean, got a string"),
        (b'{"model":"m","x":NaN}', "not valid JSON"),
        (b'{"model":"\xff"}', "not valid JSON"),
    ],
)
def test_a_body_that_cannot_be_routed_is_named(raw: bytes, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        pair.peek("chat", raw)
    assert caught.value.error.kind is ErrorClass.INVALID
    assert message in caught.value.error.message


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b'{ "model" : "here", "x": 12345678901234567890123 }', b'{ "model" : "there", "x": 12345678901234567890123 }'),
        (
            b'{"messages":[{"model":"here"}],"model":"here","n":12345678901234567890123}',
            b'{"messages":[{"model":"here"}],"model":"there","n":12345678901234567890123}',
        ),
        (b'{"model":"there", "y":[]}', b'{"model":"there", "y":[]}'),
        # Some encoders escape more than they must, and another object may have the same name.
        (b'{"model":"h\\u0065re", "tools":[{"model":"here"}]}', b'{"model":"there", "tools":[{"model":"here"}]}'),
        (b'{"tools":[{"model":"here"}], "mod\\u0065l":"here"}', b'{"tools":[{"model":"here"}], "mod\\u0065l":"there"}'),
        # Servers differ in which of two they read.
        (b'{"model":"here", "model" : "here", "x":1.0}', b'{"model":"there", "model" : "there", "x":1.0}'),
        # Words about an envelope are none.
        (b'{ "model":"here","x":["drg0.a.b"]}', b'{ "model":"there","x":["drg0.a.b"]}'),
    ],
)
def test_within_one_protocol_only_the_models_name_changes(raw: bytes, sent: bytes) -> None:
    assert prepared("chat", "chat", raw).body == sent


@pytest.mark.parametrize("token", [b"drg0.a.b.c", b"\\u0064rg0.a.b.c", b"drg\\u0031.a.b"])
def test_an_envelope_passes_to_no_backend_however_it_is_spelled(token: bytes) -> None:
    raw = b'{"model":"here","input":[{"type":"reasoning","encrypted_content":"' + token + b'"},"hi"]}'
    passing = prepared("responses", "responses", raw)
    assert json.loads(passing.body) == {"model": "there", "input": ["hi"]}
    assert [loss.path for loss in passing.losses] == ["input[0]"]


def test_a_reply_within_one_protocol_shows_the_name_that_was_asked_for_when_told_to() -> None:
    passing = prepared("chat", "chat", b'{"model":"here"}', response_model="alias")
    reply = b'{"id":"1","model":"there","choices":[]}'
    assert passing.reply(reply) == b'{"id":"1","model":"here","choices":[]}'
    stream = passing.translation()
    assert stream.feed(b'data: {"model":"there","choices":[]}\n\n') == b'data: {"model":"here","choices":[]}\n\n'
    long = b'{"model":"there","n":123456789012345678901}'
    assert passing.reply(long) == long.replace(b"there", b"here")
    assert stream.feed(b"data: %b\n\n" % long) == b"data: %b\n\n" % long.replace(b"there", b"here")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty body"),
        (b"<html>no</html>", "non-JSON"),
        (b'"text"', "not a JSON object"),
        (b'{"error":{"message":"no such thing","type":"server_error"}}', "no such thing"),
    ],
)
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_an_answer_that_is_none(client: ClientProtocol, raw: bytes, message: str) -> None:
    body = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}'
    with pytest.raises(Rejected, match=message):
        prepared(client, "chat", body).reply(raw)


def test_a_body_nested_too_deeply_is_refused() -> None:
    schema = b'{"items":' * DEEP + b"{}" + b"}" * DEEP
    body = (
        b'{"model":"m","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema",'
        b'"json_schema":{"name":"a","schema":%b}}}' % schema
    )
    with pytest.raises(Rejected, match="nested too deeply"):
        prepared("chat", "messages", body)


@pytest.mark.parametrize("more", [b'"x":{"model":"here"}', b'"x":[{"data":"drg0.a.b.c"}]'])
def test_a_body_that_passes_through_may_be_nested_too_deeply_to_be_changed(more: bytes) -> None:
    raw = b'{"y":' + b"[" * 1020 + b"]" * 1020 + b',"model":"here",' + more + b"}"
    with pytest.raises(Rejected, match="nested too deeply"):
        prepared("chat", "chat", raw)


def test_warming_a_cache_is_answered_where_the_backend_has_no_such_thing() -> None:
    warm = prepared("messages", "chat", b'{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"hi"}]}')
    assert warm.prewarm
    reply = json.loads(warm.immediate())
    assert (reply["content"], reply["stop_reason"]) == ([], "max_tokens")
    assert "prewarm" in {loss.rule for loss in warm.losses}


def test_strict_refuses_a_drop_and_names_the_field() -> None:
    body = b'{"model":"m","seed":1,"messages":[{"role":"user","content":"hi"}]}'
    assert [loss.rule for loss in prepared("chat", "messages", body).losses] == ["seed"]
    with pytest.raises(Rejected) as caught:
        prepared("chat", "messages", body, strict=True)
    assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.UNSUPPORTED, "seed")


def test_a_long_answer_is_asked_for_as_a_stream() -> None:
    """Anthropic's SDK would not wait for it whole; the client still gets it whole."""
    body = b'{"model":"m","max_tokens":30000,"messages":[{"role":"user","content":"hi"}]}'
    asked = prepared("chat", "messages", body)
    assert (asked.stream, asked.upstream_stream, json.loads(asked.body)["stream"]) == (False, True, True)


@pytest.mark.parametrize(
    ("client", "end", "finished"),
    [
        ("chat", b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n', True),
        ("chat", b"data: [DONE]\n\n", True),
        ("chat", b"", False),
        ("messages", b'event: message_stop\ndata: {"type":"message_stop"}\n\n', True),
        ("messages", b'event: ping\ndata: {"type":"ping"}\n\n', False),
        ("responses", b'data: {"type":"response.incomplete","response":{}}\n\n', True),
        ("responses", b'data: {"type":"response.in_progress","response":{}}\n\n', False),
    ],
)
def test_a_stream_that_passes_through_stays_visibly_cut(client: BackendProtocol, end: bytes, finished: bool) -> None:
    first = {
        "chat": b'data: {"id":"c","choices":[{"delta":{"role":"assistant"}}]}\n\n',
        "messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n',
        "responses": b'data: {"type":"response.created","response":{"id":"r"}}\n\n',
    }[client]
    stream = prepared(client, client, b'{"model":"m","stream":true}').translation()
    assert stream.feed(first) == first
    assert stream.feed(end) == end
    assert (b"error" in stream.end(), stream.failed is None) == (not finished, finished)


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_half_a_call_without_a_finish_reason_is_finished_for_nobody(client: BackendProtocol) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "run", "arguments": '{"command":"rm'}}
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    stream = prepared(client, "chat", STREAMED[client]).translation()
    out = stream.feed(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()) + stream.end()
    assert check_stream(client, out, expect_end="error") == []


def test_the_end_of_a_cut_responses_stream_counts_on() -> None:
    stream = prepared("responses", "responses", b'{"model":"m","stream":true}').translation()
    stream.feed(b'data: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n')
    stream.feed(b'data: {"type":"response.output_text.delta","sequence_number" : 7,"delta":"hi"}\n\n')
    assert re.findall(rb'"sequence_number":(\d+)', stream.end()) == [b"8", b"9"]


def test_a_first_event_that_is_an_error_shows_before_anything_is_committed() -> None:
    stream = prepared("messages", "messages", b'{"model":"m","stream":true}').translation()
    stream.feed(b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n')
    assert not stream.started
    assert stream.failed is not None
    assert stream.failed.kind is ErrorClass.OVERLOADED


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_a_prompt_is_estimated_alike_for_a_whole_reply_and_for_a_stream(backend: BackendProtocol) -> None:
    tool = {"name": "f", "description": "What it does.", "input_schema": {"type": "object", "properties": {}}}
    turns = [
        {"role": "user", "content": "Does a café open early?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"at": "early"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "It does."}]},
    ]
    body = {"model": "m", "max_tokens": 50, "system": "Be brief.", "messages": turns, "tools": [tool]}
    counts = [
        prepared("messages", backend, json.dumps({**body, "stream": stream}).encode()).context.estimate_prompt()
        for stream in (False, True)
    ]
    assert counts == [64, 64]


@pytest.mark.parametrize("phase", [None, "final_answer"])
def test_two_messages_of_one_response_are_paragraphs_for_chat(phase: str | None) -> None:
    items = [
        {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "phase": phase}
        | {"content": [{"type": "output_text", "text": text, "annotations": []} for text in texts]}
        for number, texts in enumerate([["Look", "ing."], ["Found."]])
    ]
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": items}
    whole = json.loads(prepared("chat", "responses", STREAMED["chat"]).reply(json.dumps(response).encode()))
    assert whole["choices"][0]["message"]["content"] == "Looking.\n\nFound."
    begun = {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    events = [begun, *done, {"type": "response.completed", "response": response}]
    stream = prepared("chat", "responses", STREAMED["chat"]).translation()
    out = stream.feed("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()).decode()
    streamed = assemble("chat", read_events(out).events)
    assert streamed["choices"][0]["message"]["content"] == "Looking.\n\nFound."


@pytest.mark.parametrize(("client", "sign"), [("messages", b'{"type":"ping"}'), ("chat", b": ping")])
@pytest.mark.parametrize("reads", [1, 100])
def test_signs_of_life_in_a_row_are_one(client: ClientProtocol, sign: bytes, reads: int) -> None:
    """mapping.md 13.10, without a clock; the heartbeat, which has one, is written whatever came before."""
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    busy = [{"type": f"response.web_search_call.{stage}"} for stage in ("in_progress", "searching", "completed")] * 9
    item = {"id": "m", "type": "message", "role": "assistant", "content": []}
    events = [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        *busy,
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **place, "delta": "Hi"},
        *busy,
    ]
    stream = prepared(client, "responses", STREAMED[client]).translation()
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    size = -(-len(raw) // reads)
    out = b"".join(stream.feed(raw[start : start + size]) for start in range(0, len(raw), size))
    assert out.count(sign) == (3 if client == "messages" else 2)  # the vendor itself begins with one
    assert [stream.ping().count(sign) for _ in range(2)] == [1, 1]


def test_a_hosted_tool_is_not_seen_to_work_in_a_reply_that_came_whole() -> None:
    """mapping.md 14.2: its item is announced and done."""
    tools: list[dict[str, object]] = [{"type": "web_search"}]
    raw = json.dumps({"model": "m", "stream": True, "input": "hi", "tools": tools}).encode()
    options = pair.Options(scope=Scope("0123456789ab"))
    target = Target("messages", "m", Dialect("anthropic", "anthropic", hosted_tools=frozenset({"web_search"})))
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    content = [call, result, {"type": "text", "text": "Found."}]
    reply = {"id": "msg_1", "type": "message", "model": "m", "stop_reason": "end_turn", "content": content}
    out = pair.prepare(pair.peek("responses", raw), target, options).take_streamed(json.dumps(reply).encode())
    assert out is not None
    events = [event.data for event in read_events(out.decode()).events]
    searched = [event["type"] for event in events if "web_search_call" in json.dumps(event)]
    assert searched == ["response.output_item.added", "response.output_item.done", "response.completed"]


@pytest.mark.parametrize("behind", [b"data: {no JSON\n\n", b"data: []\n\n", b'data: {"type":"error","error":{}}\n\n'])
@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_comes_behind_the_end_is_not_told(client: Protocol, behind: bytes, at_once: bool) -> None:
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    del asked["input" if client == "chat" else "messages"]
    seen = pair.peek(client, json.dumps(asked).encode())
    translation = pair.prepare(seen, Target("messages", "m"), pair.Options()).translation()
    events = [*event_bytes("messages", Script((Part("text", ("Hello",)),), "end")), behind]
    out = b"".join(map(translation.feed, [b"".join(events)] if at_once else events)) + translation.end()
    assert (check_stream(client, out), translation.failed) == ([], None)
