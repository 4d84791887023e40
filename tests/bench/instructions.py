"""Instructions of the proxy's process a request, beside those of the floor: `python -m tests.bench.instructions`.

Clocks follow the neighbours' load, counts do not: two runs differ by a percent. What the kernel does is not counted, so
these ratios lie above those of CPU times, where it is the same on both sides. Needs valgrind.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.bench.__main__ import ALL_PAIRS, pairs_of
from tests.bench.content import Phase
from tests.bench.figures import Row
from tests.bench.goals import GOALS
from tests.bench.load import ReplyError, open_connections, request_bytes, send, verify
from tests.bench.measure import CONNECTIONS, rows_of, units_in
from tests.bench.targets import StartError, started
from tests.bench.wires import WIRES

REQUESTS: dict[Phase, int] = {"small": 320, "agent": 96, "burst": 16, "thinking": 16, "arguments": 16}
WARM_UP = 2  # of each connection's requests: caches fill, code is specialised
TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class Callgrind:
    """Counts instructions of processes that run under it. `folder`: for its dumps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        out = folder / "callgrind.%p"
        self.command = ("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}")

    def begin(self, pid: int) -> None:
        self._tell(pid, "instrumentation on")

    def end(self, pid: int) -> int:
        """The instructions since `begin`."""
        self._tell(pid, "instrumentation off")
        known = set(self.folder.glob(f"callgrind.{pid}.*"))
        self._tell(pid, "dump")
        (dump,) = set(self.folder.glob(f"callgrind.{pid}.*")) - known
        totals = TOTALS.search(dump.read_text())
        if totals is None:
            raise StartError(f"{dump} has no totals")
        return int(totals[1])

    def _tell(self, pid: int, command: str) -> None:
        subprocess.run(["vgdb", f"--pid={pid}", *command.split()], check=True, capture_output=True, timeout=60)


async def instructions_of(row: Row, phase: Phase, callgrind: Callgrind) -> float:
    """Of one request, or of one stream event. Raises ReplyError when a reply is not what the script means."""
    wire, count, pid = WIRES[row.client], REQUESTS[phase], row.target.pid
    request = request_bytes(wire, phase, row.target.port)
    connections = await open_connections(row.target.port, CONNECTIONS)
    try:
        verify(wire, phase, await send(connections, request, WARM_UP * CONNECTIONS))
        callgrind.begin(pid)
        verify(wire, phase, await send(connections, request, count))
        return callgrind.end(pid) / (count * units_in(phase))
    finally:
        for connection in connections:
            connection.transport.abort()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions", description=__doc__)
    parser.add_argument("--pairs", type=pairs_of, default=ALL_PAIRS, help='"chat>messages,…"')
    parser.add_argument("--phases", type=lambda text: text.split(","), default=list(REQUESTS), help=",".join(REQUESTS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave callgrind's dumps there")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("no figures: valgrind is not installed", file=sys.stderr)
        return 1
    backends = [name for name in WIRES if any(name == backend for _, backend in options.pairs)]
    with tempfile.TemporaryDirectory(prefix="callgrind-") as scratch:
        callgrind = Callgrind(options.keep or Path(scratch))
        try:
            with started(backends, under=callgrind.command) as targets:
                phases = [phase for phase in REQUESTS if phase in options.phases]
                report(rows_of(targets, options.pairs), phases, callgrind)
        except (StartError, ReplyError) as broken:
            print(f"no figures: {broken}", file=sys.stderr)
            return 1
    return 0


def report(rows: list[Row], phases: list[Phase], callgrind: Callgrind) -> None:
    """A line a row as it is counted: thousands of instructions, and the ratio to the floors of its two protocols."""
    print(f"{'thousands':<24}" + "".join(f"{phase:>10}{'x floor':>9}" for phase in phases))
    floors: dict[tuple[str, str, Phase], float] = {}
    for row in rows:
        line = f"{row.label:<24}"
        for phase in phases:
            if phase not in row.phases:
                line += " " * 19
                continue
            counted = uvloop.run(instructions_of(row, phase, callgrind))
            if row.is_floor:
                floors[row.target.name, row.client, phase] = counted
                line += f"{counted / 1000:10.2f}{'':9}"
            else:
                name = floor_of(row, phase)
                floor = (floors[name, row.client, phase] + floors[name, row.backend, phase]) / 2
                line += f"{counted / 1000:10.2f}{counted / floor:9.2f}"
        print(line, flush=True)


def floor_of(row: Row, phase: Phase) -> str:
    """The one that a row of the proxy is held to, as in the table of targets."""
    sides = "same" if row.client == row.backend else "cross"
    return next(goal.floor for goal in GOALS if goal.phase == phase and goal.sides == sides)


if __name__ == "__main__":
    sys.exit(main())
