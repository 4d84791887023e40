"""Envelopes: equal content gives equal bytes; what is damaged, forged or somebody else's does not open (I15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.fields import Wire
from proxy.translation.envelope import OPEN, SEALED, Scope, is_envelope, open_envelope, origin_in, origin_of, seal

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
ORIGIN = "0123456789ab"
PLAIN = Scope(ORIGIN)
LOCKED = Scope(ORIGIN, (KEY,), "team-a")
CONTENT: Wire = {"m": "claude", "k": ["reasoning"], "v": [{"type": "thinking", "signature": "sig"}]}


@pytest.mark.parametrize(("scope", "prefix"), [(PLAIN, OPEN), (LOCKED, SEALED)])
def test_what_was_sealed_opens(scope: Scope, prefix: str) -> None:
    envelope = seal(CONTENT, scope)
    assert envelope.startswith(f"{prefix}{ORIGIN}.")
    assert (is_envelope(envelope), origin_in(envelope)) == (True, ORIGIN)
    assert open_envelope(envelope, scope) == CONTENT
    assert seal(CONTENT, scope) == envelope


def test_an_older_key_still_opens_and_the_first_one_seals() -> None:
    rotated = Scope(ORIGIN, (OTHER_KEY, KEY), "team-a")
    assert open_envelope(seal(CONTENT, LOCKED), rotated) == CONTENT
    assert open_envelope(seal(CONTENT, rotated), LOCKED) is None


@pytest.mark.parametrize(
    "stranger",
    [Scope(ORIGIN, (OTHER_KEY,), "team-a"), Scope(ORIGIN, (KEY,), "team-b"), Scope("ba9876543210", (KEY,), "team-a")],
)
def test_a_sealed_envelope_opens_for_nobody_else(stranger: Scope) -> None:
    assert open_envelope(seal(CONTENT, LOCKED), stranger) is None


def test_with_keys_an_envelope_that_anyone_can_write_is_refused() -> None:
    assert open_envelope(seal(CONTENT, Scope(ORIGIN)), LOCKED) is None
    assert open_envelope(seal(CONTENT, LOCKED), PLAIN) is None


@pytest.mark.parametrize("scope", [PLAIN, LOCKED])
@given(place=st.integers(0, 400), change=st.characters(codec="ascii"))
def test_damage_is_found(scope: Scope, place: int, change: str) -> None:
    envelope = seal(CONTENT, scope)
    place %= len(envelope)
    damaged = envelope[:place] + change + envelope[place + 1 :]
    if damaged != envelope and damaged.startswith(envelope[: len(OPEN) + len(ORIGIN)]):
        assert open_envelope(damaged, scope) in (None, CONTENT)
        if scope.keys or place < len(envelope) - 20:
            opened = open_envelope(damaged, scope)
            assert opened is None or _same_bits(envelope, damaged)


def _same_bits(one: str, other: str) -> bool:
    """The last character of base64 has bits that mean nothing, and Python reads both of its alphabets as one."""
    return one[:-1] == other[:-1].translate(str.maketrans("+/", "-_"))


@pytest.mark.parametrize("scope", [PLAIN, LOCKED])
@given(text=st.text(alphabet=st.characters(), max_size=60))
def test_no_text_makes_the_opening_fail(scope: Scope, text: str) -> None:
    for envelope in (text, OPEN + text, SEALED + text, f"{SEALED}{ORIGIN}.{text}", f"{OPEN}{ORIGIN}.{text}"):
        assert open_envelope(envelope, scope) is None
        assert isinstance(origin_in(envelope), str)


def test_an_envelope_that_inflates_without_end_does_not_open() -> None:
    bomb = seal({"k": ["plain"], "x": "0" * (9 * 1024 * 1024)}, PLAIN)
    assert len(bomb) < 100_000
    assert open_envelope(bomb, PLAIN) is None


def test_origins_tell_backends_and_accounts_apart() -> None:
    origins = {
        origin_of("messages", "anthropic", "api.anthropic.com", "key-1"),
        origin_of("messages", "anthropic", "api.anthropic.com", "key-2"),
        origin_of("messages", "vllm", "localhost", "key-1"),
        origin_of("chat", "vllm", "localhost", "key-1"),
    }
    assert len(origins) == 4
    assert all(len(origin) == 12 for origin in origins)


@pytest.mark.parametrize("version", ["drg2.", "drg9.", "drg10."])
@pytest.mark.parametrize("scope", [PLAIN, LOCKED])
def test_one_of_another_version_is_known_and_does_not_open(version: str, scope: Scope) -> None:
    envelope = version + seal(CONTENT, scope).partition(".")[2]
    assert (is_envelope(envelope), open_envelope(envelope, scope)) == (True, None)


@pytest.mark.parametrize("text", ["drg.", "drgx_1", "drg1", "drg1234.", "EqQBdrg1.", None, 1, ["drg1."]])
def test_what_is_none_of_ours(text: object) -> None:
    assert not is_envelope(text)
