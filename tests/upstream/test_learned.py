"""What backends refused is remembered for an hour, in bounded memory."""

import time

import pytest

from proxy.upstream.learned import RefusedFields


def test_for_an_hour_and_for_one_model_at_one_backend_with_one_account(monkeypatch: pytest.MonkeyPatch) -> None:
    known = RefusedFields()
    known.note("a", "mine", "m", "seed")
    known.note("a", "mine", "m", "top_p")
    assert known.fields("a", "mine", "m") == {"seed", "top_p"}
    for other in (("a", "mine", "n"), ("a", "yours", "m"), ("b", "mine", "m")):
        assert known.fields(*other) == frozenset()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3599)
    assert known.fields("a", "mine", "m") == {"seed", "top_p"}
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    assert known.fields("a", "mine", "m") == frozenset()


def test_the_oldest_are_forgotten() -> None:
    known = RefusedFields()
    for number in range(1001):
        known.note("a", "mine", str(number), "seed")
    assert (known.fields("a", "mine", "0"), known.fields("a", "mine", "1000")) == (frozenset(), {"seed"})
