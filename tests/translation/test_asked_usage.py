"""Chat within one protocol: usage is asked for in the client's place, and hidden where that has not asked
(mapping.md 13.4).
"""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.target import Dialect, Target
from proxy.canonical.usage import Usage
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from proxy.translation.spent import used
from tests.server.serving import EVENTS, REQUESTS

LINE_ENDS = ["\n", "\r\n", "\r"]
ASKED = b'"stream_options":{"include_usage":true}'
USAGE = EVENTS["chat"][-2]
SHOWN = "".join(event for event in EVENTS["chat"] if event != USAGE)
UNSEEN = [None, {}, {"include_usage": False}, {"include_usage": None}, {"include_obfuscation": False}]


def prepared(raw: bytes, *, count: bool = True, alias: bool = False, **flags: bool) -> Prepared:
    options = pair.Options("req_1", count_usage=count, response_model="alias" if alias else "upstream")
    return pair.prepare(pair.peek("chat", raw), Target("chat", "m", Dialect(**flags)), options)  # type: ignore[arg-type]


def request(options: object = None, *, stream: bool = True) -> bytes:
    more = {} if options is None else {"stream_options": options}
    return json.dumps({**REQUESTS["chat"], "stream": stream, **more}).encode()


def test_all_other_bytes_stay() -> None:
    raw = b'{ "model" : "m", "messages": [{"role":"user","content":"\\u0041 1.0"}],\n'
    raw += b'"seed":12345678901234567890123,"stream":true }'
    body = prepared(raw).body
    before, asked, after = body.partition(ASKED)
    assert asked
    assert (before + after).replace(b",", b"") == raw.replace(b",", b"")
    assert json.loads(body) == {**json.loads(raw), "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("options", "asking"),
    [
        (b"null", b'{"include_usage":true}'),
        (b'{ "include_usage" : false }', b'{ "include_usage" : true }'),
        (b'{ "include_usage": null, "x": 1.0 }', b'{ "include_usage": true, "x": 1.0 }'),
        (b'{ "include_obfuscation": false}', b'{"include_usage":true, "include_obfuscation": false}'),
    ],
)
def test_other_options_of_the_client_stay(options: bytes, asking: bytes) -> None:
    raw = b'{"model":"m","stream_options": %b ,"stream":true,"messages":[{"role":"user","content":"x"}]}'
    assert prepared(raw % options).body == raw % asking


@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": 7}, "all", [1]])
def test_who_asks_or_is_wrong_is_left_alone(options: object) -> None:
    raw = request(options)
    assert prepared(raw).body == raw


def test_nobody_is_asked_who_would_refuse_it() -> None:
    raw, whole = request(), request(stream=False)
    assert prepared(raw, no_stream_options=True).body == raw
    assert prepared(raw, count=False).body == raw
    assert prepared(whole).body == whole


@pytest.mark.parametrize("ends", LINE_ENDS)
@pytest.mark.parametrize("options", UNSEEN)
@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, 1200), max_size=12))
def test_the_chunk_is_hidden_from_who_has_not_asked(options: object, ends: str, cuts: list[int]) -> None:
    whole = (": hello\n\n" + "".join(EVENTS["chat"])).replace("\n", ends).encode()
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    asked = prepared(request(options))
    stream = asked.translation()
    out = b"".join([stream.feed(whole[start:stop]) for start, stop in pairwise(places)]) + stream.end()
    assert out == (": hello\n\n" + SHOWN).replace("\n", ends).encode()
    assert stream.over(out)
    assert used(asked, 50) == Usage(3, output=1)


@pytest.mark.parametrize("ends", LINE_ENDS)
def test_byte_by_byte(ends: str) -> None:
    whole = "".join(EVENTS["chat"]).replace("\n", ends).encode()
    stream = prepared(request()).translation()
    out = b"".join(stream.feed(whole[at : at + 1]) for at in range(len(whole))) + stream.end()
    assert out == SHOWN.replace("\n", ends).encode()


@pytest.mark.parametrize("kept", [len(USAGE) - 2, len(USAGE) - 1, len(USAGE)])
@pytest.mark.parametrize("ends", LINE_ENDS)
def test_a_chunk_that_comes_last_is_hidden_too(ends: str, kept: int) -> None:
    begun = "".join(EVENTS["chat"][:-2]).replace("\n", ends).encode()
    stream = prepared(request()).translation()
    out = stream.feed(begun) + stream.feed(USAGE[:kept].replace("\n", ends).encode()) + stream.end()
    assert out.removesuffix(b"data: [DONE]\n\n").rstrip() == begun.rstrip()  # there may be a blank line more
    assert stream.failed is None


def test_other_chunks_without_choices_are_shown() -> None:
    filters = 'data: {"id":"","choices":[],"prompt_filter_results":[],"usage":null}\n\n'
    stream = prepared(request()).translation()
    assert stream.feed((filters + "".join(EVENTS["chat"])).encode()) == (filters + SHOWN).encode()


def test_usage_in_the_last_chunk_of_words_is_shown() -> None:
    last = 'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7}}\n\n'
    stream = prepared(request()).translation()
    assert stream.feed(last.encode()) == last.encode()
    assert stream.usage == Usage(7)


@pytest.mark.parametrize("count", [True, False])
def test_who_has_asked_gets_it(count: bool) -> None:
    whole = "".join(EVENTS["chat"]).encode()
    stream = prepared(request({"include_usage": True}), count=count).translation()
    assert stream.feed(whole) + stream.end() == whole
    assert stream.usage == Usage(3, output=1)


def test_what_comes_unasked_is_shown_where_nobody_counts() -> None:
    whole = "".join(EVENTS["chat"]).encode()
    stream = prepared(request(), count=False).translation()
    assert stream.feed(whole) + stream.end() == whole


def test_it_is_hidden_under_the_clients_own_name_of_the_model() -> None:
    stream = prepared(request(), alias=True).translation()
    out = stream.feed("".join(EVENTS["chat"]).encode()) + stream.end()
    assert (out.count(b'"model":"m"'), b"usage" in out, out.endswith(b"data: [DONE]\n\n")) == (4, False, True)


def test_two_in_one_read_are_hidden_both() -> None:
    stream = prepared(request()).translation()
    assert stream.feed("".join([*EVENTS["chat"][:-1], USAGE, EVENTS["chat"][-1]]).encode()) == SHOWN.encode()
