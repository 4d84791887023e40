"""A whole reply as events: how its texts are cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.fold import PIECE, pieces


@pytest.mark.parametrize("character", ["a", "é", "€", "😀", "\ud83d"])
@given(lead=st.integers(0, 5), size=st.sampled_from([0, 1, 4000, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE]))
@settings(deadline=None, max_examples=40)
def test_pieces_are_bounded_in_bytes_and_cut_between_characters(character: str, lead: int, size: int) -> None:
    text = "x" * lead + character * size
    found = list(pieces(text))
    assert "".join(found) == text
    lengths = [len(piece.encode(errors="surrogatepass")) for piece in found]
    assert all(0 < length <= PIECE for length in lengths)
    assert all(length > PIECE - 4 for length in lengths[:-1])
