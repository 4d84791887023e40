"""Arguments of calls on their way: what is no object is told at the end, when it is known what it was."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.arguments import GrowingArguments, decoded

OBJECT = '{"city":"Oslo \\"é\\""}'


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (OBJECT, OBJECT),
        (f" \n{OBJECT} ", f" \n{OBJECT} "),
        ("", ""),
        (" \n", ""),
        ("null", ""),
        (" null\n", ""),
        (r'"{\"city\":\"Oslo\"}"', '{"city":"Oslo"}'),
        ('"Oslo"', '"Oslo"'),
        ('"Oslo', '"Oslo'),
        ("[1]", "[1]"),
        ("nullable", "nullable"),
        ("```json\n{}\n```", "```json\n{}\n```"),
        ('{"cit', '{"cit'),
    ],
)
@given(cuts=st.sets(st.integers(0, 40)))
def test_pieces_come_to_the_same_as_the_whole(written: str, meant: str, cuts: set[int]) -> None:
    growing = GrowingArguments()
    places = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    pieces = [written[start:stop] for start, stop in pairwise(places)]
    assert "".join([*map(growing.feed, pieces), growing.end()]) == meant == decoded(written)


def test_an_object_is_told_as_it_comes() -> None:
    growing = GrowingArguments()
    assert [growing.feed(piece) for piece in (" ", ' {"a"', ":1}", " ")] == ["", '  {"a"', ":1}", " "]
