"""The benchmark of what keeping a response costs: it starts its proxies, and they answer as they are asked."""

import sys

import pytest
import uvloop

from tests.bench.state import NOT_KEPT, measure, report, targets


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_each_way_to_answer_has_figures() -> None:
    with targets("chat") as proxies:
        figures = uvloop.run(measure(proxies, rounds=1, count=16))
    assert list(figures) == [NOT_KEPT, "sqlite", "memory"]
    assert all(each.samples[0].cpu_ns > 0 and each.first_byte[0] > 0 for each in figures.values())
    assert len(report(figures, "responses>chat").splitlines()) == 4
