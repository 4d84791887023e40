"""Exchanges at random for as long as it is told, in the loop that the product runs in.

python -m tests.faults [--exchanges 10000] [--seed 1]
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice

import uvloop

from tests.faults.exchanges import Exchange, Outcome, all_kinds, at_random, open_files, run

_SHOWN = 40  # problems
_ROUND = 2000  # exchanges of one proxy


def _rounds(seed: int, size: int) -> Iterator[list[Exchange]]:
    """First each fault in each pair, then any."""
    planned = chain(all_kinds(seed), at_random(seed, size))
    while made := list(islice(planned, min(_ROUND, size))):
        yield made
        size -= len(made)
        if not size:
            return


async def _make(planned: list[Exchange]) -> Outcome:
    tasks = asyncio.all_tasks()
    async with run() as faults:
        outcome = await faults.all(planned)
    outcome.problems += [f"a task goes on: {task}" for task in asyncio.all_tasks() - tasks]
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--exchanges", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))  # the first loop opens what all share
    failed = 0
    for planned in _rounds(given.seed, given.exchanges):
        files = open_files()
        began, processor = time.monotonic(), time.process_time()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            outcome = runner.run(_make(planned))
        if more := open_files() - files:
            outcome.problems.append(f"file descriptors are left open: {more}")
        took, used = time.monotonic() - began, time.process_time() - processor
        late = max(outcome.cancelled, default=0.0) * 1000
        print(
            f"{outcome.exchanges} exchanges in {took:.0f} s ({used:.0f} s of processor time): {dict(outcome.counted)}, "
            f"backends cancelled for who left: {len(outcome.cancelled)}, at most {late:.0f} ms later",
            flush=True,
        )
        for problem in outcome.problems[:_SHOWN]:
            print("  " + problem[:600])
        failed += len(outcome.problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
