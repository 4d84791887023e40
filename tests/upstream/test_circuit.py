"""When a backend that fails is left alone, and when it is tried again. Time is given, chance is fixed."""

import pytest

from proxy.settings import Breaker
from proxy.upstream.circuit import Circuit, State


def circuit(jitter: float = 0.0, **settings: float) -> Circuit:
    return Circuit(Breaker(**settings), lambda: jitter)  # type: ignore[arg-type]


def fail(one: Circuit, now: float, times: int = 1) -> None:
    for _ in range(times):
        one.begin(now)
        one.failed(now)


def answer(one: Circuit, now: float, times: int = 1) -> None:
    for _ in range(times):
        one.begin(now)
        one.succeeded(now)


def test_five_failures_in_a_row_open_it() -> None:
    one = circuit()
    fail(one, 0, 4)
    answer(one, 0)
    fail(one, 1, 4)
    assert one.state(1) is State.CLOSED
    fail(one, 1)
    assert (one.state(1), one.admits(1)) == (State.OPEN, False)


def test_more_than_half_of_twenty_within_the_window_open_it() -> None:
    one = circuit()
    for second in range(10):
        answer(one, second)
        fail(one, second)
    assert one.state(9) is State.CLOSED  # half of twenty
    answer(one, 9)
    fail(one, 10, 2)
    assert one.state(10) is State.OPEN


def test_few_requests_and_old_ones_open_nothing() -> None:
    few = circuit(failures=100)
    fail(few, 0, 19)
    assert few.state(0) is State.CLOSED
    fail(few, 33.5)  # those from before are out of the window
    assert few.state(33.5) is State.CLOSED
    fail(few, 33.5, 19)
    assert few.state(33.5) is State.OPEN


def test_after_the_pause_one_request_is_let_through_and_closes_it() -> None:
    one = circuit()
    fail(one, 100, 5)
    assert not one.admits(109.9)
    assert (one.state(110), one.admits(110)) == (State.HALF_OPEN, True)
    one.begin(110)
    assert not one.admits(110)
    one.succeeded(111)
    assert (one.state(111), one.opened) == (State.CLOSED, None)
    fail(one, 112, 4)
    assert one.admits(112)


def test_each_pause_is_twice_as_long_up_to_the_longest() -> None:
    one, now, pauses = circuit(), 0.0, []
    fail(one, now, 5)
    for _ in range(6):
        began = now
        while not one.admits(now):
            now += 1
        pauses.append(now - began)
        fail(one, now)
    assert pauses == [10, 20, 40, 80, 120, 120]


@pytest.mark.parametrize(("jitter", "pause"), [(0.0, 10.0), (0.5, 11.25)])
def test_jitter_comes_on_top(jitter: float, pause: float) -> None:
    one = circuit(jitter)
    fail(one, 0, 5)
    assert (one.admits(pause - 0.01), one.admits(pause)) == (False, True)


def test_a_trial_that_says_nothing_leaves_room_for_another() -> None:
    one = circuit()
    fail(one, 0, 5)
    one.begin(10)
    one.abandoned()
    assert one.admits(10)


def test_who_is_asked_for_want_of_another_neither_prolongs_nor_hinders() -> None:
    one = circuit()
    fail(one, 0, 5)
    fail(one, 5)
    assert one.admits(10)
    answer(one, 5)
    assert one.state(5) is State.CLOSED


def test_a_closed_one_has_forgotten_its_pauses() -> None:
    one = circuit()
    fail(one, 0, 5)
    fail(one, 10)
    answer(one, 40)
    fail(one, 50, 5)
    assert (one.admits(59), one.admits(60)) == (False, True)
