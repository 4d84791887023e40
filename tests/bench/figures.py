"""What a run measured, sample by sample, and the medians and ratios that are told of it."""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import mean, median

from tests.bench.content import PHASES, Conversation, Phase
from tests.bench.targets import Target


@dataclass(frozen=True, slots=True)
class Sample:
    """One phase of one target in one round. `units` are requests, of streams their events.

    `backend_ns` and `load_ns` are the CPU time of what drives the target, 0 where it was not looked at.
    """

    units: int
    requests: int
    cpu_ns: int
    minor_faults: int
    rss_kb: int
    wall_s: float
    backend_ns: int = 0
    load_ns: int = 0

    @property
    def ms_per_1000(self) -> float:
        return self.cpu_ns / self.units / 1000

    @property
    def wall_ms_per_1000(self) -> float:
        return self.wall_s * 1e6 / self.units


@dataclass(frozen=True, slots=True)
class FirstBytes:
    """Waits for the first byte of a stream's body, one client, in milliseconds: without and with the proxy between."""

    direct_ms: list[float]
    proxied_ms: list[float]

    @property
    def added_ms(self) -> float:
        return median(self.proxied_ms) - median(self.direct_ms)


@dataclass(frozen=True, slots=True)
class Start:
    """A fresh process: how long until it was ready, and its memory then and with so many open streams.

    `warm_kb` is after a few streams that have ended, since what the first one makes stays.
    """

    pair: str
    ready_s: float
    rest_kb: int
    warm_kb: int
    streams: int
    open_kb: int

    @property
    def kb_a_stream(self) -> float:
        return (self.open_kb - self.warm_kb) / self.streams


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a client's protocol, sent to a target. `backend` is the protocol behind the target, for a
    floor also that of the pair whose bytes it gets. `talk`: what is said instead of the phase's own conversation.
    """

    target: Target
    client: str
    backend: str
    phases: tuple[Phase, ...] = PHASES
    talk: Conversation | None = None

    @property
    def is_floor(self) -> bool:
        return self.target.backend is None

    @property
    def is_proxy(self) -> bool:
        return not self.is_floor and not self.target.is_peer

    @property
    def label(self) -> str:
        pair = self.client if self.is_floor and self.talk is None else f"{self.client}>{self.backend}"
        return pair if self.is_proxy else f"{self.target.name} {pair}"


@dataclass(slots=True)
class Figures:
    """All samples, by row and phase, one a round. `loads`: the machine's load average at the start of each round and at
    the end.
    """

    rows: list[Row]
    samples: dict[tuple[str, Phase], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    first_bytes: dict[str, list[FirstBytes]] = field(default_factory=lambda: defaultdict(list))
    starts: list[Start] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def milliseconds(self, label: str, phase: Phase) -> float:
        return median(sample.ms_per_1000 for sample in self.samples[label, phase])

    def wall_milliseconds(self, label: str, phase: Phase) -> float:
        return median(sample.wall_ms_per_1000 for sample in self.samples[label, phase])

    def ratio(self, row: Row, phase: Phase, floor: str) -> float | None:
        """To the mean of the floors of the two protocols, since a pair reads one of them and writes the other; with
        carriers to the floor that got the same bytes. None where that was not measured.
        """
        over = (row.client, row.backend) if phase != "carriers" else (f"{row.client}>{row.backend}",)
        floors = [self.samples.get((f"{floor} {each}", phase), []) for each in over]
        own = self.samples.get((row.label, phase), [])
        if not own or not all(floors):
            return None
        below: list[float] = [
            mean(sample.ms_per_1000 for sample in one_round) for one_round in zip(*floors, strict=True)
        ]
        return median(each.ms_per_1000 / floor_ms for each, floor_ms in zip(own, below, strict=True))

    def factor(self, row: Row, peer: Row, phase: Phase) -> float:
        """By how much less CPU `row` takes than `peer`."""
        both = zip(self.samples[row.label, phase], self.samples[peer.label, phase], strict=True)
        return median(other.ms_per_1000 / own.ms_per_1000 for own, other in both)

    def spread(self, label: str, phase: Phase) -> float:
        """Between the least and the most of all rounds, as a share of the median."""
        costs = [sample.ms_per_1000 for sample in self.samples[label, phase]]
        return (max(costs) - min(costs)) / median(costs)

    def faults_per_1000_requests(self, label: str, phase: Phase) -> float:
        return median(1000 * sample.minor_faults / sample.requests for sample in self.samples[label, phase])

    def rss_mb(self, label: str) -> float:
        return max(sample.rss_kb for phase in PHASES for sample in self.samples.get((label, phase), ())) / 1024
