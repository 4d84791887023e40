"""Whatever JSON arrives, from either side: an answer or `Rejected`, never another exception."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.events import Close, Delta, End, Event, Fail, Finish, Open, Start
from proxy.canonical.fold import Fold
from proxy.canonical.jsontext import loads
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.request import Request
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.protocols.chat import (
    StreamReader,
    StreamWriter,
    read_error,
    read_reply,
    read_request,
    write_error,
    write_reply,
    write_request,
)
from tests.harness.grammar import check_stream
from tests.protocols.chat.stray import spoiled

REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {"role": "system", "content": "s", "name": "n"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                {"type": "image_url", "image_url": "https://example.com/a.png"},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}],
            "refusal": "no",
            "reasoning_content": "r",
            "reasoning": "q",
            "reasoning_details": [{"type": "reasoning.text", "text": "r", "signature": "s", "index": 0}],
            "audio": {"id": "audio_1"},
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "i"}},
            ],
            "function_call": {"name": "h", "arguments": {"a": 1}},
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "function", "name": "h", "content": "3"},
        {"role": "system", "content": "later"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
        },
        {
            "type": "custom",
            "custom": {
                "name": "g",
                "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}},
            },
        },
    ],
    "functions": [{"name": "h", "parameters": {}}],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    "function_call": {"name": "h"},
    "parallel_tool_calls": False,
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}},
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "min_p": 0.1,
    "n": 1,
    "seed": 1,
    "logit_bias": {"5": 1},
    "logprobs": True,
    "top_logprobs": 2,
    "stop": ["a"],
    "max_tokens": 5,
    "max_completion_tokens": 6,
    "reasoning_effort": "low",
    "reasoning": {"effort": "low", "max_tokens": 5, "enabled": True, "exclude": False},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "chat_template_kwargs": {"enable_thinking": True},
    "enable_thinking": True,
    "modalities": ["text"],
    "audio": {"format": "wav", "voice": "alloy"},
    "prediction": {"type": "content", "content": "x"},
    "moderation": {"model": "m", "policy": {"input": {"mode": "score"}, "output": None}},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "u",
    "user": "v",
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "store": True,
    "verbosity": "low",
    "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": False},
}
CHUNK: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "service_tier": "default",
    "system_fingerprint": "f",
    "choices": [
        {
            "index": 0,
            "delta": {
                "role": "assistant",
                "reasoning_content": "r",
                "reasoning": "q",
                "reasoning_details": [{"type": "reasoning.text", "text": "r", "index": 0, "signature": "s"}],
                "content": "a",
                "refusal": "n",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
                    }
                ],
                "tool_calls": [
                    {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "g", "input": "i"}},
                ],
                "function_call": {"name": "h", "arguments": "{}"},
                "images": [],
            },
            "logprobs": {"content": [{"token": "a", "logprob": 0.0, "bytes": None, "top_logprobs": []}]},
            "finish_reason": "stop",
            "stop_reason": "x",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        }
    ],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
    "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    "citations": ["https://example.com"],
    "search_results": [{"title": "t", "url": "https://example.com"}],
    "error": None,
}
LIST_CHUNK = deepcopy(CHUNK)
LIST_CHUNK["choices"][0]["delta"] = {
    "content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]},
        {"type": "text", "text": "a"},
        {"type": "reference", "reference_ids": [1]},
    ]
}
DIALECTS = [
    Dialect(),
    Dialect(
        "picky",
        single_system=True,
        string_content=True,
        no_null_content=True,
        no_empty_tool=True,
        tool_content_parts=True,
        tool_images=True,
        custom_tools=True,
        developer_role=True,
        reasoning_required=True,
        strip_leading_ws=True,
        think_tags=True,
        split_names=True,
        finish_required=True,
        fields=frozenset(REQUEST) | {"allowed_tools", "continue_final_message"},
    ),
]
CONTEXT = ReplyContext("req_1", "m", now=1, include_usage=True)


def _read(wire: Any) -> Request | Error:
    try:
        return read_request(wire, LossReport("Chat Completions"), exact=True)
    except Rejected as rejected:
        return rejected.error


def _write(request: Request, dialect: Dialect) -> object:
    try:
        return write_request(request, Target("chat", "m", dialect), LossReport("Chat Completions"))
    except Rejected as rejected:
        return rejected.error


def _ask(wire: Any, dialect: Dialect) -> None:
    request = _read(wire)
    if isinstance(request, Error):
        assert request.kind in (ErrorClass.INVALID, ErrorClass.UNSUPPORTED)
        assert request.param
        return
    written = _write(request, dialect)
    assert not isinstance(written, Error) or written.kind is ErrorClass.UNSUPPORTED


def _check_order(events: list[Event]) -> None:
    """What every writer relies on: see `proxy.canonical.events`."""
    opened: list[int] = []
    closed: set[int] = set()
    for event in events:
        if isinstance(event, Open):
            assert event.k == len(opened)
            opened.append(event.k)
        elif isinstance(event, Delta | Close):
            assert event.k in opened
            assert event.k not in closed
            if isinstance(event, Close):
                closed.add(event.k)
    assert isinstance(events[-1], End)
    last = events[-2]
    assert isinstance(last, Finish | Fail)
    assert sum(isinstance(event, Finish | Fail) for event in events) == 1
    if isinstance(last, Finish):
        assert isinstance(events[0], Start)
        assert closed == set(opened)


def _stream(chunks: list[Any], dialect: Dialect, *, done: bool) -> list[Event]:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), dialect, LossReport())
    reader.exact = True
    for chunk in chunks:
        reader.feed(chunk)
    if done:
        reader.done()
    reader.end()
    _check_order(events)
    end: Any = "error" if isinstance(events[-2], Fail) else "clean"
    assert check_stream("chat", StreamWriter(CONTEXT).write(events), expect_end=end) == []
    return events


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_request_that_is_spoiled_here_is_a_good_one(dialect: Dialect) -> None:
    request = _read(REQUEST)
    assert isinstance(request, Request)
    assert isinstance(_write(request, dialect), dict)


@pytest.mark.parametrize("name", sorted(REQUEST))
def test_a_stray_value_anywhere_in_a_request_is_read_or_rejected(name: str) -> None:
    for wire in spoiled({name: REQUEST[name]}):
        _ask({"model": "m", "messages": [{"role": "user", "content": "hi"}], **wire}, DIALECTS[0])
        _ask({**REQUEST, **wire}, DIALECTS[1])


@pytest.mark.parametrize("chunk", [CHUNK, LIST_CHUNK])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_stray_value_anywhere_in_a_chunk_breaks_no_rule_of_streams(chunk: Any, dialect: Dialect) -> None:
    for spoilt in spoiled(chunk):
        _stream([spoilt, chunk], dialect, done=dialect.finish_required)


def test_a_stray_value_anywhere_in_a_reply_is_read_or_rejected() -> None:
    whole = deepcopy(CHUNK)
    whole["choices"][0]["message"] = whole["choices"][0].pop("delta")
    for spoilt in spoiled(whole):
        try:
            reply = read_reply(spoilt, Spelling(), Dialect(), LossReport(), exact=True)
        except Rejected:
            continue
        assert loads(write_reply(reply, CONTEXT))


ANY_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(wire=ANY_JSON, status=st.none() | st.integers(100, 599), text=st.text(max_size=40))
def test_any_error_body_is_read_and_can_be_told(wire: Any, status: int | None, text: str) -> None:
    for body in (wire, {"error": wire}, [{"error": wire}], {"detail": wire}, {"message": "m", "code": wire}):
        told, answer = write_error(read_error(status, body, text), "req_1")
        assert 400 <= told <= 599
        error = answer["error"]
        assert isinstance(error, dict)
        assert isinstance(error["message"], str)
        assert error["message"]


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(st.text(alphabet="<>/think \n", max_size=6), max_size=12), cuts=st.data())
def test_text_is_never_lost_between_tags(pieces: list[str], cuts: Any) -> None:
    """Cut anywhere, the same text gives the same parts."""
    text = "".join(pieces)
    dialect = Dialect(think_tags=True)

    def parts(deltas: list[str]) -> Any:
        chunks = [{"id": "1", "choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas]
        fold = Fold()
        for event in _stream([*chunks, {"id": "1", "choices": [{"finish_reason": "stop"}]}], dialect, done=True):
            fold.emit(event)
        return fold.reply().parts

    assert parts(pieces) == parts([text])
