"""What the proxy has to keep to, and whether it did: the table of the README."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tests.bench.content import PHASES, Phase
from tests.bench.figures import Figures, Row


@dataclass(frozen=True, slots=True)
class Goal:
    """At most `limit` times the CPU time of `floor`, in each pair of two protocols, or of the same on both sides."""

    work: str
    phase: Phase
    floor: Literal["floor", "events-floor", "plain"]
    limit: float
    sides: Literal["cross", "same"] = "cross"


GOALS = (
    Goal("small request, 1 KB", "small", "floor", 1.6),
    Goal("agent request, 66 KB: 20 tools, 30 messages", "agent", "floor", 2.0),
    Goal("the same with ten sealed carriers", "carriers", "floor", 2.5),
    Goal("stream event in a burst: text", "burst", "events-floor", 1.6),
    Goal("stream event in a burst: thinking", "thinking", "events-floor", 1.6),
    Goal("stream event in a burst: tool arguments", "arguments", "events-floor", 1.6),
    Goal("stream event each 10 ms, 20 streams", "paced", "events-floor", 1.3),
    Goal("same protocol: small request", "small", "plain", 1.3, "same"),
    Goal("same protocol: agent request", "agent", "plain", 1.3, "same"),
    Goal("same protocol: stream event in a burst", "burst", "plain", 1.3, "same"),
)
PEER_LEAST = 50  # times the proxy's CPU time, for a small request
FIRST_BYTE_MS = 0.5
REST_MB = 75
KB_A_STREAM = 40
READY_S = 0.8


@dataclass(frozen=True, slots=True)
class Verdict:
    """A line of the table. `measured` tells the range over the pairs where there are several; `worst` decides."""

    work: str
    cpu: str
    wall: str
    measured: str
    target: str
    worst: float
    met: bool


def verdicts(figures: Figures) -> list[Verdict]:
    """Of all that was measured."""
    return [
        *(verdict for goal in GOALS for verdict in of_goal(figures, goal)),
        *of_peers(figures),
        *of_first_bytes(figures),
        *of_starts(figures),
    ]


def of_goal(figures: Figures, goal: Goal) -> Iterator[Verdict]:
    ratios = {
        row.label: ratio
        for row in proxy_rows(figures, goal)
        if (ratio := figures.ratio(row, goal.phase, goal.floor)) is not None
    }
    if ratios:
        worst = max(ratios, key=ratios.__getitem__)
        cpu = [figures.milliseconds(label, goal.phase) for label in ratios]
        wall = [figures.wall_milliseconds(label, goal.phase) for label in ratios]
        yield Verdict(
            work=goal.work,
            cpu=f"{between(cpu)} µs",
            wall="" if goal.phase == "paced" else f"{between(wall)} µs",
            measured=f"{between(ratios.values())} x {goal.floor} ({worst})",
            target=f"≤ {goal.limit} x",
            worst=ratios[worst],
            met=ratios[worst] <= goal.limit,
        )


def proxy_rows(figures: Figures, goal: Goal) -> Iterator[Row]:
    for row in figures.rows:
        if row.is_proxy and (row.client == row.backend) == (goal.sides == "same"):
            yield row


def of_peers(figures: Figures) -> Iterator[Verdict]:
    """Only small requests have a target."""
    own = {(row.client, row.backend): row for row in figures.rows if row.is_proxy and row.talk is None}
    peers = [row for row in figures.rows if row.target.is_peer and row.client != row.backend]
    for phase in PHASES:
        timed = [peer for peer in peers if (peer.label, phase) in figures.samples]
        if timed:
            factors = {peer.label: figures.factor(own[peer.client, peer.backend], peer, phase) for peer in timed}
            worst = min(factors, key=factors.__getitem__)
            judged = phase == "small"
            yield Verdict(
                work=f"{timed[0].target.name}: {phase}",
                cpu=f"{between([figures.milliseconds(label, phase) for label in factors])} µs",
                wall=f"{between([figures.wall_milliseconds(label, phase) for label in factors])} µs",
                measured=f"{between(factors.values())} x the proxy ({worst})",
                target=f"≥ {PEER_LEAST} x" if judged else "",
                worst=factors[worst],
                met=factors[worst] >= PEER_LEAST or not judged,
            )


def of_first_bytes(figures: Figures) -> Iterator[Verdict]:
    added = {pair: median(each.added_ms for each in rounds) for pair, rounds in figures.first_bytes.items()}
    if added:
        worst = max(added, key=added.__getitem__)
        proxied = [median(median(each.proxied_ms) for each in rounds) for rounds in figures.first_bytes.values()]
        yield Verdict(
            work="time to first byte, one client",
            cpu="",
            wall=f"{between(proxied)} ms",
            measured=f"+ {between(added.values())} ms ({worst})",
            target=f"≤ {FIRST_BYTE_MS} ms",
            worst=added[worst],
            met=added[worst] <= FIRST_BYTE_MS,
        )


def of_starts(figures: Figures) -> Iterator[Verdict]:
    starts = figures.starts
    if starts:
        rest, ready = [start.rest_kb / 1024 for start in starts], [start.ready_s for start in starts]
        yield level("memory of a worker at rest", rest, "MB", REST_MB)
        pairs = {start.pair for start in starts}
        taken = {pair: median(start.kb_a_stream for start in starts if start.pair == pair) for pair in pairs}
        worst = max(taken, key=taken.__getitem__)
        yield Verdict(
            work=f"memory of an open stream, of {starts[0].streams:,}",
            cpu="",
            wall="",
            measured=f"{between(taken.values())} KB ({worst})",
            target=f"≤ {KB_A_STREAM} KB",
            worst=taken[worst],
            met=taken[worst] <= KB_A_STREAM,
        )
        yield level("start to ready", ready, "s", READY_S)


def level(work: str, values: list[float], unit: str, limit: float) -> Verdict:
    """Of what does not depend on the pair: the median decides."""
    middle = median(values)
    measured = f"{figure(middle)} {unit} ({between(values)})"
    return Verdict(work, "", "", measured, f"≤ {limit} {unit}", middle, middle <= limit)


def between(values: Collection[float]) -> str:
    """The least and the most, once where they look alike."""
    least, most = figure(min(values)), figure(max(values))
    return least if least == most else f"{least} to {most}"


def figure(value: float) -> str:
    """In three digits, or all before the point."""
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"
