"""A stream within one protocol: every byte of it, in whole events, and nothing of a broken one."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.fold import broken_stream
from proxy.canonical.reply import ReplyContext
from proxy.canonical.target import Dialect
from proxy.translation.codecs import BackendProtocol
from proxy.translation.pass_through import PassThrough
from tests.harness.grammar import check_stream
from tests.harness.wire import read_events
from tests.server.serving import EVENTS

PROTOCOLS: tuple[BackendProtocol, ...] = ("chat", "responses", "messages")
LINE_ENDS = ["\n", "\r\n", "\r"]
GONE = Error(ErrorClass.BAD_GATEWAY, "gone")


def passing(protocol: BackendProtocol, scrub: str = "no such secret") -> PassThrough:
    return PassThrough(protocol, ReplyContext("req_1", "m"), None, lambda text: text.replace(scrub, "[secret]"))


def ending(protocol: BackendProtocol, *events: str, **flags: bool) -> tuple[PassThrough, bytes]:
    """A stream that a backend of this dialect has sent, and what the client got."""
    stream = PassThrough(protocol, ReplyContext("req_1", "m", now=9), None, dialect=Dialect(**flags))  # type: ignore[arg-type]
    return stream, stream.feed("".join(events).encode()) + stream.end()


def ends_an_event(out: bytes) -> bool:
    return out == b"" or out.replace(b"\r\n", b"\n").replace(b"\r", b"\n").endswith(b"\n\n")


@pytest.mark.parametrize("ends", LINE_ENDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(deadline=None)
@given(cuts=st.lists(st.integers(1, 4000), max_size=12))
def test_all_of_it_passes_in_whole_events_wherever_it_is_cut(
    protocol: BackendProtocol, ends: str, cuts: list[int]
) -> None:
    whole = (": hello\n\n" + "".join(EVENTS[protocol])).replace("\n", ends).encode()
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    stream = passing(protocol)
    outs = [stream.feed(whole[start:stop]) for start, stop in pairwise(places)]
    assert [out for out in outs if not ends_an_event(out)] == []
    assert b"".join(outs) + stream.end() == whole
    assert stream.failed is None


@pytest.mark.parametrize("ends", LINE_ENDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_byte_by_byte(protocol: BackendProtocol, ends: str) -> None:
    whole = "".join(EVENTS[protocol]).replace("\n", ends).encode()
    stream = passing(protocol)
    assert b"".join(stream.feed(whole[place : place + 1]) for place in range(len(whole))) + stream.end() == whole


@pytest.mark.parametrize("half", [b"even", b"event: mess", b"data: ", b'data: {"type":"message_stop"', b'data: {"x":"'])
@pytest.mark.parametrize("broken_by", ["end", "fail"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_an_event_is_left_out_and_the_error_stands_alone(
    protocol: BackendProtocol, broken_by: str, half: bytes
) -> None:
    begun = "".join(EVENTS[protocol][:3]).encode()
    stream = passing(protocol)
    assert stream.feed(begun + half) == begun
    last = stream.end() if broken_by == "end" else stream.fail(GONE)
    assert last.startswith((b'data: {"error":', b"event: error\ndata: "))
    assert stream.failed is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_last_event_that_lacks_its_blank_line_gets_one(protocol: BackendProtocol) -> None:
    whole = "".join(EVENTS[protocol]).encode()
    stream = passing(protocol)
    assert stream.feed(whole[:-2]) + stream.end() == whole
    assert stream.failed is None


@pytest.mark.parametrize(
    ("protocol", "event"),
    [
        ("chat", b'data: {"error":{"message":"no KEY","type":"server_error"}}\n\n'),
        ("responses", b'event: error\ndata: {"type":"error","message":"no KEY"}\n\n'),
        (
            "responses",
            b'data: {"type":"response.failed","response":{"status":"failed","error":{"message":"no KEY"}}}\n\n',
        ),
        ("messages", b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no KEY"}}\n\n'),
    ],
)
def test_an_error_passes_without_the_key_that_it_quotes(protocol: BackendProtocol, event: bytes) -> None:
    stream = passing(protocol, "KEY")
    stream.feed("".join(EVENTS[protocol][:3]).encode())
    assert stream.feed(event) == event.replace(b"KEY", b"[secret]")
    assert stream.failed is not None
    assert stream.failed.message == "no [secret]"


def test_responses_tell_a_failure_in_two_events() -> None:
    stream = passing("responses")
    stream.feed("".join(EVENTS["responses"][:3]).encode())
    first = stream.feed(b'event: error\ndata: {"type":"error","message":"no"}\n\n')
    assert not stream.over(first)
    second = stream.feed(b'data: {"type":"response.failed","response":{"status":"failed","error":null}}\n\n')
    assert second
    assert stream.over(second)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_a_type_that_stands_last_ends_a_stream_too(protocol: BackendProtocol, named: bool) -> None:
    """Servers that write their fields in another order have the types of items and parts before that of the event."""
    events = []
    for event in EVENTS[protocol]:
        name, _, rest = event.partition("\n")
        fields = json.loads(rest.removeprefix("data: "))
        fields["type"] = fields.pop("type")
        events.append((f"{name}\n" if named else "") + f"data: {json.dumps({'of': {'type': 'text'}, **fields})}\n\n")
    raw = "".join(events).encode()
    stream = passing(protocol)
    assert stream.feed(raw) + stream.end() == raw
    assert (stream.finished, stream.failed) == (True, None)


@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize(("protocol", "lacks"), [("messages", 1), ("chat", 1), ("chat", 2)])
def test_an_answer_that_lacks_only_its_end_mark_gets_it(protocol: BackendProtocol, lacks: int, broken: bool) -> None:
    """mapping.md 13.6, a normal end: as when it is translated, whether the backend ended or broke off."""
    events = EVENTS[protocol][:-lacks]
    stream = passing(protocol)
    out = stream.feed("".join(events).encode()) + (stream.fail(broken_stream()) if broken else stream.end())
    assert out.startswith("".join(events).encode())
    assert check_stream(protocol, out, passed_through=True) == []
    assert stream.failed is None


def test_messages_that_did_not_tell_why_they_stop_are_cut() -> None:
    stream, out = ending("messages", *EVENTS["messages"][:-2])
    assert check_stream("messages", out, expect_end="error", passed_through=True) == []
    assert not stream.finished


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_end_mark_alone_is_no_answer(protocol: BackendProtocol) -> None:
    stream = passing(protocol)
    stream.feed(b"data: [DONE]\n\n")
    assert (stream.started, stream.failed is not None) == (False, True)


def test_an_answer_may_be_one_event() -> None:
    last = EVENTS["responses"][-1].encode()
    stream = passing("responses")
    assert stream.feed(last) + stream.end() == last
    assert (stream.finished, stream.failed) == (True, None)


@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_a_type_that_is_no_text_passes_as_well(protocol: BackendProtocol) -> None:
    passed = passing(protocol)
    passed.feed(EVENTS[protocol][0].encode())
    odd = b'data: {"x":1,"type":"\\ud83d"}\n\n'
    assert passed.feed(odd) == odd


@pytest.mark.parametrize("mark", ["", "data: [DONE]\n\n", "event: done\r\ndata: [DONE]\r\n\r\n", "data:[DONE]"])
def test_responses_that_lack_only_their_end_get_it_where_the_backend_is_known_for_it(mark: str) -> None:
    """mapping.md 13.6: as when such a stream is translated."""
    events = EVENTS["responses"][:-1]
    stream, out = ending("responses", *events, mark, lax_terminal=True)
    assert check_stream("responses", out, passed_through=True) == []
    last = read_events(out.decode()).events[-1].data
    whole = json.loads(EVENTS["responses"][-1].partition("data: ")[2])
    assert out.startswith("".join(events).encode())
    assert (last["type"], last["sequence_number"]) == ("response.completed", whole["sequence_number"])
    assert last["response"] == {**whole["response"], "completed_at": 9, "usage": None}
    assert (stream.finished, stream.failed) == (True, None)


@pytest.mark.parametrize(("kept", "lax"), [(-2, True), (-1, False), (1, True)])
def test_responses_with_an_open_item_are_cut_even_there(kept: int, lax: bool) -> None:
    stream, out = ending("responses", *EVENTS["responses"][:kept], lax_terminal=lax)
    assert check_stream("responses", out, expect_end="error", passed_through=True) == []
    assert (stream.finished, stream.failed is not None) == (False, True)


def test_an_end_mark_is_no_end_where_a_finish_reason_is_due() -> None:
    """Nor may it stand before the error: whoever reads it reads no further."""
    events = EVENTS["chat"][:3]
    stream, out = ending("chat", *events, "data: [DONE]\n\n", finish_required=True)
    assert out.startswith("".join(events).encode() + b'data: {"error":')
    assert check_stream("chat", out, expect_end="error", passed_through=True) == []
    assert stream.failed is not None
    whole = "".join(EVENTS["chat"])
    assert ending("chat", whole, finish_required=True)[1] == whole.encode()
    assert ending("chat", *events, "data: [DONE]\n\n")[1].endswith(b"[DONE]\n\n")


def test_a_response_that_was_cancelled_has_ended() -> None:
    last = 'data: {"type":"response.cancelled","response":{"status":"cancelled"}}\n\n'
    stream, out = ending("responses", *EVENTS["responses"][:3], last)
    assert out == "".join([*EVENTS["responses"][:3], last]).encode()
    assert stream.failed is not None


@pytest.mark.parametrize("protocol", ["responses", "messages"])
@pytest.mark.parametrize("rest", [b"\n", b""])
def test_a_last_event_whose_line_end_is_cut_is_awaited(protocol: BackendProtocol, rest: bytes) -> None:
    raw = "".join(EVENTS[protocol]).replace("\n", "\r\n").encode()
    stream = passing(protocol)
    out = stream.feed(raw[:-1])
    assert not stream.over(out)
    out += stream.feed(rest) if rest else stream.end()
    assert out.startswith(raw)
    assert stream.over(out)


@pytest.mark.parametrize("events", [EVENTS["responses"], EVENTS["responses"][:3]])
@pytest.mark.parametrize("ends", LINE_ENDS)
def test_responses_get_an_end_mark_where_their_clients_want_one(events: list[str], ends: str) -> None:
    raw = "".join(events).replace("\n", ends).encode()
    stream = PassThrough("responses", ReplyContext("req_1", "m", responses_done=True), None)
    out = b"".join(stream.feed(raw[place : place + 1]) for place in range(len(raw)))
    out += b"" if stream.finished else stream.end()
    assert out.startswith(raw.rstrip())
    assert [event.text for event in read_events(out.decode()).events][-1] != "[DONE]"
    assert (read_events(out.decode()).done, out.count(b"[DONE]")) == (True, 1)
