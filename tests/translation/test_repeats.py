"""Events that differ in their text alone come to the same as when each of them is parsed whole."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.events import Delta, Event
from proxy.canonical.loss import LossReport
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.translation.codecs import BACKENDS, BackendProtocol
from proxy.translation.pair import Options, peek, prepare
from proxy.translation.repeats import Repeats

AROUND: dict[BackendProtocol, tuple[list[bytes], bytes, bytes]] = {
    "chat": (
        [b'{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Once"}}]}'],
        b'{"id":"c","choices":[{"index":0,"delta":{"content":',
        b'},"logprobs":null,"finish_reason":null}],"usage":null}',
    ),
    "messages": (
        [
            b'{"type":"message_start","message":{"id":"m"}}',
            b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        ],
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":',
        b"}}",
    ),
    "responses": (
        [
            b'{"type":"response.created","sequence_number":0,"response":{"id":"r"}}',
            b'{"type":"response.output_item.added","sequence_number":1,"output_index":0,'
            b'"item":{"type":"message","id":"m","role":"assistant","content":[]}}',
            b'{"type":"response.output_text.delta","item_id":"m","content_index":0,"delta":"Once","logprobs":[]}',
        ],
        b'{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":',
        b',"logprobs":[]}',
    ),
}
TEXTS = st.text(st.sampled_from('a"\\\n é😀,:{}'), max_size=6) | st.sampled_from(["text", "content", "delta", "index"])


def told(backend: BackendProtocol, payloads: Sequence[bytes], *, repeats: bool) -> tuple[list[Event], int]:
    """The events of a stream, and how many payloads were not parsed whole."""
    events: list[Event] = []
    reader = BACKENDS[backend].stream_reader(events.append, Spelling(), Dialect(), LossReport())
    known = Repeats(reader.text_key, reader.text_mark)
    short = 0
    for payload in payloads:
        if repeats and payload.startswith(known.head) and payload.endswith(known.tail):
            text = known.text_of(payload)
            if text and reader.grows(known.k):
                reader.grown([text])
                events.append(Delta(known.k, text))
                if known.numbered:
                    known.count()
                short += 1
                continue
        before = len(events)
        reader.feed(json.loads(payload), "")
        known.learn("", payload, events[before:])
    reader.end()
    return events, short


@pytest.mark.parametrize("backend", AROUND)
@given(st.lists(TEXTS, max_size=8), st.booleans())
def test_the_same_is_told(backend: BackendProtocol, texts: list[str], ascii_only: bool) -> None:
    start, head, tail = AROUND[backend]
    payloads = start + [head + json.dumps(text, ensure_ascii=ascii_only).encode() + tail for text in texts]
    assert told(backend, payloads, repeats=True)[0] == told(backend, payloads, repeats=False)[0]


@pytest.mark.parametrize("backend", AROUND)
def test_only_the_first_of_events_that_are_alike_is_parsed(backend: BackendProtocol) -> None:
    start, head, tail = AROUND[backend]
    payloads = start + [head + json.dumps(text).encode() + tail for text in ("a", "b", 'c"', "d")]
    events, short = told(backend, payloads, repeats=True)
    assert (short, [event.text for event in events if isinstance(event, Delta)][-4:]) == (3, ["a", "b", 'c"', "d"])


NUMBERED = {
    "before": b'{"type":"%b","sequence_number":%d,"item_id":"%b","content_index":0,"delta":%b,"logprobs":[]}',
    "behind": b'{"type":"%b","delta":%b,"item_id":"%b","content_index":0,"logprobs":[],"sequence_number":%d}',
}
KINDS = (b"response.output_text.delta", b"response.output_text.delta", b"response.function_call_arguments.delta")


def numbered(place: str, kind: bytes, number: int, item: bytes, text: str) -> bytes:
    dumped = json.dumps(text).encode()
    order = (kind, number, item, dumped) if place == "before" else (kind, dumped, item, number)
    return NUMBERED[place] % order


@pytest.mark.parametrize("place", NUMBERED)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.sampled_from([1, 1, 1, 0, 2, -1, 10]),
            st.sampled_from([b"m", b"m", b"n"]),
            TEXTS | st.just("sequence_number"),
        ),
        max_size=12,
    )
)
def test_the_same_is_told_of_numbered_events(place: str, events: list[tuple[bytes, int, bytes, str]]) -> None:
    payloads, number = AROUND["responses"][0][:], 8
    for kind, step, item, text in events:
        number += step
        payloads.append(numbered(place, kind, number, item, text))
    assert told("responses", payloads, repeats=True)[0] == told("responses", payloads, repeats=False)[0]


@pytest.mark.parametrize("place", NUMBERED)
def test_only_the_first_of_events_that_are_numbered_in_turn_is_parsed(place: str) -> None:
    payloads = AROUND["responses"][0] + [
        numbered(place, KINDS[0], number, b"m", text)
        for number, text in ((8, "a"), (9, "b"), (10, "c"), (12, "d"), (13, "e"))
    ]
    events, short = told("responses", payloads, repeats=True)
    assert (short, [event.text for event in events if isinstance(event, Delta)][1:]) == (3, [*"abcde"])


@pytest.mark.parametrize(
    "inner",
    [
        b'"a","text":"b"',
        b'"a","more":"b"',
        b'{"text":"a"}',
        b"null",
        b'""',
        b'"a',
        rb'"\ud83d"',
    ],
)
def test_what_is_more_than_another_text_is_parsed_whole(inner: bytes) -> None:
    known = Repeats(b'"text":')
    known.learn("", b'{"text":"x"}', [Delta(0, "x")])
    assert (known.head, known.tail) == (b'{"text":', b"}")
    assert not known.text_of(b'{"text":' + inner + b"}")


@pytest.mark.parametrize(
    ("payload", "events"),
    [
        (b'{"text":"x"}', []),
        (b'{"text":"x"}', [Delta(0, "x"), Delta(0, "x")]),
        (b'{"text":"x"}', [Delta(0, "x", [{}])]),
        (rb'{"text":"\u0078","of":"x"}', [Delta(0, "x")]),  # what looks like the text is not it
        (b'{"text":"x","of":"x"}', [Delta(0, "x")]),
    ],
)
def test_an_event_that_shows_no_pattern_is_none(payload: bytes, events: list[Event]) -> None:
    known = Repeats(b'"text":')
    known.learn("", payload, events)
    assert not payload.startswith(known.head)


def test_servers_that_never_repeat_an_event_are_not_watched_for_long() -> None:
    known = Repeats(b'"text":')
    for number in range(4):
        assert known.learns
        known.learn("", b'{"n":%d,"text":"x"}' % number, [Delta(0, "x")])
    assert not known.learns


def chunk(text: str, **more: object) -> bytes:
    wire = {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}
    return b"data: " + json.dumps(wire).encode() + b"\n\n"


def streamed(*chunks: bytes) -> bytes:
    asked = b'{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
    prepared = prepare(peek("messages", asked), Target("chat", "m"), Options())
    translation = prepared.translation()
    end = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    return b"".join([*map(translation.feed, chunks), translation.feed(end), translation.end()])


def test_an_event_like_an_older_one_is_not_like_the_last_one() -> None:
    counts = [1, 2, 3, 4, 9, 4]
    used = [{"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1} for count in counts]
    shown = streamed(chunk("a"), *(chunk("b", usage=usage) for usage in used))
    assert b'"output_tokens":4' in shown
    assert b'"output_tokens":9' not in shown


def test_the_text_is_not_looked_for_where_another_stands() -> None:
    alike = [
        b'data: {"x":{"content":"%c"},"choices":[{"index":0,"delta":{"content":"\\u0061"}}]}\n\n' % c for c in b"abc"
    ]
    shown = streamed(chunk("Once"), *alike)
    assert shown.count(b'"text":"a"') == 3
