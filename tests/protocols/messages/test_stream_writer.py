"""Canonical events, as the bytes of a Messages client."""

import pytest

from proxy.canonical.errors import Error, ErrorClass
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
from proxy.canonical.fold import unfold
from proxy.canonical.jsontext import loads
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.messages import StreamWriter, write_reply
from tests.harness.assemble import assemble
from tests.harness.wire import read_events
from tests.protocols.messages.grammar import check_stream, wire_events

Wire = dict[str, object]
CONTEXT = ReplyContext("req_1", "asked-for", estimate_prompt=lambda: 7)
START = Start("chatcmpl-1", "m")
FINISH = Finish(Stop("end"))


def write(*events: Event, context: ReplyContext = CONTEXT) -> bytes:
    return StreamWriter(context).write(events)


def blocks(*events: Event, context: ReplyContext = CONTEXT) -> list[Wire]:
    """What stands between `message_start` with its ping and `message_delta` of a legal stream."""
    return check_stream(write(START, *events, FINISH, End(), context=context))[2:-2]


def test_a_text_byte_for_byte() -> None:
    stream = write(
        START,
        Open(0, Text("")),
        Delta(0, 'Say "hi"\n'),
        Delta(0, ""),
        Delta(0, "ü"),
        Close(0),
        UsageUpdate(Usage(10, 2, 3, output=4)),
        FINISH,
        End(),
    )
    assert stream.decode() == (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_chatcmpl1","type":"message",'
        '"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,'
        '"container":null,"diagnostics":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,'
        '"cache_read_input_tokens":0,"output_tokens":0,"output_tokens_details":null,"server_tool_use":null,'
        '"cache_creation":null,"service_tier":null,"inference_geo":null,"speed":null}}}\n\n'
        'event: ping\ndata: {"type":"ping"}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"Say \\"hi\\"\\n"}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"ü"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null,'
        '"stop_details":null,"container":null},"usage":{"input_tokens":10,"cache_creation_input_tokens":3,'
        '"cache_read_input_tokens":2,"output_tokens":4,"output_tokens_details":null,"server_tool_use":null}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )


def test_how_events_are_batched_changes_nothing() -> None:
    events: list[Event] = [
        START,
        Open(0, Text("A")),
        Delta(0, "B"),
        Close(0),
        Open(1, Call("c", "f")),
        Delta(1, "{}"),
        Close(1),
        FINISH,
        End(),
    ]
    one_by_one = StreamWriter(CONTEXT)
    assert b"".join(one_by_one.write([event]) for event in events) == write(*events)


def test_parts_that_show_nothing_take_no_index() -> None:
    assert blocks(
        Open(0, Text("")),
        Delta(0, ""),
        Close(0),
        Open(1, Reasoning("")),
        Close(1),
        Open(2, HostedCall("web_search", {"type": "web_search_call", "id": "ws"})),
        Close(2),
        Open(3, Reasoning("", redacted=True, native={"type": "reasoning"})),
        Close(3),
        Open(4, Text("")),
        Delta(4, "A"),
        Close(4),
    ) == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A"}},
        {"type": "content_block_stop", "index": 0},
    ]


def test_calls() -> None:
    assert blocks(
        Open(0, Call("c0", "f", kind="typed", namespace="browser", tool="browser", extra={"foreign": 1})),
        Delta(0, '{"a"'),
        Delta(0, ":1}"),
        Close(0),
        Open(1, Call("c1", "g")),
        Close(1),
        Open(2, Call("c2", "h", "{}")),
        Close(2),
    ) == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c0", "name": "f", "input": {}, "toolset_name": "browser"},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"a"'},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "g", "input": {}},
        },
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "c2", "name": "h", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop", "index": 2},
    ]


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}
THINKING_START = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "thinking", "thinking": "", "signature": ""},
}
THINKING_DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
SIGNATURE = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}}
STOP = {"type": "content_block_stop", "index": 0}


@pytest.mark.parametrize(
    ("events", "show", "expected"),
    [
        (
            [Open(0, Reasoning("")), Delta(0, "hm"), Close(0)],
            None,
            [THINKING_START, THINKING_DELTA, STOP],
        ),
        (
            [Open(0, Reasoning("")), Delta(0, "hm"), Close(0, SIGNED)],
            True,
            [THINKING_START, THINKING_DELTA, SIGNATURE, STOP],
        ),
        ([Open(0, Reasoning("")), Close(0, SIGNED)], None, [THINKING_START, SIGNATURE, STOP]),
        ([Open(0, Reasoning("")), Delta(0, "hm"), Close(0, SIGNED)], False, [THINKING_START, SIGNATURE, STOP]),
        ([Open(0, Reasoning("")), Delta(0, "hm"), Close(0)], False, []),
        ([Open(0, Reasoning("")), Close(0, {"type": "reasoning", "signature": "x"})], None, []),
        (
            [Open(0, Reasoning("", native={"type": "redacted_thinking", "data": "d"}, redacted=True)), Close(0)],
            False,
            [
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "redacted_thinking", "data": "d"},
                },
                STOP,
            ],
        ),
    ],
)
def test_thinking(events: list[Event], show: bool | None, expected: list[Wire]) -> None:
    assert blocks(*events, context=ReplyContext("r", "m", show_reasoning=show)) == expected


def test_own_hosted_blocks() -> None:
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    assert blocks(
        Open(0, HostedCall("web_search", call, "s")),
        Close(0),
        Open(1, HostedCall("web_search", found, "s", is_result=True)),
        Close(1),
        Open(2, Opaque("container_upload", {"type": "container_upload", "file_id": "f"})),
        Close(2),
    ) == [
        {"type": "content_block_start", "index": 0, "content_block": {**call, "input": {}}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"query":"q"}'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": found},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "container_upload", "file_id": "f"},
        },
        {"type": "content_block_stop", "index": 2},
    ]


def test_citations_are_told_at_the_end_of_their_text() -> None:
    """What they mark need not have been said when they come; after the block there is no place for one."""
    cite = Cite(0, Citation("url", "https://a", "T", start=0, end=2))
    stream = blocks(
        Open(0, Text("")),
        Cite(0, Citation("url", "https://early")),
        Delta(0, "It "),
        cite,
        Delta(0, "is."),
        Cite(0, Citation("file", "f")),
        Close(0),
        cite,
    )
    found = {"type": "web_search_result_location", "encrypted_index": ""}
    assert [event["delta"] for event in stream[3:-1]] == [
        {
            "type": "citations_delta",
            "citation": {**found, "url": "https://early", "title": None, "cited_text": "It is."},
        },
        {"type": "citations_delta", "citation": {**found, "url": "https://a", "title": "T", "cited_text": "It"}},
    ]


def test_the_text_of_a_free_text_call_is_the_one_string_of_an_object() -> None:
    text = 'one "two"\n\\ three é'
    call = Call("call_1", "patch", kind="custom")
    stream = blocks(Open(0, call), Delta(0, text[:6]), Delta(0, text[6:]), Close(0))
    assert stream[0]["content_block"] == {"type": "tool_use", "id": "call_1", "name": "patch", "input": {}}
    arguments = "".join(event["delta"]["partial_json"] for event in stream[1:-1])
    assert loads(arguments) == {"input": text}
    call.arguments = text
    whole = loads(write_reply(Reply("1", "m", [call], Stop("tool")), CONTEXT))
    assert whole["content"] == [{**stream[0]["content_block"], "input": {"input": text}}]


def test_a_refusal_is_text_and_a_stop() -> None:
    events = check_stream(write(START, Open(0, Refusal("")), Delta(0, "No."), Close(0), FINISH, End()))
    assert events[3]["delta"] == {"type": "text_delta", "text": "No."}
    assert events[-2]["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None},
        "container": None,
    }


@pytest.mark.parametrize(
    ("told", "updates", "at_start", "at_end"),
    [
        (None, [], (7, 0, 0, 0), (7, 0, 0, 0)),
        (Usage(10, 2, 3), [], (10, 2, 3, 0), (10, 2, 3, 0)),
        (None, [Usage(10, 2, 3, output=4)], (7, 0, 0, 0), (10, 2, 3, 4)),
        (None, [Usage(1), Usage(10, output=4)], (7, 0, 0, 0), (10, 0, 0, 4)),
    ],
)
def test_usage(told: Usage | None, updates: list[Usage], at_start: tuple[int, ...], at_end: tuple[int, ...]) -> None:
    events = check_stream(write(Start("x", "m", usage=told), *map(UsageUpdate, updates), FINISH, End()))
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    assert tuple(events[0]["message"]["usage"][name] for name in names) == at_start
    assert tuple(events[-2]["usage"][name] for name in names) == at_end


def test_pings_are_comments_until_the_message_has_started() -> None:
    writer = StreamWriter(CONTEXT)
    assert writer.write([Ping()]) == b": ping\n\n"
    writer.write([START])
    assert writer.write([Ping()]) == b'event: ping\ndata: {"type":"ping"}\n\n'


@pytest.mark.parametrize(
    "before", [[], [START], [START, Open(0, Text("")), Delta(0, "A")], [START, Open(0, Call("c", "f"))]]
)
def test_a_failure_is_the_last_word(before: list[Event]) -> None:
    writer = StreamWriter(CONTEXT)
    stream = writer.write([*before, Fail(Error(ErrorClass.OVERLOADED, "Busy")), FINISH, End()])
    assert wire_events(stream)[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Busy"},
        "request_id": "req_1",
    }
    assert writer.write([Ping()]) == b""


REPLIES: list[list[ReplyPart]] = [
    [],
    [Reasoning("hm"), Text("A"), Call("c", "f", '{"a":1}'), Call("d", "g", "{}")],
    [Text("A"), Reasoning("hm"), Text("B")],
    [Refusal("No.")],
    [Reasoning("hm", native=SIGNED), Text("A" * 40_000)],
    [Text("It is.", [Citation("url", "https://a", "T", start=0, end=2)])],
]


@pytest.mark.parametrize("parts", REPLIES)
def test_the_stream_is_the_reply(parts: list[ReplyPart]) -> None:
    reply = Reply("resp_1", "m", parts, Stop("end"), Usage(1, 2, 3, output=4, reasoning=1))
    stream = write(*unfold(reply))
    check_stream(stream)
    events = read_events(stream.decode()).events
    whole = loads(write_reply(reply, CONTEXT))
    assembled = assemble("messages", events)
    for block in (*whole["content"], *assembled["content"]):
        if not block.get("citations"):
            block.pop("citations", None)  # absent from the start of a block, null in a whole one
    for message in (whole, assembled):
        del message["usage"]["cache_creation"]  # `message_delta` has no field for it
    assert assembled == whole
