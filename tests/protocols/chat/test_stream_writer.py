"""What a Chat client reads of a stream, byte for byte and through the vendor's SDK."""

import json
from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Ping, Start, UsageUpdate
from proxy.canonical.fold import unfold
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop, StopKind
from proxy.canonical.usage import Usage
from proxy.protocols.chat import StreamWriter, write_reply
from tests.harness.grammar import check_stream
from tests.harness.sdk import read_stream

Wire = dict[str, Any]
CONTEXT = ReplyContext("req_1", "asked", now=7)
LEGACY = ReplyContext("req_1", "asked", now=7, legacy_functions=True)
START = Start("msg_1", "m", 5)
END = (Finish(Stop("end")), End())


def raw(*events: Event, context: ReplyContext = CONTEXT) -> bytes:
    return StreamWriter(context).write(events)


def chunks(*events: Event, context: ReplyContext = CONTEXT) -> list[Wire]:
    """The chunks of a legal stream."""
    written = raw(*events, context=context)
    assert check_stream("chat", written) == []
    lines = written.decode().split("\n\n")[:-2]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def deltas(*events: Event, context: ReplyContext = CONTEXT) -> list[Wire]:
    """The deltas between the role chunk and the finish chunk."""
    called = any(isinstance(event, Open) and isinstance(event.part, Call) for event in events)
    found = chunks(START, *events, Finish(Stop("tool" if called else "end")), End(), context=context)
    return [chunk["choices"][0]["delta"] for chunk in found[1:-1]]


def test_a_text_byte_for_byte() -> None:
    head = b'data: {"id":"chatcmpl-msg_1","object":"chat.completion.chunk","created":5,"model":"m",'
    head += b'"choices":[{"index":0,"delta":'
    tail = b',"logprobs":null,"finish_reason":null}]}\n\n'
    assert raw(START, Open(0, Text("")), Delta(0, 'H"é'), Delta(0, ""), Close(0), *END) == b"".join(
        [
            head,
            b'{"role":"assistant","content":"","refusal":null}',
            tail,
            head,
            '{"content":"H\\"é"}'.encode(),
            tail,
            head,
            b'{},"logprobs":null,"finish_reason":"stop"}]}\n\n',
            b"data: [DONE]\n\n",
        ]
    )


def test_usage_comes_last_and_only_when_asked_for() -> None:
    usage = UsageUpdate(Usage(input_fresh=5, cache_read=3, cache_write=2, output=4, reasoning=1))
    events = (START, Open(0, Text("")), Delta(0, "Hi"), Close(0), usage, *END)
    assert not [chunk for chunk in chunks(*events) if "usage" in chunk]
    asked = chunks(*events, context=ReplyContext("req_1", "asked", include_usage=True))
    assert [chunk["usage"] for chunk in asked[:-1]] == [None, None, None]
    assert (asked[-1]["choices"], asked[-1]["usage"]) == (
        [],
        {
            "prompt_tokens": 10,
            "completion_tokens": 4,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 1,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
    )


@pytest.mark.parametrize(
    ("start", "context", "common"),
    [
        (Start("", "m"), CONTEXT, {"id": "chatcmpl-req_1", "created": 7, "model": "m"}),
        (Start("chatcmpl-9", "", 5), CONTEXT, {"id": "chatcmpl-9", "created": 5, "model": "asked"}),
        (
            Start("x", "m", 5, None, "standard", "fp"),
            ReplyContext("r", "asked", model_override="asked"),
            {
                "id": "chatcmpl-x",
                "created": 5,
                "model": "asked",
                "service_tier": "default",
                "system_fingerprint": "fp",
            },
        ),
    ],
)
def test_how_a_reply_names_itself(start: Start, context: ReplyContext, common: Wire) -> None:
    written = chunks(start, Finish(Stop("end")), End(), context=context)
    for chunk in written:
        assert {key: value for key, value in chunk.items() if key not in ("object", "choices")} == common


def test_the_tier_may_be_known_only_at_the_end() -> None:
    written = chunks(START, Finish(Stop("end"), "priority"), End())
    assert [chunk.get("service_tier") for chunk in written] == [None, "priority"]


def test_calls_are_opened_and_grow() -> None:
    assert deltas(
        Open(0, Call("a", "f")),
        Open(1, Call("b", "g", '{"x"')),
        Delta(0, "{}"),
        Delta(1, ":1}"),
        Close(0),
        Close(1),
        Open(2, Call("c", "h")),
        Close(2),
        Open(3, Call("d", "sql", kind="custom")),
        Delta(3, "SELECT"),
        Close(3),
        Open(4, Call("e", "empty", kind="custom")),
        Close(4),
    ) == [
        {
            "tool_calls": [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
            ]
        },
        {
            "tool_calls": [
                {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": ":1}"}}]},
        {
            "tool_calls": [
                {"index": 2, "id": "c", "type": "function", "function": {"name": "h", "arguments": ""}},
            ]
        },
        {"tool_calls": [{"index": 2, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 3, "id": "d", "type": "custom", "custom": {"name": "sql", "input": ""}}]},
        {"tool_calls": [{"index": 3, "custom": {"input": "SELECT"}}]},
        {"tool_calls": [{"index": 4, "id": "e", "type": "custom", "custom": {"name": "empty", "input": ""}}]},
    ]


def test_clients_of_the_deprecated_functions_get_the_first_call_in_their_form() -> None:
    events = (
        Open(0, Call("a", "f")),
        Delta(0, "{"),
        Open(1, Call("b", "g")),
        Delta(1, "{}"),
        Delta(0, "}"),
        Close(0),
        Close(1),
    )
    assert deltas(*events, context=LEGACY) == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{"}},
        {"function_call": {"arguments": "}"}},
    ]
    last = chunks(START, *events, Finish(Stop("tool")), End(), context=LEGACY)[-1]
    assert last["choices"][0]["finish_reason"] == "function_call"


def test_texts_and_thoughts_are_set_apart_by_what_stands_between_them() -> None:
    assert deltas(
        Open(0, Reasoning("")),
        Delta(0, "Hm"),
        Close(0),
        Open(1, Text("")),
        Delta(1, "A"),
        Close(1),
        Open(2, Text("")),
        Delta(2, "B"),
        Close(2),
        Open(3, Reasoning("")),
        Delta(3, "Ah"),
        Close(3),
        Open(4, Text("")),
        Close(4),
        Open(5, HostedCall("web_search", {})),
        Close(5),
        Open(6, Text("C")),
        Close(6),
    ) == [
        {"reasoning_content": "Hm"},
        {"content": "A"},
        {"content": "B"},
        {"reasoning_content": "\n\n"},
        {"reasoning_content": "Ah"},
        {"content": "\n\n"},
        {"content": "C"},
    ]


def test_what_is_said_before_the_work_and_after_it_is_set_apart() -> None:
    texts = (Text("", phase="commentary"), Text("", phase="final_answer"))
    events = [event for k, text in enumerate(texts) for event in (Open(k, text), Delta(k, "x"), Close(k))]
    assert [delta["content"] for delta in deltas(*events)] == ["x", "\n\n", "x"]


def test_reasoning_is_left_out_for_a_client_that_does_not_want_it() -> None:
    quiet = ReplyContext("req_1", "asked", show_reasoning=False)
    assert deltas(Open(0, Reasoning("")), Delta(0, "Hm"), Close(0), context=quiet) == []


def test_a_refusal_and_an_explanation() -> None:
    assert deltas(Open(0, Refusal("")), Delta(0, "No."), Close(0)) == [{"refusal": "No."}]
    stop = Stop("refusal", classifier=True, explanation="Because.")
    written = chunks(START, Open(0, Text("")), Delta(0, "So"), Close(0), Finish(stop), End())
    assert [chunk["choices"][0]["delta"] for chunk in written[1:]] == [{"content": "So"}, {"refusal": "Because."}, {}]
    assert written[-1]["choices"][0]["finish_reason"] == "content_filter"


def test_citations_come_once_and_count_from_the_start_of_the_content() -> None:
    first = Citation("url", "https://a", "A", start=1, end=2)
    assert deltas(
        Open(0, Text("")),
        Delta(0, "abc"),
        Cite(0, first),
        Close(0),
        Open(1, Opaque("compaction", {})),
        Close(1),
        Open(2, Text("")),
        Delta(2, "def"),
        Cite(2, Citation("url", "https://b")),
        Cite(2, Citation("document", title="D")),
        Cite(0, Citation("url", "https://c", "C", start=0, end=3)),
        Close(2),
    )[-1] == {
        "annotations": [
            {
                "index": 0,
                "type": "url_citation",
                "url_citation": {"start_index": 1, "end_index": 2, "title": "A", "url": "https://a"},
            },
            {
                "index": 1,
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 3, "title": "C", "url": "https://c"},
            },
            {
                "index": 2,
                "type": "url_citation",
                "url_citation": {"start_index": 5, "end_index": 8, "title": "https://b", "url": "https://b"},
            },
        ]
    }


def test_log_probabilities_stay_with_their_text() -> None:
    entry = {"token": "Hi", "logprob": 0.0, "bytes": None, "top_logprobs": []}
    choice = chunks(START, Open(0, Text("")), Delta(0, "Hi", [entry]), Close(0), *END)[1]["choices"][0]
    assert choice == {
        "index": 0,
        "delta": {"content": "Hi"},
        "logprobs": {"content": [entry], "refusal": None},
        "finish_reason": None,
    }


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("end", "stop"),
        ("length", "length"),
        ("tool", "tool_calls"),
        ("stop_sequence", "stop"),
        ("filter", "content_filter"),
        ("refusal", "stop"),
        ("pause", "length"),
        ("context", "length"),
        ("compaction", "length"),
        ("max_messages", "length"),
        ("steered", "stop"),
    ],
)
def test_finish_reasons(kind: StopKind, reason: str) -> None:
    call = (Open(0, Call("a", "f")), Close(0)) if kind == "tool" else ()
    assert chunks(START, *call, Finish(Stop(kind)), End())[-1]["choices"][0]["finish_reason"] == reason


def test_a_ping_is_a_comment() -> None:
    assert raw(Ping()) == b": ping\n\n"


def test_a_failure_is_an_error_and_nothing_after_it() -> None:
    error = Error(ErrorClass.OVERLOADED, "Later, please.")
    told = b'data: {"error":{"message":"Later, please.","type":"service_unavailable_error","param":null,'
    told += b'"code":"server_is_overloaded"}}\n\n'
    assert raw(Fail(error), End()) == told
    broken = raw(START, Open(0, Text("")), Delta(0, "Hi"), Fail(error), End())
    assert broken.endswith(told)
    assert check_stream("chat", broken, expect_end="error") == []


REPLIES: list[list[ReplyPart]] = [
    [],
    [Text("Hi")],
    [Text("One"), Text(" more"), Reasoning("Hm"), Reasoning("Ah"), Text("Two", phase="final_answer")],
    [Reasoning("Hm"), Text("I'll look."), Call("a", "f", '{"x":1}'), Call("b", "g"), Text("Done.")],
    [Refusal("No.")],
    [
        Text("abc", [Citation("url", "https://a", "A", start=1, end=2)]),
        HostedCall("web_search", {}),
        Text("def", [Citation("url", "https://b", "B")]),
    ],
]


@pytest.mark.parametrize("context", [CONTEXT, LEGACY, ReplyContext("r", "m", include_usage=True)])
@pytest.mark.parametrize("parts", REPLIES)
def test_a_stream_put_together_by_the_sdk_is_the_whole_answer(parts: list[ReplyPart], context: ReplyContext) -> None:
    stop = Stop("tool" if any(isinstance(part, Call) for part in parts) else "end")
    reply = Reply("msg_1", "m", parts, stop, Usage(input_fresh=5, output=4), created=5)
    streamed: Any = read_stream("chat", StreamWriter(context).write(unfold(reply)))
    whole = json.loads(write_reply(reply, context))
    assert _comparable(streamed["choices"][0]["message"]) == _comparable(whole["choices"][0]["message"])
    assert streamed["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert streamed.get("usage") == (whole["usage"] if context.include_usage else None)


def _comparable(message: Wire) -> Wire:
    """A message without what the helper adds, and what it can't tell from absence."""
    for entry in [*(message.get("annotations") or []), *(message.get("tool_calls") or [])]:
        entry.pop("index", None)
        entry.get("function", {}).pop("parsed_arguments", None)
    kept = {name: value for name, value in message.items() if value and name != "parsed"}
    if isinstance(kept.get("function_call"), dict):
        kept["function_call"].pop("parsed_arguments", None)
    return kept
