"""An emoji that came in two halves is one character; a half that stays alone is none."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.parts import Text
from proxy.translation.halves import Halves, may_hold_half

CHARACTERS = st.sampled_from(["a", "é", "\ud83d", "\ude00", "😀", "\ufffd"])


def told(pieces: list[str]) -> list[str]:
    events: list[Event] = [Open(0, Text("")), *(Delta(0, piece) for piece in pieces), Close(0)]
    return [event.text for event in Halves().pass_on(events) if isinstance(event, Delta)]


def test_halves_are_joined_and_what_is_whole_goes_on_at_once() -> None:
    assert told(["Hi \ud83d", "\ude00!", "b"]) == ["Hi ", "😀!", "b"]
    assert told(["\ud83d"]) == ["\ufffd"]


@given(st.lists(st.text(CHARACTERS, max_size=3)))
def test_the_pieces_come_to_the_same_as_the_whole(pieces: list[str]) -> None:
    whole = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert "".join(told(pieces)) == whole


def test_only_streams_with_such_escapes_are_looked_through() -> None:
    assert may_hold_half(rb'{"content":"\ud83d"}')
    assert may_hold_half(rb'{"content":"\uD83D"}')
    assert not may_hold_half('{"content":"\\u00e9 😀"}'.encode())
