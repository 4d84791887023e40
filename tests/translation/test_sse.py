"""An event stream reads the same however it is cut, and whatever its line ends are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.translation import sse
from proxy.translation.sse import EventTooLarge, SseEvent, SseReader

STREAM = (
    "\ufeff: hello\n\n"
    'event: message_start\ndata: {"a":"ü€😀"}\n\n'
    'data:{"b":1}\n\n'
    "event: ping\n\n"
    "data:\n\ndata: \n\n"
    "data: one\ndata: two\nid: 7\nretry: 3\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    ("message_start", '{"a":"ü€😀"}'.encode()),
    ("", b'{"b":1}'),
    ("", b"one\ntwo"),
    ("", b"[DONE]"),
]


def read(chunks: list[bytes]) -> list[SseEvent]:
    reader = SseReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.end()


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
@given(cuts=st.lists(st.integers(0, len(STREAM) * 2), max_size=12))
def test_any_cut_gives_the_same_events(ends: bytes, cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", ends)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:stop] for start, stop in pairwise(places)]
    assert read(chunks) == EVENTS


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_byte_by_byte(ends: bytes) -> None:
    stream = STREAM.replace(b"\n", ends)
    assert read([stream[index : index + 1] for index in range(len(stream))]) == EVENTS


def test_the_last_event_may_lack_its_blank_line() -> None:
    assert read([b'data: {"a":1}\n\ndata: {"b":2}']) == [("", b'{"a":1}'), ("", b'{"b":2}')]


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    reader = SseReader()
    reader.feed(b"data: " + b"x" * 40)
    reader.feed(b"x" * 40)
    with pytest.raises(EventTooLarge):
        reader.feed(b"x" * 40)


@pytest.mark.parametrize("ends", [b"", b"\n\n"])
@pytest.mark.parametrize("line", [b"\n:", b"data:\n", b"x\n"])
def test_an_event_of_millions_of_lines_is_refused(line: bytes, ends: bytes) -> None:
    """They are cheap to send, compressed, and each would cost its own look."""
    with pytest.raises(EventTooLarge):
        read([*[line * 5000] * 100, ends])


def test_an_event_in_many_pieces_costs_no_more_than_its_bytes() -> None:
    """Joined at each piece, these would be copied for minutes."""
    reader = SseReader()
    piece = b"x" * 100 + b"\n"
    for _ in range(100_000):
        assert reader.feed(piece) == []
    assert reader.feed(b"data: y\n\n") == [("", b"y")]


@pytest.mark.parametrize("lead", [b"data:", b"event: delta\ndata: "])
@pytest.mark.parametrize(
    "odd", [b"", b": hello\n\n", b"data: one\ndata: two\n\n", b"\n", b"id: 7\ndata: x\n\n", b"data:\n\n"]
)
def test_events_that_begin_alike_read_as_they_do_one_by_one(lead: bytes, odd: bytes) -> None:
    """Where nothing else is between them they are cut in one go, which must not show."""
    events = [lead + b'{"n":%d}\n\n' % number for number in range(3)]
    stream = b"".join((*events, odd, *events, odd))
    assert read([events[0], stream]) == read([bytes([byte]) for byte in events[0] + stream])
