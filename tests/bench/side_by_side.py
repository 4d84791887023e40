"""The same proxy in several ways before the same backend, timed in turns: what does the one cost beside the other?"""

from collections.abc import Callable, Mapping
from statistics import median

from tests.bench.content import Phase
from tests.bench.figures import Sample
from tests.bench.load import open_connections, request_bytes
from tests.bench.measure import CONNECTIONS, requests_in, time_requests
from tests.bench.targets import Target
from tests.bench.wires import WIRES

Samples = dict[str, list[Sample]]


def _as_it_is(request: bytes) -> bytes:
    return request


async def measure(
    client: str,
    ways: Mapping[str, Target],
    rounds: int,
    count: int,
    *,
    phase: Phase = "small",
    edit: Callable[[bytes], bytes] = _as_it_is,
) -> Samples:
    """By way, a sample a round. `count`: small requests in a round, fewer of a larger phase; `edit` changes each."""
    wire = WIRES[client]
    samples: Samples = {way: [] for way in ways}
    for number in range(rounds):
        order = list(ways.items())
        for way, target in order if number % 2 == 0 else reversed(order):
            request = edit(request_bytes(wire, phase, target.port))
            connections = await open_connections(target.port, CONNECTIONS)
            try:
                sample = await time_requests(target, wire, phase, connections, request, requests_in(phase, count))
                samples[way].append(sample)
            finally:
                for connection in connections:
                    connection.transport.abort()
    return samples


def report(samples: Samples, title: str) -> str:
    """A line a way, against the first one."""
    base = next(iter(samples.values()))
    lines = [f"{title}: CPU ms for 1,000, and against the first within each round (medians)"]
    for way, own in samples.items():
        ratio = median(sample.cpu_ns / other.cpu_ns for sample, other in zip(own, base, strict=True))
        lines.append(f"{way:>24} {median(each.ms_per_1000 for each in own):8.1f} ms {ratio:6.3f} x")
    return "\n".join(lines)
