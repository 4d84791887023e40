"""Run the matrix of clients, backend protocols and scenarios, and write its page.

python -m tests.e2e.matrix [--quick] [--only PATTERN] [--scenario NAME] [--backend PROTOCOL] [--write]
"""

import argparse
import asyncio
import fnmatch
import sys
import time

from tests.e2e.matrix.catalogue import CLIENTS
from tests.e2e.matrix.client import Client
from tests.e2e.matrix.install import NODE_ENVIRONMENT, install
from tests.e2e.matrix.page import write_pages
from tests.e2e.matrix.results import merge, read_results, write_results
from tests.e2e.matrix.run import Cell, Run
from tests.e2e.matrix.scenarios import BY_NAME
from tests.e2e.matrix.scene import Stage, stages
from tests.harness.wire import PROTOCOLS


def main() -> int:
    """1 if a cell is red."""
    arguments = _arguments()
    clients = [each for each in CLIENTS if fnmatch.fnmatch(each.row.lower(), f"*{arguments.only.lower()}*")]
    if arguments.quick:
        clients = [each for each in clients if each.quick]
    began = time.monotonic()
    cells = asyncio.run(_run(clients, arguments))
    if arguments.write:
        write_pages(CLIENTS, read_results())
    failed = [cell for cell in cells if cell.verdict == "failed"]
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{len(cells) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.matrix", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the clients that every change is held to")
    parser.add_argument("--only", default="", help="clients whose row has this")
    parser.add_argument("--scenario", action="append", choices=BY_NAME, default=[])
    parser.add_argument("--backend", action="append", choices=PROTOCOLS, default=[])
    parser.add_argument("--write", action="store_true", help="keep what was seen, and write the page from it")
    parser.add_argument("--show", action="store_true", help="tell of every cell, not only of the red ones")
    return parser.parse_args()


async def _run(clients: list[Client], arguments: argparse.Namespace) -> list[Cell]:
    await install(NODE_ENVIRONMENT)
    for environment in {client.environment: None for client in clients}:
        await install(environment)
    async with stages() as by_protocol:
        lanes = [
            stage for protocol, stage in by_protocol.items() if not arguments.backend or protocol in arguments.backend
        ]
        rows = await asyncio.gather(*(_lane(clients, stage, arguments) for stage in lanes))
    return [cell for row in rows for cell in row]


async def _lane(clients: list[Client], stage: Stage, arguments: argparse.Namespace) -> list[Cell]:
    """All clients on one backend, one after the other, so that what the proxy's log tells belongs to one of them."""
    cells: list[Cell] = []
    for client in clients:
        began = time.monotonic()
        row = await Run(client, stage, frozenset(arguments.scenario)).cells()
        passed = sum(cell.verdict != "failed" for cell in row)
        print(
            f"{client.row} on {stage.backend.protocol}: {passed} of {len(row)}, {time.monotonic() - began:.1f} s",
            flush=True,
        )
        for cell in row:
            if cell.verdict == "failed" or arguments.show:
                print(f"  {cell.verdict} {cell.scenario}: {cell.note} {cell.shown[:200]} [{cell.losses}]", flush=True)
        cells += row
        if arguments.write:
            write_results(merge(read_results(), client, row))
    return cells


if __name__ == "__main__":
    sys.exit(main())
