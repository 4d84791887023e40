"""One timer for all limits of an exchange."""

import asyncio

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.server.watch import Limit, Watch

LATE = Error(ErrorClass.TIMEOUT, "late")
IN_ALL = Error(ErrorClass.TIMEOUT, "late in all")
SOON = 0.01
NEVER = 1000.0


async def outcome(watch: Watch) -> Error | str | None:
    """What ends a wait without end."""
    try:
        async with asyncio.timeout(5):
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        return watch.overdue()
    return "nothing did"


async def test_the_limit_in_force_ends_the_wait() -> None:
    watch = Watch()
    watch.wait(Limit(NEVER, None))
    watch.wait(Limit(SOON, LATE))
    assert await outcome(watch) == LATE


async def test_a_limit_that_was_moved_rings_later() -> None:
    watch = Watch()
    watch.wait(Limit(SOON, IN_ALL))
    watch.wait(Limit(2 * SOON, LATE))
    assert await outcome(watch) == LATE


async def test_the_limit_for_all_holds_whatever_else_moves() -> None:
    watch = Watch()
    watch.wait_in_all(Limit(SOON, IN_ALL))
    watch.wait(Limit(NEVER, LATE))
    assert await outcome(watch) == IN_ALL


async def test_after_its_time_is_up_the_task_goes_on_and_may_be_watched_again() -> None:
    watch = Watch()
    for _ in range(2):
        watch.wait(Limit(SOON, LATE))
        assert await outcome(watch) == LATE


async def test_nobody_is_told_of_a_limit_without_an_error() -> None:
    watch = Watch()
    watch.wait(Limit(SOON, None))
    assert await outcome(watch) is None


async def test_a_cancellation_from_outside_is_not_the_watchs() -> None:
    async def watched() -> Error | str | None:
        watch = Watch()
        watch.wait(Limit(NEVER, LATE))
        try:
            return await outcome(watch)
        finally:
            watch.stop()

    task = asyncio.create_task(watched())
    await asyncio.sleep(0)
    task.cancel()
    assert await task is None


async def test_a_client_that_leaves_while_time_is_up_has_left() -> None:
    watches: list[Watch] = []

    async def watched() -> Error | str | None:
        watches.append(Watch())
        return await outcome(watches[0])

    task = asyncio.create_task(watched())
    await asyncio.sleep(0)
    watches[0].end(LATE)
    task.cancel()
    assert await task is None


async def test_beats_come_between() -> None:
    watch = Watch()
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) < 3:
            watch.beat(SOON, beat)
        else:
            watch.end(LATE)

    watch.wait(Limit(NEVER, None))
    watch.beat(SOON, beat)
    assert await outcome(watch) == LATE
    assert len(beats) == 3


async def test_a_stopped_watch_is_silent() -> None:
    watch = Watch()
    watch.wait(Limit(SOON, LATE))
    watch.beat(SOON, lambda: pytest.fail("a beat after the end"))
    watch.stop()
    watch.wait(Limit(SOON, LATE))
    await asyncio.sleep(3 * SOON)
    assert watch.error is None
