"""The figures as a plain text table, and as JSON for whoever compares runs."""

import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.content import DELTAS_IN_A_BURST, PHASES, Phase, conversation
from tests.bench.load import request_bytes
from tests.bench.measure import CONNECTIONS, Figures, Row, requests_in
from tests.bench.wires import WIRES

COLUMNS = f"{'':<22}{'small request':>17}{'agent request':>17}{'burst event':>27}{'minor faults':>21}{'RSS':>6}"
UNITS = (
    f"{'client>backend':<22}{'ms':>8}{'x floor':>9}{'ms':>8}{'x floor':>9}{'ms':>8}{'x floor':>9}{'x events':>10}"
    f"{'small':>7}{'agent':>7}{'burst':>7}{'MB':>6}"
)


def machine(rows: list[Row]) -> str:
    asyncio_proxies = [row.target.name for row in rows if not row.target.uses_uvloop]
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
    counts = f"{rounds} rounds of {counts} requests, {CONNECTIONS} at a time"
    return f"""\
ms: CPU milliseconds, user and system, of the target's process and its children for 1,000 requests of {small}
(small), 1,000 requests of {agent} ({turns} messages, {tools} tools with schemas; agent) or 1,000 stream events in a
burst, the start of each stream of {DELTAS_IN_A_BURST} included. Medians of {counts}
on kept-alive connections, where all targets take turns in each round. Every reply was read and was right.
x floor: against a bare aiohttp proxy that loads and dumps requests and replies by orjson and forwards streams
unsplit; x events: against one that also splits streams and loads and dumps each event. Both are ratios within a round,
to the mean of the floors of the pair's two protocols, as the median of the rounds.
Minor page faults for 1,000 requests. RSS: the highest after a phase; pairs with the same backend share a process."""


def table(rows: list[Row], figures: Figures) -> str:
    return "\n".join([COLUMNS, UNITS, *(line(row, figures) for row in rows)])


def line(row: Row, figures: Figures) -> str:
    cells = [f"{row.label:<22}"]
    for phase in PHASES:
        measured = phase in row.phases
        cells.append(cell(figures.milliseconds(row.label, phase) if measured else None, 8, 2))
        cells.append(cell(figures.ratio(row, phase, "floor") if measured else None, 9, 2))
    cells.append(cell(figures.ratio(row, "burst", "events-floor"), 10, 2))
    faults = [figures.faults_per_1000_requests(row.label, p) if p in row.phases else None for p in PHASES]
    cells += [cell(each, 7, 0) for each in faults]
    cells.append(cell(figures.rss_mb(row.label), 6, 0))
    return "".join(cells)


def cell(value: float | None, width: int, decimals: int) -> str:
    return " " * width if value is None else f"{value:{width}.{decimals}f}"


def as_json(rows: list[Row], figures: Figures) -> dict[str, Any]:
    return {
        "machine": machine(rows),
        "rows": [
            {
                "label": row.label,
                "target": row.target.name,
                "rss_mb": figures.rss_mb(row.label),
                "phases": {phase: phase_as_json(row, phase, figures) for phase in row.phases},
            }
            for row in rows
        ],
    }


def phase_as_json(row: Row, phase: Phase, figures: Figures) -> dict[str, Any]:
    return {
        "ms_per_1000": figures.milliseconds(row.label, phase),
        "ratio_to_floor": figures.ratio(row, phase, "floor"),
        **({"ratio_to_events_floor": figures.ratio(row, phase, "events-floor")} if phase == "burst" else {}),
        "minor_faults_per_1000_requests": figures.faults_per_1000_requests(row.label, phase),
        "rounds": [asdict(sample) for sample in figures.samples[row.label, phase]],
    }
