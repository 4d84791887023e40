"""Series of one metric as plain sums: what a request adds costs a look-up and an addition, and becomes samples when
somebody scrapes.

prometheus_client's own classes take a lock for each bucket, which is a tenth of a small request for a dozen histograms.
A scrape reads in another thread while requests count: each number is whole, and a histogram's sum may be one
observation ahead of its buckets.
"""

import time
from bisect import bisect_left
from collections.abc import Container, Sequence
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar

Labels = tuple[str, ...]

# Values that stand for none of the configuration's names.
OTHER, NONE = "other", "none"


class Sum:
    """One series of a counter or gauge. Add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Sums:
    """A counter, or a gauge that is set."""

    __slots__ = ("_about", "_kind", "_labels", "_name", "_series")

    def __init__(
        self, name: str, about: str, labels: Labels = (), *, kind: Literal["counter", "gauge"] = "counter"
    ) -> None:
        self._name = name
        self._about = about
        self._labels = labels
        self._kind = kind
        self._series: dict[Labels, Sum] = {}

    def of(self, *labels: str) -> Sum:
        """The series with these labels, from now on one of those that are shown."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = Sum()
        return found

    def add(self, *labels: str, value: float = 1) -> None:
        """Count; 0 makes the series be there."""
        self.of(*labels).value += value

    def put(self, *labels: str, value: float) -> None:
        """Set a gauge."""
        self.of(*labels).value = value

    def keep(self, label: str, names: Container[str]) -> None:
        """Show no longer the series whose `label` is none of these."""
        place = self._labels.index(label)
        for labels in [known for known in self._series if known[place] not in names]:
            del self._series[labels]

    def collect(self) -> Metric:
        """As Prometheus's client wants it."""
        kind = CounterMetricFamily if self._kind == "counter" else GaugeMetricFamily
        family = kind(self._name, self._about, labels=self._labels)
        for labels, series in tuple(self._series.items()):
            family.add_metric(labels, series.value)
        return family


class Distribution:
    """One series of a histogram."""

    __slots__ = ("_bounds", "_counts", "_examples", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._examples: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """One more value. `trace_id`: of a trace that is kept and shows it."""
        place = bisect_left(self._bounds, value)
        self._counts[place] += 1
        self._total += value
        if trace_id is not None:
            self._examples[place] = Exemplar({"trace_id": trace_id}, value, time.time())

    def add_to(self, family: HistogramMetricFamily, labels: Labels) -> None:
        """As Prometheus's client wants it."""
        counts, total, examples = tuple(self._counts), self._total, dict(self._examples)
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        so_far = 0
        for place, count in enumerate(counts):
            so_far += count
            bound = str(float(self._bounds[place])) if place < len(self._bounds) else "+Inf"
            example = examples.get(place)
            buckets.append((bound, so_far) if example is None else (bound, so_far, example))
        family.add_metric(labels, buckets, total)


class Histogram:
    """Series by labels. What a request adds to is looked up once: see `of`."""

    __slots__ = ("_about", "_bounds", "_labels", "_name", "_series")

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        self._name = name
        self._about = about
        self._bounds = bounds
        self._labels = labels
        self._series: dict[Labels, Distribution] = {}

    def of(self, *labels: str) -> Distribution:
        """The series with these labels."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = Distribution(self._bounds)
        return found

    def keep(self, label: str, names: Container[str]) -> None:
        """Show no longer the series whose `label` is none of these."""
        place = self._labels.index(label)
        for labels in [known for known in self._series if known[place] not in names]:
            del self._series[labels]

    def collect(self) -> Metric:
        """As Prometheus's client wants it."""
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        for labels, series in tuple(self._series.items()):
            series.add_to(family, labels)
        return family
