"""Rounds of phases over all targets, and the figures they give.

Neighbours on the machine move absolute CPU times by half and more, so each round times the floor and
every pair right after another, and a ratio is always taken within one round.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import mean, median

from tests.bench.content import DELTAS_IN_A_BURST, PHASES, Phase, Wire
from tests.bench.cost import cost_of
from tests.bench.load import Connection, open_connections, request_bytes, send, verify
from tests.bench.targets import Target, Targets
from tests.bench.wires import WIRES

CONNECTIONS = 16
SETTLE_S = 0.02  # for what a proxy does after the last byte of a reply: counters, access records


@dataclass(frozen=True, slots=True)
class Sample:
    """One phase of one target in one round. `units` are requests, in the burst phase stream events."""

    units: int
    requests: int
    cpu_ns: int
    minor_faults: int
    rss_kb: int
    wall_s: float

    @property
    def ms_per_1000(self) -> float:
        return self.cpu_ns / self.units / 1000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a client's protocol, sent to a target. `backend` is the protocol behind the target."""

    target: Target
    client: str
    backend: str
    phases: tuple[Phase, ...] = PHASES

    @property
    def label(self) -> str:
        return f"{self.client}>{self.backend}" if self.target.backend else f"{self.target.name} {self.client}"


@dataclass(slots=True)
class Figures:
    """All samples, by row and phase, one a round."""

    samples: dict[tuple[str, Phase], list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def milliseconds(self, label: str, phase: Phase) -> float:
        return median(sample.ms_per_1000 for sample in self.samples[label, phase])

    def ratio(self, row: Row, phase: Phase, floor: str) -> float:
        """To the mean of the floors of the two protocols: a pair reads one of them and writes the other."""
        own, client, backend = (
            self.samples[label, phase] for label in (row.label, f"{floor} {row.client}", f"{floor} {row.backend}")
        )
        return median(
            above.ms_per_1000 / mean((first.ms_per_1000, second.ms_per_1000))
            for above, first, second in zip(own, client, backend, strict=True)
        )

    def faults_per_1000_requests(self, label: str, phase: Phase) -> float:
        return median(1000 * sample.minor_faults / sample.requests for sample in self.samples[label, phase])

    def rss_mb(self, label: str) -> float:
        return max(sample.rss_kb for phase in PHASES for sample in self.samples.get((label, phase), ())) / 1024


def rows_of(targets: Targets, pairs: list[tuple[str, str]]) -> list[Row]:
    protocols = [name for name in WIRES if not pairs or any(name in pair for pair in pairs)]
    return [
        *(Row(targets.floor, name, name) for name in protocols),
        *(Row(targets.events_floor, name, name, ("burst",)) for name in protocols),
        *(Row(targets.proxies[backend], client, backend) for client, backend in pairs),
    ]


async def measure(rows: list[Row], rounds: int, requests: int) -> Figures:
    """Time every row in every phase, `rounds` times; the order of the rows turns round by round.

    Raises ReplyError when a reply is not what the backend's script means.
    """
    figures = Figures()
    for number in range(rounds):
        for phase in PHASES:
            for row in rows if number % 2 == 0 else reversed(rows):
                if phase in row.phases:
                    sample = await time_phase(row, phase, requests_in(phase, requests))
                    figures.samples[row.label, phase].append(sample)
    return figures


def requests_in(phase: Phase, requests: int) -> int:
    """Agent requests cost three small ones, streams six: fewer of them give the same precision."""
    share = {"small": 1, "agent": 2, "burst": 8}[phase]
    return max(requests // share, CONNECTIONS)


async def time_phase(row: Row, phase: Phase, count: int) -> Sample:
    wire = WIRES[row.client]
    request = request_bytes(wire, phase, row.target.port)
    connections = await open_connections(row.target.port, CONNECTIONS)
    try:
        return await time_requests(row.target, wire, phase, connections, request, count)
    finally:
        for connection in connections:
            connection.transport.abort()


async def time_requests(
    target: Target, wire: Wire, phase: Phase, connections: list[Connection], request: bytes, count: int
) -> Sample:
    verify(wire, phase, await send(connections, request, max(2 * CONNECTIONS, count // 10)))
    await asyncio.sleep(SETTLE_S)
    began, before = time.perf_counter(), cost_of(target.pid)
    replies = await send(connections, request, count)
    wall_s = time.perf_counter() - began
    await asyncio.sleep(SETTLE_S)
    after = cost_of(target.pid)
    verify(wire, phase, replies)
    return Sample(
        units=count * DELTAS_IN_A_BURST if phase == "burst" else count,
        requests=count,
        cpu_ns=after.cpu_ns - before.cpu_ns,
        minor_faults=after.minor_faults - before.minor_faults,
        rss_kb=after.rss_kb,
        wall_s=wall_s,
    )
