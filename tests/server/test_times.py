"""What the reads of a stream, and the waits of an exchange, come to."""

import pytest

from proxy.server.times import Times


def test_the_longest_gap_and_the_mean_one() -> None:
    times = Times()
    for now in (10.0, 14.0, 16.0):
        times.heard(now)
    times.events = 4
    assert (times.stall, times.gap) == (4.0, 2.0)


def test_one_event_has_no_gap() -> None:
    times = Times()
    times.heard(10.0)
    times.events = 1
    assert (times.stall, times.gap) == (0.0, None)


@pytest.mark.parametrize(("upstream", "client", "left"), [(1.0, 2.0, 4.0), (0.0, 0.0, 7.0), (5.0, 3.0, 0.0)])
def test_overhead_is_what_is_not_waited_for_others(upstream: float, client: float, left: float) -> None:
    times = Times()
    times.upstream, times.client = upstream, client
    assert times.overhead(7.0) == left
