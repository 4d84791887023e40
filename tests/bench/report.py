"""The figures as plain text tables, and as JSON for whoever compares runs."""

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.content import DELTAS_IN_A_BURST, PHASES, Phase
from tests.bench.conversations import conversation
from tests.bench.figures import Figures, Row
from tests.bench.goals import Verdict, verdicts
from tests.bench.load import request_bytes
from tests.bench.measure import CONNECTIONS, PACED_STREAMS, requests_in
from tests.bench.wires import WIRES

WIDTH = 28  # of a row's label
HEADER = (
    f"{'client>backend':<{WIDTH}}{'CPU':>11}{'wall':>11}{'x plain':>9}{'x floor':>9}{'x events':>9}{'spread':>8}"
    f"{'faults':>8}{'RSS':>6}"
)


def machine(rows: list[Row]) -> str:
    asyncio_proxies = [row.target.name for row in rows if not (row.target.uses_uvloop or row.target.is_peer)]
    loop = f"uvloop {version('uvloop')}" + (
        f", but asyncio in {sorted(set(asyncio_proxies))}" if asyncio_proxies else ""
    )
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        f"aiohttp {version('aiohttp')}, orjson {version('orjson')}, {loop}"
    )


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def note(rounds: int, requests: int) -> str:
    sizes = {phase: [len(request_bytes(wire, phase, 0)) / 1000 for wire in WIRES.values()] for phase in PHASES}
    small, agent = (f"{min(sizes[phase]):.1f} to {max(sizes[phase]):.1f} KB" for phase in ("small", "agent"))
    turns, tools = len(conversation("agent").turns) + 1, len(conversation("agent").tools)
    counts = ", ".join(f"{requests_in(phase, requests):,} {phase}" for phase in PHASES)
    return f"""\
CPU: microseconds, user and system, of the target's process and its children for a request of {small} (small),
of {agent} ({turns} messages, {tools} tools; agent), of the same with ten sealed carriers in its history
(carriers), or for a stream event: in a burst of {DELTAS_IN_A_BURST}, or at 100 a second; a stream's start included.
wall: what the load took, all processes sharing the machine. Medians of {rounds} rounds in which all targets take turns:
{counts} requests,
{CONNECTIONS} at a time (paced {PACED_STREAMS}), on kept-alive connections. Every reply was read and was right.
x: against bare aiohttp proxies that look into nothing (plain), that load and dump requests and replies by orjson and
forward streams unsplit (floor), or that also split streams and load and dump each event (events). Ratios are taken
within a round, to the mean of the floors of the pair's two protocols; the median of the rounds is told. spread: between
the least and the most CPU of the rounds. faults: minor ones for 1,000 requests. RSS: the highest after a phase, MB."""


def table(figures: Figures) -> str:
    """A block a phase, a line a row."""
    return "\n\n".join("\n".join(block(figures, phase)) for phase in PHASES if any(rows_in(figures, phase)))


def rows_in(figures: Figures, phase: Phase) -> Iterator[Row]:
    return (row for row in figures.rows if phase in row.phases and figures.samples.get((row.label, phase)))


def block(figures: Figures, phase: Phase) -> Iterator[str]:
    yield f"{phase.upper():<{WIDTH}}{HEADER[WIDTH:]}"
    for row in rows_in(figures, phase):
        label = row.label
        cells = [
            (figures.milliseconds(label, phase), 11, 2),
            (None if phase == "paced" else figures.wall_milliseconds(label, phase), 11, 2),
            *((figures.ratio(row, phase, floor), 9, 2) for floor in ("plain", "floor", "events-floor")),
        ]
        yield (
            f"{label:<{WIDTH}}{''.join(cell(*each) for each in cells)}{figures.spread(label, phase):>8.0%}"
            f"{figures.faults_per_1000_requests(label, phase):>8.0f}{figures.rss_mb(label):>6.0f}"
        )


def cell(value: float | None, width: int, decimals: int) -> str:
    return " " * width if value is None else f"{value:{width},.{decimals}f}"


def verdict_table(found: list[Verdict]) -> str:
    """In Markdown, and in columns all the same."""
    lines = [("work", "CPU of the proxy", "wall clock", "measured", "target", "met")]
    lines += [
        (
            each.work,
            each.cpu,
            each.wall,
            each.measured,
            each.target,
            ("yes" if each.met else "**no**") if each.target else "",
        )
        for each in found
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = [" | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {padded[0]} |", f"|{rule}|", *(f"| {line} |" for line in padded[1:])])


def noise(figures: Figures) -> str:
    """How much the machine was disturbed: by itself and by others."""
    loads = f"load average {min(figures.loads):.1f} to {max(figures.loads):.1f} on {os.cpu_count()} cores"
    spreads = [
        figures.spread(row.label, phase)
        for row in figures.rows
        if row.is_floor
        for phase in row.phases
        if figures.samples.get((row.label, phase))
    ]
    if not spreads:
        return f"noise: {loads}"
    moved = f"by {median(spreads):.0%} of its median, at most by {max(spreads):.0%}"
    return f"noise: {loads}; between rounds a floor's own CPU moved {moved} ({len(spreads)} floors and phases)"


def drivers(figures: Figures) -> str:
    """What drives the proxy should cost less than it, or it would be what is measured."""
    samples = [
        sample
        for row in figures.rows
        if row.is_proxy
        for phase in row.phases
        for sample in figures.samples.get((row.label, phase), ())
    ]
    if not samples:
        return ""
    backend = [sample.backend_ns / sample.cpu_ns for sample in samples]
    load = [sample.load_ns / sample.cpu_ns for sample in samples]
    return (
        f"beside the proxy's CPU the backend took {min(backend):.0%} to {max(backend):.0%} of it, "
        f"the load generator {min(load):.0%} to {max(load):.0%}"
    )


def as_json(figures: Figures) -> dict[str, Any]:
    return {
        "machine": machine(figures.rows),
        "loads": figures.loads,
        "verdicts": [asdict(verdict) for verdict in verdicts(figures)],
        "rows": [
            {
                "label": row.label,
                "target": row.target.name,
                "phases": {
                    phase: phase_as_json(row, phase, figures)
                    for phase in row.phases
                    if figures.samples.get((row.label, phase))
                },
            }
            for row in figures.rows
        ],
        "first_bytes": {pair: [asdict(each) for each in rounds] for pair, rounds in figures.first_bytes.items()},
        "starts": [asdict(start) for start in figures.starts],
    }


def phase_as_json(row: Row, phase: Phase, figures: Figures) -> dict[str, Any]:
    ratios = {floor: figures.ratio(row, phase, floor) for floor in ("plain", "floor", "events-floor")}
    return {
        "cpu_us": figures.milliseconds(row.label, phase),
        "wall_us": figures.wall_milliseconds(row.label, phase),
        "ratios": {floor: ratio for floor, ratio in ratios.items() if ratio is not None},
        "minor_faults_per_1000_requests": figures.faults_per_1000_requests(row.label, phase),
        "rounds": [asdict(sample) for sample in figures.samples[row.label, phase]],
    }
