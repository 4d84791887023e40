"""What is asked only when somebody scrapes: how many requests are open, and whether the process ends."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.telemetry.series import NONE
from proxy.telemetry.traffic import CLIENTS


class Open(NamedTuple):
    """A request that has not ended. `streams`: its reply has begun, and is a stream."""

    client: str
    backend: str | None
    streams: bool


class Standing(NamedTuple):
    """How things are. `reserved`: tokens of leases that are open. By upstream: `keys`, when the file of its key was
    written, Unix seconds; `circuits`, 0 closed, 1 half-open, 2 open."""

    requests: Iterable[Open]
    draining: bool
    reserved: int
    keys: Mapping[str, float]
    circuits: Mapping[str, int]


class Now(Collector):
    """`look` is called in the thread that scrapes."""

    def __init__(self, look: Callable[[], Standing]) -> None:
        self._look = look

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: it must not be asked before there is anything to see."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As Prometheus's client wants it."""
        now = self._look()
        requests = tuple(now.requests)
        in_flight = Counter(dict.fromkeys(CLIENTS, 0))
        in_flight.update(each.client for each in requests)
        streams = Counter((each.client, each.backend or NONE) for each in requests if each.streams)
        family = GaugeMetricFamily("dragoman_in_flight_requests", "Requests that are open now.", labels=["client"])
        for client, count in in_flight.items():
            family.add_metric([client], count)
        yield family
        family = GaugeMetricFamily(
            "dragoman_streams_active", "Streams that are open now.", labels=["client", "backend"]
        )
        for pair, count in streams.items():
            family.add_metric(pair, count)
        yield family
        family = GaugeMetricFamily(
            "dragoman_circuit_state",
            "Whether a backend that fails is left alone: 0 no (closed), 1 it is tried again (half-open), 2 yes (open).",
            labels=["upstream"],
        )
        for upstream, state in now.circuits.items():
            family.add_metric([upstream], state)
        yield family
        yield GaugeMetricFamily("dragoman_draining", "1 while the process ends.", value=float(now.draining))
        family = GaugeMetricFamily(
            "dragoman_secret_age_seconds", "Since the file of an upstream's key was written.", labels=["upstream"]
        )
        for upstream, written in now.keys.items():
            family.add_metric([upstream], max(0.0, time.time() - written))
        yield family
        yield GaugeMetricFamily("dragoman_reserved_tokens", "Tokens of open leases.", value=float(now.reserved))
