"""Whatever JSON arrives, from either side: an answer or `Rejected`, never another exception."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Rejected
from proxy.canonical.events import Close, Delta, End, Event, Fail, Finish, Open, Start
from proxy.canonical.jsontext import dumps, loads
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.protocols.messages import (
    StreamReader,
    StreamWriter,
    read_error,
    read_reply,
    read_request,
    write_error,
    write_reply,
    write_request,
)
from proxy.translation.one_at_a_time import OneAtATime
from tests.protocols.messages.grammar import check_stream, wire_events

CONTEXT = ReplyContext("req_1", "m")
STRAY: Any = st.sampled_from(
    [None, True, 0, -1, 1.5, 2.0**70, "", " ", "text", "\ud800", [], [None], [[]], {}, {"type": "text"}, {"type": []}]
) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

REQUEST = {
    "model": "m",
    "max_tokens": 4000,
    "system": [{"type": "text", "text": "s", "citations": [], "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "tools": [
        {
            "name": "f",
            "description": "d",
            "input_schema": {"type": "object"},
            "strict": True,
            "input_examples": [{"a": 1}],
            "allowed_callers": ["direct"],
            "defer_loading": True,
        },
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "summarized"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
    "temperature": 0.5,
    "top_k": 3,
    "stop_sequences": ["a"],
    "metadata": {"user_id": "u"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "url": "u"}]},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "r"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ],
                },
                {"type": "image", "source": {"type": "url", "url": "https://a"}, "transformations": {}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                    "title": "t",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            ],
        },
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "s"},
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}},
            ],
            "clear_at": "never",
            "output_config": {"effort": "low"},
        },
    ],
}

REPLY = {
    "id": "msg_1",
    "type": "message",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "h", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "a", "citations": [{"type": "char_location", "document_title": None}]},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    ],
    "stop_reason": "refusal",
    "stop_sequence": None,
    "stop_details": {"type": "refusal", "category": None, "explanation": "x"},
    "usage": {
        "input_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 1},
        "output_tokens": 2,
        "output_tokens_details": {"thinking_tokens": 1},
        "server_tool_use": {"web_search_requests": 1},
    },
}

STREAM = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": "u"}},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    },
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 3},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]

ERROR = {
    "type": "error",
    "error": {"type": "rate_limit_error", "message": "m", "details": {"error_code": "x"}, "code": 1},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    found = [path]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


def with_stray(value: Any, path: tuple[Any, ...], stray: Any) -> Any:
    """A copy with another value at `path`."""
    if not path:
        return stray
    changed = deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = stray
    return changed


def spoilt(value: Any) -> Any:
    """The value with up to two strays in it."""
    one = st.builds(lambda path, stray: with_stray(value, path, stray), st.sampled_from(places(value)), STRAY)
    return one | one.flatmap(
        lambda once: st.builds(lambda path, stray: with_stray(once, path, stray), st.sampled_from(places(once)), STRAY)
    )


def attempt(act: Callable[[], Any]) -> Any:
    """What came of it, or the error that the client is told."""
    try:
        return act()
    except Rejected as rejected:
        return rejected.error


def request_of(wire: Any) -> Any:
    try:
        return read_request(wire, LossReport())
    except InexactNumber:
        return read_request(wire, LossReport(), exact=True)


@settings(max_examples=400, deadline=None)
@given(spoilt(REQUEST))
def test_a_request(wire: Any) -> None:
    request = attempt(lambda: request_of(wire))
    if isinstance(request, Error):
        assert request.kind in (ErrorClass.INVALID, ErrorClass.UNSUPPORTED)
        assert request.param
        return
    body = attempt(lambda: write_request(request, Target("messages", "m"), LossReport()))
    if not isinstance(body, Error):
        loads(dumps(body))


@settings(max_examples=300, deadline=None)
@given(spoilt(REPLY))
def test_a_reply(wire: Any) -> None:
    reply = attempt(lambda: read_reply(wire, Spelling(), Dialect(), LossReport(), exact=True))
    if not isinstance(reply, Error):
        loads(write_reply(reply, CONTEXT))


@settings(max_examples=400, deadline=None)
@given(spoilt(STREAM))
def test_a_stream(wires: Any) -> None:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    reader.exact = True
    for wire in wires if isinstance(wires, list) else [wires]:
        reader.feed(wire, "")
    reader.end()
    check_events(events)
    stage = OneAtATime(LossReport())
    stream = StreamWriter(CONTEXT).write(stage.pass_on(events))
    if any(isinstance(event, Start) for event in events):
        check_stream(stream)
    else:
        assert [event["type"] for event in wire_events(stream) if event["type"] != "ping"] == ["error"]


def check_events(events: list[Event]) -> None:
    """What readers guarantee (proxy.canonical.events)."""
    opened = 0
    still_open: set[int] = set()
    for event in events:
        match event:
            case Open():
                assert event.k == opened
                opened += 1
                still_open.add(event.k)
            case Delta():
                assert event.k in still_open
            case Close():
                still_open.remove(event.k)
            case Finish():
                assert not still_open
            case _:
                pass
    assert [type(event) for event in events if isinstance(event, Finish | Fail | End)] in ([Finish, End], [Fail, End])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([200, 400, 404, 429, 500]), spoilt(ERROR) | STRAY, st.text(max_size=20))
def test_an_error(status: int, wire: Any, text: str) -> None:
    _, body = write_error(read_error(status, wire, text), "req_1")
    dumps(body)
