"""How often a backend is asked once more, how long one waits, and which keys and targets are spared."""

import pytest

from proxy.settings import Retries, Upstream
from proxy.upstream.health import DEAD_FOR, FIRST_PAUSE, Health
from proxy.upstream.retry_budget import RetryBudget


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def health(clock: Clock, random: float = 0.0, **retries: float) -> Health:
    settings = Upstream("u", "chat", "http://u/v1", retries=Retries(**retries))  # type: ignore[arg-type]
    return Health(settings, clock, lambda: random)


def test_some_retries_a_second_are_free() -> None:
    budget = RetryBudget(Retries())
    assert [budget.take(5.0) for _ in range(4)] == [True, True, True, False]
    assert [budget.take(6.0) for _ in range(4)] == [True, True, True, False]


def test_more_are_a_fifth_of_the_requests_of_ten_seconds() -> None:
    budget = RetryBudget(Retries(free=0))
    assert not budget.take(0)
    for _ in range(50):
        budget.count(0.5)
    assert [budget.take(1) for _ in range(11)] == [True] * 10 + [False]
    assert not budget.take(9)
    assert not budget.take(11.5)  # the requests are forgotten
    for _ in range(10):
        budget.count(12)
    assert [budget.take(12) for _ in range(3)] == [True, True, False]


def test_an_outage_is_not_amplified() -> None:
    """100 requests a second for a minute, all of which fail and would be sent once more."""
    budget = RetryBudget(Retries())
    sent = 0
    for number in range(6000):
        now = number / 100
        budget.count(now)
        sent += budget.take(now)
    assert sent <= 0.2 * 6000 + 3 * 60 + 0.2 * 1000
    assert sent >= 0.2 * 6000


def test_none_may_be_wanted() -> None:
    budget = RetryBudget(Retries(share=0, free=0))
    for _ in range(100):
        budget.count(1)
    assert not budget.take(1)


@pytest.mark.parametrize(
    ("asked", "random", "waited"),
    [
        (None, 0.0, FIRST_PAUSE),
        (None, 0.5, 1.5 * FIRST_PAUSE),
        (1.0, 0.0, 1.0),
        (1.0, 1.0, 1.25),
        (0.0, 1.0, 0.25 * FIRST_PAUSE),
        (2.0, 0.0, 2.0),
        (2.1, 0.0, None),
    ],
)
def test_what_the_backend_asks_for_is_the_least(asked: float | None, random: float, waited: float | None) -> None:
    assert health(Clock(), random).pause(asked) == waited


def test_a_refused_key_is_dead_for_ten_minutes_or_until_the_configuration_is_read_again() -> None:
    one = health(clock := Clock())
    one.give_up(b"key")
    clock.now += DEAD_FOR - 1
    assert (one.spares(b"key", "m"), one.spares(b"other", "m")) == (True, False)
    clock.now += 2
    assert not one.spares(b"key", "m")
    one.give_up(b"key")
    one.revive()
    assert not one.spares(b"key", "m")


def test_a_target_cools_for_as_long_as_it_says_and_no_other_with_it() -> None:
    one = health(clock := Clock())
    one.cool(b"key", "m", 30.0)
    assert (one.spares(b"key", "m"), one.spares(b"key", "n"), one.spares(b"other", "m")) == (True, False, False)
    clock.now += 31
    assert not one.spares(b"key", "m")
    one.cool(b"key", "m", 1e9)  # a backend's word is bounded
    clock.now += 601
    assert not one.spares(b"key", "m")


def test_an_open_breaker_is_asked_nothing_twice() -> None:
    one = health(Clock())
    for _ in range(5):
        one.begin()
        one.failed()
    assert (one.admits, one.take_retry()) == (False, False)


def test_models_that_callers_make_up_do_not_pile_up() -> None:
    one = health(clock := Clock())
    for number in range(5000):
        one.cool(b"", f"m{number}", 10.0)
    assert one.spares(b"", "m4999")
    clock.now += 11
    assert not one.spares(b"", "m4999")
