"""Wire events of a Messages backend, as canonical events."""

import pytest

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.events import (
    Cite,
    Close,
    Delta,
    End,
    Event,
    Fail,
    Finish,
    Open,
    Ping,
    Start,
    UsageUpdate,
)
from proxy.canonical.fold import Fold, broken_stream
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Text
from proxy.canonical.spelling import Spelling, ToolName
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.messages import StreamReader, read_reply

Wire = dict[str, object]


def start(**usage: object) -> Wire:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": usage or None}}


def block(index: object, **fields: object) -> Wire:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: object, kind: str, **fields: object) -> Wire:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: object) -> Wire:
    return {"type": "content_block_stop", "index": index}


def message_delta(reason: str | None, **usage: object) -> Wire:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


MESSAGE_STOP: Wire = {"type": "message_stop"}
STARTED = Start("msg_1", "m")
ENDED = [UsageUpdate(Usage(output=3)), Finish(Stop("end", native="end_turn")), End()]
GOOD_END = [message_delta("end_turn", output_tokens=3), MESSAGE_STOP]


def read(*wires: object, spelling: Spelling | None = None) -> list[Event]:
    events: list[Event] = []
    reader = StreamReader(events.append, spelling or Spelling(), Dialect(), LossReport())
    for wire in wires:
        reader.feed(wire, "")
    reader.end()
    return events


def test_text() -> None:
    assert read(
        start(input_tokens=25, cache_read_input_tokens=5, output_tokens=1),
        block(0, type="text", text="A"),
        {"type": "ping"},
        delta(0, "text_delta", text="B"),
        delta(0, "text_delta", text=""),
        stop(0),
        message_delta("end_turn", output_tokens=3),
        MESSAGE_STOP,
    ) == [
        Start("msg_1", "m", usage=Usage(25, 5, output=1)),
        Open(0, Text("")),
        Delta(0, "A"),
        Ping(),
        Delta(0, "B"),
        Close(0),
        UsageUpdate(Usage(25, 5, output=3)),
        Finish(Stop("end", native="end_turn")),
        End(),
    ]


def test_calls() -> None:
    spelling = Spelling({"g": ToolName("long", "ns")})
    assert read(
        start(),
        block(0, type="tool_use", id="t0", name="f", input={}, caller={"type": "direct"}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"a"'),
        delta(0, "input_json_delta", partial_json=":1}"),
        stop(0),
        block(1, type="tool_use", id="t1", name="g", input={"b": 2}),
        stop(1),
        block(2, type="tool_use", id="t1", name="f", input={}),
        stop(2),
        message_delta("end_turn", output_tokens=3),
        MESSAGE_STOP,
        spelling=spelling,
    ) == [
        STARTED,
        Open(0, Call("t0", "f", extra={"caller": {"type": "direct"}})),
        Delta(0, '{"a"'),
        Delta(0, ":1}"),
        Close(0),
        Open(1, Call("t1", "long", namespace="ns")),
        Delta(1, '{"b":2}'),
        Close(1),
        Open(2, Call("t1-2", "f")),
        Delta(2, "{}"),
        Close(2),
        UsageUpdate(Usage(output=3)),
        Finish(Stop("tool", native="end_turn")),
        End(),
    ]


@pytest.mark.parametrize(
    ("signatures", "whole"),
    [(["abc"], "abc"), (["ab", "cd"], "abcd"), (["ab", "abcd"], "abcd"), ([], "")],
)
def test_thinking_comes_back_whole(signatures: list[str], whole: str) -> None:
    events = read(
        start(),
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h", estimated_tokens=1),
        delta(0, "thinking_delta", thinking="m"),
        *(delta(0, "signature_delta", signature=signature) for signature in signatures),
        stop(0),
        *GOOD_END,
    )
    native = {"type": "thinking", "thinking": "hm", "signature": whole}
    assert events == [STARTED, Open(0, Reasoning("")), Delta(0, "h"), Delta(0, "m"), Close(0, native), *ENDED]


def test_blocks_that_are_only_understood_whole() -> None:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    hidden = {"type": "redacted_thinking", "data": "d"}
    events = read(
        start(),
        block(0, **hidden),
        stop(0),
        block(1, **call),
        delta(1, "input_json_delta", partial_json='{"query":'),
        delta(1, "input_json_delta", partial_json='"q"}'),
        stop(1),
        block(2, **found),
        stop(2),
        block(3, type="compaction"),
        delta(3, "compaction_delta", content="c", encrypted_content="e"),
        stop(3),
        *GOOD_END,
    )
    whole = {**call, "input": {"query": "q"}}
    assert events == [
        STARTED,
        Open(0, Reasoning("", native=hidden, redacted=True)),
        Close(0),
        Open(1, HostedCall("web_search", whole, "srvtoolu_1")),
        Close(1),
        Open(2, HostedCall("web_search", found, "srvtoolu_1", is_result=True)),
        Close(2),
        Open(3, Opaque("compaction", {"type": "compaction", "content": "c", "encrypted_content": "e"})),
        Close(3),
        *ENDED,
    ]


def test_citations() -> None:
    citation = {"type": "char_location", "cited_text": "c", "document_title": "D"}
    early = {"type": "char_location", "cited_text": "e", "document_title": "E"}
    assert read(
        start(),
        block(0, type="text", text="", citations=[early]),
        delta(0, "citations_delta", citation=citation),
        stop(0),
        *GOOD_END,
    )[1:5] == [
        Open(0, Text("")),
        Cite(0, Citation("document", title="E", cited_text="e", native=early)),
        Cite(0, Citation("document", title="D", cited_text="c", native=citation)),
        Close(0),
    ]


@pytest.mark.parametrize(
    "wires",
    [
        [
            block(1, type="text", text=""),
            delta(1, "text_delta", text="A"),
            stop(1),
            block(7, type="text", text=""),
            delta(7, "text_delta", text="B"),
            stop(7),
        ],
        [
            block(0, type="text", text=""),
            delta(0, "text_delta", text="A"),
            stop(0),
            block(0, type="text", text=""),
            delta(0, "text_delta", text="B"),
            stop(0),
        ],
        [
            block(0, type="text", text=""),
            delta(0, "text_delta", text="A"),
            block(0, type="text", text=""),
            delta(0, "text_delta", text="B"),
            stop(0),
        ],
        [
            block(None, type="text", text=""),
            delta(None, "text_delta", text="A"),
            stop(None),
            block([], type="text", text=""),
            delta([], "text_delta", text="B"),
            stop({}),
        ],
        [
            block(0, type="text", text=""),
            delta(0, "text_delta", text="A"),
            stop(0),
            block(1, type="text", text=""),
            delta(0, "text_delta", text="B"),
        ],
    ],
)
def test_indices_of_other_servers(wires: list[Wire]) -> None:
    assert read(start(), *wires, *GOOD_END) == [
        STARTED,
        Open(0, Text("")),
        Delta(0, "A"),
        Close(0),
        Open(1, Text("")),
        Delta(1, "B"),
        Close(1),
        *ENDED,
    ]


def test_usage_of_later_deltas_replaces_and_null_keeps() -> None:
    events = read(
        start(input_tokens=10, cache_read_input_tokens=4, output_tokens=1),
        message_delta(None, output_tokens=2),
        message_delta("end_turn", input_tokens=11, cache_read_input_tokens=None, output_tokens=5),
        MESSAGE_STOP,
    )
    assert events[1] == UsageUpdate(Usage(11, 4, output=5))


@pytest.mark.parametrize("usage", [None, 3, [], {"input_tokens": 0, "output_tokens": 0}, {"input_tokens": "many"}])
def test_usage_that_tells_nothing(usage: object) -> None:
    events = read({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": usage}}, *GOOD_END)
    assert events == [STARTED, *ENDED]


@pytest.mark.parametrize(
    ("wires", "what"),
    [
        ([{"type": "telemetry", "x": 1}, {"type": "hologram"}], "telemetry"),
        (
            [block(0, type="text", text=""), delta(0, "hologram_delta", x=1), delta(0, "hologram_delta", x=2)],
            "hologram_delta",
        ),
    ],
)
def test_events_and_deltas_that_nobody_knows_are_recorded_once(wires: list[Wire], what: str) -> None:
    losses = LossReport()
    reader = StreamReader(lambda _event: None, Spelling(), Dialect(), losses)
    for wire in (start(), *wires, *GOOD_END):
        reader.feed(wire, "")
    assert losses.losses == [Loss(Rule.UNKNOWN_FIELD, "drop", f"stream.{what}")]


def test_second_starts_and_deltas_that_do_not_fit_are_ignored() -> None:
    assert read(
        start(),
        start(),
        block(0, type="text", text=""),
        delta(0, "thinking_delta", thinking="x"),
        delta(0, "input_json_delta", partial_json="{}"),
        {"type": "content_block_delta", "index": 0, "delta": None},
        delta(0, "text_delta", text="A"),
        stop(5),
        *GOOD_END,
        {"type": "ping"},
    ) == [STARTED, Open(0, Text("")), Delta(0, "A"), Close(0), *ENDED]


# --- how streams end ---


def test_a_stop_and_then_the_end_of_input() -> None:
    assert read(start(), block(0, type="text", text="A"), message_delta("max_tokens", output_tokens=3)) == [
        STARTED,
        Open(0, Text("")),
        Delta(0, "A"),
        Close(0),
        UsageUpdate(Usage(output=3)),
        Finish(Stop("length", native="max_tokens")),
        End(),
    ]


def test_done_ends_a_stream_whose_stop_was_seen_and_no_other() -> None:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    reader.feed(start(), "")
    reader.done()
    assert events == [STARTED]
    reader.feed(message_delta("end_turn", output_tokens=3), "")
    reader.done()
    reader.end()
    assert events == [STARTED, *ENDED]


def test_a_cut_at_every_event_is_an_error_until_the_stop_is_seen() -> None:
    wires = [start(), block(0, type="text", text=""), delta(0, "text_delta", text="A"), stop(0)]
    for length in range(len(wires) + 1):
        assert read(*wires[:length])[-2:] == [Fail(broken_stream()), End()]


def test_an_error_event() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert read(start(), block(0, type="text", text="A"), error, *GOOD_END)[-2:] == [
        Fail(Error(ErrorClass.OVERLOADED, "Overloaded", http=200, type="overloaded_error")),
        End(),
    ]


def test_the_name_of_an_event_counts_where_its_data_has_no_type() -> None:
    events: list[Event] = []
    reader = StreamReader(events.append, Spelling(), Dialect(), LossReport())
    reader.feed({"error": {"type": "api_error", "message": "x"}}, "error")
    assert events == [Fail(Error(ErrorClass.SERVER, "x", http=200, type="api_error")), End()]
    assert read({"error": "plain"}) == [Fail(Error(ErrorClass.SERVER, "plain", http=200)), End()]


@pytest.mark.parametrize(
    ("wires", "problem"),
    [
        ([[]], "holds an event that is not an object"),
        ([delta(0, "text_delta", text="A")], "holds a delta of a content block that never began"),
        ([{"type": "content_block_start", "index": 0}], "starts a content block without saying what it is"),
        ([MESSAGE_STOP], "ends before it has begun"),
    ],
)
def test_what_can_not_be_understood_fails(wires: list[object], problem: str) -> None:
    error = Error(ErrorClass.BAD_GATEWAY, f"The backend's answer {problem}.", reason=Reason.UPSTREAM_ERROR)
    assert read(*wires) == [Fail(error), End()]


def test_a_missing_start_is_no_reason_to_fail() -> None:
    assert read(block(0, type="text", text="A"), *GOOD_END)[0] == Start("", "")


def test_a_folded_stream_is_the_whole_reply() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    usage = {"input_tokens": 5, "output_tokens": 3}
    whole = {
        "id": "msg_1",
        "model": "m",
        "content": [thinking, {"type": "text", "text": "AB"}, call],
        "stop_reason": "tool_use",
        "usage": usage,
    }
    fold = Fold()
    for event in read(
        start(input_tokens=5),
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        block(1, type="text", text=""),
        delta(1, "text_delta", text="A"),
        delta(1, "text_delta", text="B"),
        stop(1),
        block(2, type="tool_use", id="t", name="f", input={}),
        delta(2, "input_json_delta", partial_json='{"a":1}'),
        stop(2),
        message_delta("tool_use", output_tokens=3),
        MESSAGE_STOP,
    ):
        fold.emit(event)
    assert fold.reply() == read_reply(whole, Spelling(), Dialect(), LossReport())
