"""One code fence around JSON goes, whatever the cut of the text; prose stays."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.parts import Call, Text
from proxy.translation.fences import Unfencing


def unfenced(pieces: list[str]) -> str:
    events: list[Event] = [Open(0, Text("")), *(Delta(0, piece) for piece in pieces), Close(0)]
    stage = Unfencing()
    return "".join(event.text for step in events for event in stage.pass_on([step]) if isinstance(event, Delta))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a":1}', '{"a":1}'),
        ('```json\n{"a":1}\n```', '{"a":1}'),
        ('\n```\r\n{"a":1}\r\n```\n', '{"a":1}'),
        ('```JSON\n{"a":"```"}\n```', '{"a":"```"}'),
        ('Here it is:\n```json\n{"a":1}\n```', 'Here it is:\n```json\n{"a":1}\n```'),
        ('```json\n{"a":1}\n```\nThat is all.', '{"a":1}\nThat is all.'),
        ('```json\n{"a":1}\n```  \n\n', '{"a":1}'),
        ('```json\n{"a":1}```\n```\nx\n```', '{"a":1}\n```\nx\n```'),
        ('```json\n{"a":1}\n``` so', '{"a":1}\n``` so'),
        ('```json\n{"a":"`"}\n``', '{"a":"`"}\n``'),
        ('```json\n{"a":', '{"a":'),
        ("``", "``"),
        ("```json", "```json"),
        ("  \n", "  \n"),
        ("", ""),
        ('```{"a":1}```', '```{"a":1}```'),
    ],
)
def test_one_fence_around_everything(text: str, kept: str) -> None:
    assert unfenced([text]) == unfenced(list(text)) == kept


@given(st.text(alphabet="`j\n {}", max_size=40), st.data())
def test_any_cut_gives_the_same(text: str, data: st.DataObject) -> None:
    places = [0, *sorted(data.draw(st.sets(st.integers(0, len(text))))), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(places) if start < stop]
    assert unfenced(pieces) == unfenced([text])


def test_a_fence_around_two_texts() -> None:
    texts = ("\n", '```json\n{"a":', "1}\n```", " \n", "So.")
    events: list[Event] = []
    for k, text in enumerate(texts):
        events += [Open(k, Text("")), *(Delta(k, piece) for piece in text), Close(k)]
    stage, kept = Unfencing(), [""] * len(texts)
    for event in stage.pass_on(events):
        if isinstance(event, Delta):
            kept[event.k] += event.text
    assert kept == ["\n", '{"a":', "1}", "", "So."]


def test_calls_are_left_alone() -> None:
    events: list[Event] = [Open(0, Call("c", "f")), Delta(0, "```\n{}\n```"), Close(0)]
    assert Unfencing().pass_on(events) == events
