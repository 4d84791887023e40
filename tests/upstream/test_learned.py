"""What backends refused is remembered for an hour, in bounded memory."""

import time

import pytest

from proxy.upstream.learned import RefusedFields


def test_for_an_hour_and_for_one_model_at_one_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    known = RefusedFields()
    known.note("a", "m", "seed")
    known.note("a", "m", "top_p")
    assert known.fields("a", "m") == {"seed", "top_p"}
    assert (known.fields("a", "n"), known.fields("b", "m")) == (frozenset(), frozenset())
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3599)
    assert known.fields("a", "m") == {"seed", "top_p"}
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    assert known.fields("a", "m") == frozenset()


def test_the_oldest_are_forgotten() -> None:
    known = RefusedFields()
    for number in range(1001):
        known.note("a", str(number), "seed")
    assert (known.fields("a", "0"), known.fields("a", "1000")) == (frozenset(), {"seed"})
