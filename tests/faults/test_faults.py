"""Whatever happens between proxy and backend, every client gets the right answer, or an error that it can read, in
time; and nothing is left behind.

`python -m tests.faults` makes as many exchanges as it is told, in the loop that the product runs in.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from tests.faults.exchanges import (
    CLIENTS,
    SILENT,
    Exchange,
    Leaving,
    all_kinds,
    at_random,
    left_behind,
    open_files,
    run,
)
from tests.harness.wire import PROTOCOLS

Show = Callable[[str, object], None]

SEED = 20261201
RANDOM = 240
WITHIN = 0.1  # seconds
LEAVINGS: tuple[Leaving, ...] = ("asked", "reset")


@pytest.mark.parametrize("planned", [all_kinds(SEED), at_random(SEED, RANDOM)], ids=["each", "at random"])
async def test_every_client_gets_an_answer_or_an_error(planned: Iterator[Exchange], record_property: Show) -> None:
    files, tasks = open_files(), asyncio.all_tasks()
    async with run() as faults:
        outcome = await faults.all(planned)
    record_property("shown", f"{outcome.exchanges} exchanges with faults: {dict(outcome.counted)}")
    assert outcome.problems == []
    assert outcome.counted["right"] > outcome.exchanges / 5 < outcome.counted["error"]
    assert open_files() <= files
    assert asyncio.all_tasks() == tasks


async def test_the_backend_of_a_client_that_leaves_is_told_at_once(record_property: Show) -> None:
    planned = [
        Exchange(number, client, backend, streamed, SILENT, number, leaving)
        for number, (client, backend, streamed, leaving) in enumerate(
            product(CLIENTS, PROTOCOLS, (False, True), LEAVINGS), 1
        )
    ]
    async with run() as faults:
        outcome = await faults.all(planned, at_once=1)
        assert await left_behind(faults.proxy) == []
    late = sorted(outcome.cancelled)
    record_property("shown", f"{len(late)} backends of who left were told, {late[-1] * 1000:.1f} ms later at most")
    assert outcome.problems == []
    assert len(late) == len(planned)
    assert late[-3] < WITHIN, "two may have waited for their turn: the machine may be busy"
