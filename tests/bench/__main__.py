"""`python -m tests.bench`: print what the proxy costs beside a proxy that translates nothing."""

import argparse
import itertools
import signal
import sys
from pathlib import Path

import orjson
import uvloop

from tests.bench.load import ReplyError
from tests.bench.measure import measure, rows_of
from tests.bench.report import as_json, machine, note, table
from tests.bench.targets import StartError, started
from tests.bench.wires import WIRES

ALL_PAIRS = list(itertools.product(WIRES, WIRES))


def main() -> int:
    options = parse_options()
    # As an exception, so that the processes are ended when the bench is told to end.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    backends = [name for name in WIRES if any(name == backend for _, backend in options.pairs)]
    try:
        with started(backends) as targets:
            rows = rows_of(targets, options.pairs)
            print(machine(rows), flush=True)
            figures = uvloop.run(measure(rows, options.rounds, options.requests))
            if options.json:
                options.json.write_bytes(orjson.dumps(as_json(rows, figures), option=orjson.OPT_INDENT_2))
    except (StartError, ReplyError) as broken:
        print(f"no figures: {broken}", file=sys.stderr)
        return 1
    print(f"\n{table(rows, figures)}\n\n{note(options.rounds, options.requests)}")
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--requests", type=positive, default=2000, help="small ones a phase; agent a half, streams 1/8")
    parser.add_argument(
        "--pairs", type=pairs_of, default=ALL_PAIRS, help='"chat>messages,…", or "none": the floor only'
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--quick", action="store_true", help="one round of 400 requests: does it run, not how fast")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.requests = 1, 400
    return options


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def pairs_of(text: str) -> list[tuple[str, str]]:
    if text == "none":
        return []
    pairs = [tuple(pair.split(">")) for pair in text.split(",")]
    unknown = [pair for pair in pairs if pair not in ALL_PAIRS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown}: a pair is two of {', '.join(WIRES)}, such as chat>messages")
    return [pair for pair in ALL_PAIRS if pair in pairs]


if __name__ == "__main__":
    sys.exit(main())
