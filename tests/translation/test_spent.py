"""What an answer used is known or guessed, however it ends and whoever leaves (operations.md 9.2, points 4 and 6)."""

import json
import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.canonical.usage import Usage, total
from proxy.translation import ids, pair
from proxy.translation.codecs import ClientProtocol
from proxy.translation.emulation import Emulation
from proxy.translation.fan_out import fan_out
from proxy.translation.prepared import Prepared
from proxy.translation.spent import Round, used, used_by_all
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes
from tests.server.serving import EVENTS, REPLIES, REQUESTS

GUESS = 50  # tokens of the prompt, where nobody tells
CLIENTS: tuple[ClientProtocol, ...] = ("chat", "responses", "messages", "completions")
EVERYWHERE = [(client, backend) for client in CLIENTS for backend in PROTOCOLS]
SCRIPT = Script(
    (
        Part("reasoning", ("Hm, ", "well."), 0),
        Part("text", ("Grüß ", "Gott, ", "world."), 1),
        Part("call", ('{"a":', '"b"}'), 2),
    ),
    "tool",
    10,
    2,
    3,
    70,
    4,
)
TOLD = Usage(10, 2, 3, output=70, reasoning=4)
SAID = [len(piece.encode()) for part in SCRIPT.parts for piece in part.pieces]
GONE = Error(ErrorClass.BAD_GATEWAY, "gone")


def prepared(client: ClientProtocol, backend: Protocol, *, stream: bool, count: bool = True) -> Prepared:
    raw = json.dumps({**REQUESTS[client], "stream": stream}).encode()
    asked = pair.prepare(
        pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options("req_1", count_usage=count)
    )
    asked.asked = 1
    return asked


def tokens(size: int) -> int:
    return math.ceil(size / 3.6)


def spoken(backend: Protocol) -> list[bytes]:
    return event_bytes(backend, SCRIPT)


def untold(raw: bytes) -> bytes:
    """The events or the reply with nothing told."""
    for usage in (b'"usage":', b'"usage": '):
        raw = raw.replace(usage, b'"usages":')
    return raw


# ---- streams


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, 4000), max_size=12))
def test_what_a_stream_told_is_used(client: ClientProtocol, backend: Protocol, count: bool, cuts: list[int]) -> None:
    whole = b"".join(spoken(backend))
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    asked = prepared(client, backend, stream=True, count=count)
    stream = asked.translation()
    for start, stop in pairwise(places):
        stream.feed(whole[start:stop])
    stream.end()
    assert used(asked, GUESS) == TOLD
    assert used(stream, GUESS) == TOLD
    assert stream.usage == TOLD
    assert stream.stop is not None
    assert stream.stop.kind == "tool"


@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_a_client_may_leave_at_any_event(client: ClientProtocol, backend: Protocol) -> None:
    """What it has been sent by then has been paid for, and what the backend told holds."""
    asked = prepared(client, backend, stream=True)
    stream = asked.translation()
    known = Usage()
    for event in spoken(backend):
        stream.feed(event)
        now = used(asked, GUESS)
        assert now.output >= known.output
        assert now.prompt == 15 or (now.prompt == GUESS and known.prompt != 15 and stream.usage is None)
        assert now.estimated or now == TOLD
        known = now
    stream.end()
    assert used(asked, GUESS) == TOLD


@pytest.mark.parametrize("ends", ["left", "cut", "failed", "over"])
@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_who_tells_nothing_is_weighed(client: ClientProtocol, backend: Protocol, ends: str) -> None:
    asked = prepared(client, backend, stream=True)
    stream = asked.translation()
    events = spoken(backend)
    for event in events if ends == "over" else events[:-2]:
        stream.feed(untold(event))
    if ends == "failed":
        stream.fail(GONE)
    elif ends != "left":
        stream.end()
    assert used(asked, GUESS) == Usage(GUESS, output=tokens(sum(SAID)), estimated=True)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_prompt_that_was_told_at_the_start_is_no_guess(client: ClientProtocol) -> None:
    asked = prepared(client, "messages", stream=True)
    stream = asked.translation()
    events = spoken("messages")
    grown = [event for event in events if b"content_block_delta" in event]
    for event in events[: events.index(grown[-1])]:
        stream.feed(event)
    assert used(asked, GUESS) == Usage(10, 2, 3, output=tokens(sum(SAID[:-1])), reasoning=4, estimated=True)


@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_nothing_said_is_a_prompt_unless_the_backend_has_refused(client: ClientProtocol, backend: Protocol) -> None:
    asked = prepared(client, backend, stream=True)
    stream = asked.translation()
    assert used(asked, GUESS) == Usage(GUESS, estimated=True)
    stream.feed(b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n')
    assert stream.failed is not None
    assert used(asked, GUESS) == Usage()


@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_an_answer_that_the_proxy_does_not_wait_for_is_no_refusal(client: ClientProtocol, backend: Protocol) -> None:
    asked = prepared(client, backend, stream=True)
    asked.translation().fail(GONE)
    assert used(asked, GUESS) == Usage(GUESS, estimated=True)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failed_response_tells_what_it_used(client: ClientProtocol) -> None:
    asked = prepared(client, "responses", stream=True)
    stream = asked.translation()
    for event in spoken("responses")[:-1]:
        stream.feed(event)
    usage = {"input_tokens": 9, "output_tokens": 900, "total_tokens": 909}
    response = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "no"}, "usage": usage}
    stream.feed(b"data: " + json.dumps({"type": "response.failed", "response": response}).encode() + b"\n\n")
    assert (used(asked, GUESS).prompt, used(asked, GUESS).output) == (9, 900)


@pytest.mark.parametrize(("reason", "kind"), [("max_output_tokens", "length"), ("content_filter", "filter")])
def test_an_incomplete_response_that_passes(reason: str, kind: str) -> None:
    response = {**REPLIES["responses"], "status": "incomplete", "incomplete_details": {"reason": reason}}
    event = f"data: {json.dumps({'type': 'response.incomplete', 'response': response})}\n\n"
    stream = prepared("responses", "responses", stream=True).translation()
    stream.feed("".join([*EVENTS["responses"][:-1], event]).encode())
    assert stream.usage == Usage(3, output=1)
    assert stream.stop is not None
    assert stream.stop.kind == kind


COUNTS = {"prompt_tokens": 7, "completion_tokens": 5}


def chunk(usage: Json = None, *, finish: str | None = None, choices: list[Json] | None = None, **more: Json) -> bytes:
    choice = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": finish}
    wire = {"id": "c", "model": "m", "choices": [choice] if choices is None else choices, "usage": usage, **more}
    return b"data: " + json.dumps(wire).encode() + b"\n\n"


MARK = b"data: [DONE]\n\n"
PLACES = {
    "in the chunk of the end": [chunk(), chunk(COUNTS, finish="stop"), MARK],
    "in every chunk": [chunk({"prompt_tokens": 7, "completion_tokens": 1}), chunk(COUNTS, finish="stop"), MARK],
    "in a chunk of its own": [chunk(), chunk(finish="stop"), chunk(COUNTS, choices=[]), MARK],
    "twice": [chunk(finish="stop"), chunk({"prompt_tokens": 1}, choices=[]), chunk(COUNTS, choices=[]), MARK],
    "and then not": [chunk(COUNTS, finish="stop"), chunk({"prompt_tokens": None}, choices=[]), chunk(choices=[])],
    "in the choice": [
        chunk(),
        chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS}]),
        MARK,
    ],
    "in a corner": [chunk(), chunk(finish="stop", x_groq={"id": "r", "usage": COUNTS}), MARK],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
def test_chat_servers_tell_it_where_they_like(client: ClientProtocol, count: bool, place: str) -> None:
    asked = prepared(client, "chat", stream=True, count=count)
    stream = asked.translation()
    stream.feed(b"".join(PLACES[place]))
    stream.end()
    assert used(asked, GUESS) == Usage(7, output=5)


def test_what_chat_tells_while_it_goes_on_is_the_least() -> None:
    asked = prepared("chat", "chat", stream=True)
    stream = asked.translation()
    stream.feed(chunk({"prompt_tokens": 7, "completion_tokens": 90}) + chunk())
    assert used(asked, GUESS) == Usage(7, output=90, estimated=True)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(deadline=None, max_examples=40)
@given(texts=st.lists(st.text(min_size=1, max_size=8), max_size=20), other=st.integers(0, 20))
def test_text_that_passes_is_weighed_whatever_it_is(
    protocol: Protocol, texts: list[str], other: int, ascii_only: bool
) -> None:
    """Events that are alike but for their text are not decoded in full."""
    texts.insert(min(other, len(texts)), '"}, {"content": "\\u00e9')
    events: dict[Protocol, Callable[[int, str], Json]] = {
        "chat": lambda _, text: {"choices": [{"delta": {"content": text}, "finish_reason": None}], "usage": None},
        "responses": lambda number, text: {
            "type": "response.output_text.delta",
            "sequence_number": number,
            "delta": text,
            "item_id": "i",
        },
        "messages": lambda _, text: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        },
    }
    asked = prepared(protocol, protocol, stream=True)
    stream = asked.translation()
    stream.feed(EVENTS[protocol][0].encode())
    for number, text in enumerate(texts):
        wire = json.dumps(events[protocol](number + 3, text), ensure_ascii=ascii_only)
        raw = f"data: {wire}\n\n".encode()
        assert stream.feed(raw) == raw
    assert used(asked, GUESS).output == tokens(sum(len(text.encode()) for text in texts))
    for event in EVENTS[protocol][-3:]:
        stream.feed(event.encode())
    assert used(asked, GUESS) == Usage(3, output=1)
    assert (stream.failed, stream.stop is not None) == (None, True)


def test_every_kind_of_output_of_a_passing_chunk_is_weighed() -> None:
    delta = {
        "content": [{"type": "text", "text": "a" * 10}, {"type": "thinking", "thinking": [{"text": "b" * 10}]}],
        "refusal": "c" * 10,
        "reasoning_content": "d" * 10,
        "reasoning": "d" * 10,
        "tool_calls": [{"function": {"arguments": "e" * 10}}, {"custom": {"input": "f" * 10}}, None],
        "function_call": {"arguments": "g" * 10},
    }
    asked = prepared("chat", "chat", stream=True)
    choices = [{"index": 0, "delta": delta}, {"index": 1, "delta": {"content": "h" * 10, "reasoning": "i" * 10}}, 1]
    asked.translation().feed(chunk(choices=choices))
    assert used(asked, GUESS).output == tokens(90)


def test_the_end_of_a_passing_text_is_not_weighed_again() -> None:
    asked = prepared("responses", "responses", stream=True)
    asked.translation().feed("".join(EVENTS["responses"][:-1]).encode())
    audio = {"type": "response.audio.delta", "delta": "A" * 1000}
    asked.translation().feed(f"data: {json.dumps(audio)}\n\n".encode())
    stream = asked.translation()
    stream.feed("".join(EVENTS["responses"][:-1]).encode() + f"data: {json.dumps(audio)}\n\n".encode())
    assert used(asked, GUESS).output == tokens(len("Hello"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rubbish_that_passes_weighs_nothing(protocol: Protocol) -> None:
    asked = prepared(protocol, protocol, stream=True)
    stream = asked.translation()
    stream.feed(EVENTS[protocol][0].encode())
    for wire in (
        '{"type":"content_block_delta","delta":7}',
        '{"type":"response.output_text.delta","delta":{}}',
        '{"type":"message_delta","usage":[],"delta":[]}',
        '{"type":"response.completed","response":null}',
        '{"type":"response.completed","response":{"status":"completed","output":[{"type":[]}]}}',
        '{"choices":7,"usage":7}',
        '{"type":"content_block_delta","delta"',
        '{"choices":[{"delta":{"content":7,"tool_calls":[7],"function_call":7},"finish_reason":7}],"x_groq":7}',
    ):
        stream.feed(f"data: {wire}\n\n".encode())
    assert used(asked, GUESS).output == 0


# ---- whole replies


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_what_a_whole_reply_told_is_used(client: ClientProtocol, backend: Protocol, count: bool, folded: bool) -> None:
    asked = prepared(client, backend, stream=False, count=count)
    if folded and not asked.same_protocol:
        folding = asked.folding()
        folding.feed(b"".join(spoken(backend)))
        asked.take_folded(folding)
    else:
        asked.take(whole_bytes(backend, SCRIPT))
    assert used(asked, GUESS) == TOLD
    assert asked.usage == TOLD
    assert asked.stop is not None
    assert asked.stop.kind == "tool"


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_a_whole_reply_that_told_nothing_is_weighed(client: ClientProtocol, backend: Protocol, folded: bool) -> None:
    asked = prepared(client, backend, stream=False)
    if folded and not asked.same_protocol:
        folding = asked.folding()
        folding.feed(untold(b"".join(spoken(backend))))
        asked.take_folded(folding)
    else:
        asked.take(untold(whole_bytes(backend, SCRIPT)))
    assert used(asked, GUESS) == Usage(GUESS, output=tokens(sum(SAID)), estimated=True)


@pytest.mark.parametrize("backend", PROTOCOLS)
def test_a_whole_reply_for_a_client_that_streams(backend: Protocol) -> None:
    client: ClientProtocol = "messages" if backend == "chat" else "chat"
    asked = prepared(client, backend, stream=True)
    asked.translation()
    asked.take_streamed(whole_bytes(backend, SCRIPT))
    assert used(asked, GUESS) == TOLD


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"error":{"message":"no","type":"server_error"},"type":"error"}'])
@pytest.mark.parametrize(("client", "backend"), EVERYWHERE)
def test_an_error_in_place_of_a_reply_costs_nothing(client: ClientProtocol, backend: Protocol, raw: bytes) -> None:
    asked = prepared(client, backend, stream=False)
    with pytest.raises(Rejected):
        asked.take(raw)
    assert used(asked, GUESS) == Usage()


def test_a_stream_that_breaks_before_a_client_who_waits() -> None:
    asked = prepared("chat", "messages", stream=False)
    folding = asked.folding()
    folding.feed(b"".join(spoken("messages")[:-2]))
    with pytest.raises(Rejected):
        asked.take_folded(folding)
    assert used(asked, GUESS) == Usage(10, 2, 3, output=tokens(sum(SAID)), reasoning=4, estimated=True)


def test_who_was_not_asked_was_not_paid() -> None:
    asked = prepared("responses", "chat", stream=False)
    asked.asked = 0
    assert used(asked, GUESS) == Usage()
    asked.immediate()
    assert used(asked, GUESS) == Usage()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (Usage(), Usage(GUESS, output=10, estimated=True)),
        (Usage(9), Usage(9, output=10, estimated=True)),
        (Usage(output=3), Usage(GUESS, output=3, estimated=True)),
        (Usage(cache_read=3, output=3), Usage(cache_read=3, output=3)),
        (Usage(9, output=2**64 - 1), Usage(GUESS, output=10, estimated=True)),
        (Usage(9, output=3, hosted={"web_search": 2**64 - 1}), Usage(GUESS, output=10, estimated=True)),
    ],
)
def test_a_count_of_nothing_where_there_was_something_is_none_nor_one_that_cannot_be(
    told: Usage, expected: Usage
) -> None:
    assert Round(told, 36, over=True).used(GUESS) == expected


# ---- several answers


def going_on(*, stream: bool, must_call: bool = False, count: bool = True) -> Prepared:
    context = ReplyContext("req_1", "m", now=1, include_usage=True)
    target = Target("messages", "m")
    spelling = Spelling(encode=ids.for_client("chat"), mint=ids.mint)
    emulation = Emulation(pauses=not must_call, directive="Call." if must_call else None)
    body = json.dumps(REQUESTS["messages"]).encode()
    return Prepared(
        "chat",
        target,
        body,
        stream,
        stream,
        context,
        LossReport(),
        spelling,
        emulation=emulation,
        count_usage=count,
    )


def turn(stop: str, number: int, *, tells: bool = True) -> Json:
    usage = {"input_tokens": 10 * number, "output_tokens": 20 * number, "cache_read_input_tokens": number}
    reply = {**REPLIES["messages"], "content": [{"type": "text", "text": "x" * 36}], "stop_reason": stop}
    return {**reply, "usage": usage if tells else None}


def turn_events(reply: Json) -> list[bytes]:
    (block,) = reply["content"]
    usage = reply["usage"] and {**reply["usage"], "output_tokens": 1}
    wires = [
        {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": block["text"]}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reply["stop_reason"]}, "usage": reply["usage"]},
        {"type": "message_stop"},
    ]
    return [f"data: {json.dumps(wire)}\n\n".encode() for wire in wires]


ONE, TWO = Usage(10, 1, output=20), Usage(20, 2, output=40)
UNTOLD = Usage(GUESS, output=10, estimated=True)


@pytest.mark.parametrize("kind", ["whole", "streamed", "folded"])
@pytest.mark.parametrize(("first", "second"), [(True, True), (False, True), (True, False), (False, False)])
def test_a_turn_that_went_on_is_paid_twice(kind: str, first: bool, second: bool) -> None:
    asked = going_on(stream=kind == "streamed")
    turns = turn("pause_turn", 1, tells=first), turn("end_turn", 2, tells=second)
    stream = asked.translation() if kind == "streamed" else None
    for reply in turns:
        asked.asked += 1
        if stream is not None:
            for event in turn_events(reply):
                stream.feed(event)
            stream.goes_on()
        elif kind == "folded":
            folding = asked.folding()
            folding.feed(b"".join(turn_events(reply)))
            asked.take_folded(folding)
        else:
            asked.take(json.dumps(reply).encode())
    assert used(asked, GUESS) == total(ONE if first else UNTOLD, TWO if second else UNTOLD)


def test_a_second_answer_that_is_cut_adds_what_came_of_it() -> None:
    asked = going_on(stream=True)
    stream = asked.translation()
    asked.asked = 1
    for event in turn_events(turn("pause_turn", 1)):
        stream.feed(event)
    stream.goes_on()
    assert used(asked, GUESS) == ONE
    asked.asked = 2
    assert used(asked, GUESS) == total(ONE, Usage(GUESS, estimated=True))
    for event in turn_events(turn("end_turn", 2))[:3]:
        stream.feed(event)
    assert used(asked, GUESS) == total(ONE, Usage(20, 2, output=10, estimated=True))
    stream.end()
    assert used(asked, GUESS) == total(ONE, Usage(20, 2, output=10, estimated=True))


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("tells", [True, False])
def test_an_answer_without_the_call_is_paid_too(folded: bool, tells: bool) -> None:
    asked = going_on(stream=False, must_call=True)
    out = None
    for reply in (turn("end_turn", 1), turn("end_turn", 2, tells=tells)):
        asked.asked += 1
        if folded:
            folding = asked.folding()
            folding.feed(b"".join(turn_events(reply)))
            out = asked.take_folded(folding)
        else:
            out = asked.take(json.dumps(reply).encode())
    assert used(asked, GUESS) == total(ONE, TWO if tells else UNTOLD)
    assert out is not None
    shown = json.loads(out)["usage"]
    assert (shown["prompt_tokens"], shown["completion_tokens"]) == ((33, 60) if tells else (11, 20))


# ---- several choices


def test_choices_are_paid_each_even_those_that_were_cut() -> None:
    raw = json.dumps({**REQUESTS["chat"], "n": 4, "stream": True}).encode()
    target = Target("messages", "m", Dialect(), fan_out=4)
    asked = pair.prepare(pair.peek("chat", raw), target, pair.Options(count_usage=True))
    each, _ = fan_out(asked)
    streams = [one.translation() for one in each]
    for one in each:
        one.asked = 1
    events = spoken("messages")
    for event in events:
        streams[0].feed(event)
    for event in events[:-2]:
        streams[1].feed(event)
    streams[3].feed(b'data: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n')
    parts = [TOLD, Usage(10, 2, 3, output=tokens(sum(SAID)), reasoning=4, estimated=True), Usage(GUESS, estimated=True)]
    assert used_by_all(each, GUESS) == reduce(total, parts)
    assert used(asked, GUESS) == Usage()
