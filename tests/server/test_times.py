"""What the reads of a stream, and the waits of an exchange, come to."""

import pytest

from proxy.server.times import Times


def test_the_longest_gap_and_the_mean_one() -> None:
    times = Times()
    reads = [(b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", 10.0), (b"data: 3\n\n", 14.0), (b"data: 4\n\n", 16.0)]
    for chunk, now in reads:
        times.heard(chunk, now)
    assert (times.events, times.stall, times.gap) == (4, 4.0, 2.0)


def test_one_event_has_no_gap() -> None:
    times = Times()
    times.heard(b"data: 1\n\n", 10.0)
    assert (times.events, times.stall, times.gap) == (1, 0.0, None)


@pytest.mark.parametrize(("upstream", "client", "left"), [(1.0, 2.0, 4.0), (0.0, 0.0, 7.0), (5.0, 3.0, 0.0)])
def test_overhead_is_what_is_not_waited_for_others(upstream: float, client: float, left: float) -> None:
    times = Times()
    times.upstream, times.client = upstream, client
    assert times.overhead(7.0) == left
