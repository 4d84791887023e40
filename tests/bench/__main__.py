"""`python -m tests.bench`: what the proxy costs beside bare proxies, and whether it keeps to its targets."""

import argparse
import itertools
import signal
import sys
from pathlib import Path

import orjson
import uvloop

from tests.bench import litellm
from tests.bench.goals import verdicts
from tests.bench.load import ReplyError
from tests.bench.measure import PARTS, measure
from tests.bench.report import as_json, drivers, machine, noise, note, table, verdict_table
from tests.bench.targets import StartError, started
from tests.bench.wires import WIRES

ALL_PAIRS = list(itertools.product(WIRES, WIRES))


def main() -> int:
    options = parse_options()
    # As an exception, so that the processes are ended when the bench is told to end.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    backends = [name for name in WIRES if any(name == backend for _, backend in options.pairs)]
    peers = litellm.installed_in(options.peers) if options.peers else None
    try:
        with started(backends, peers) as targets:
            figures = uvloop.run(measure(targets, options.pairs, options.rounds, options.requests, options.only))
            told = machine(figures.rows)
            written = as_json(figures)
    except (StartError, ReplyError) as broken:
        print(f"no figures: {broken}", file=sys.stderr)
        return 1
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2))
    print(f"{told}\n\n{table(figures)}\n\n{note(options.rounds, options.requests)}")
    if found := verdicts(figures):
        print(f"\n{verdict_table(found)}")
    print("\n" + "\n".join(filter(None, (noise(figures), drivers(figures)))))
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--requests", type=positive, default=1000, help="small ones a phase; agent a half, streams 1/8")
    parser.add_argument(
        "--pairs", type=pairs_of, default=ALL_PAIRS, help='"chat>messages,…", or "none": the floors only'
    )
    parser.add_argument("--only", type=parts_of, default=PARTS, help=f"parts of the run, of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--quick", action="store_true", help="one round of 160 requests: does it run, not how fast")
    parser.add_argument("--peers", type=Path, metavar="VENV", help="where LiteLLM is installed, to be timed as well")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.requests = 1, 160
    return options


def parts_of(text: str) -> list[str]:
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: the parts are {', '.join(PARTS)}")
    return parts


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
