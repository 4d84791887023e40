"""Load for as long as it is told, at a share of a core: memory, files and tasks must stay where they are.

python -m tests.soak [--minutes 30] [--share 0.7] [--seed 1]
"""

import argparse
import asyncio
import sys
import time

import uvloop

from proxy.server.lifecycle import allow_files
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS
from tests.soak.figures import WATCHED, Figures, Watched
from tests.soak.load import Load
from tests.soak.model import Model

MB = 2**20
_FIRST_RATE, _LEAST, _MOST = 100.0, 10.0, 5000.0  # requests a second
_LINES = 6  # at least, however short it is
_GROWTH, _SLACK = 0.05, 8 * MB  # of memory, from the first third behind the first line to the last
_OWN = 8  # files and tasks more than before
_AFTER = 20.0  # seconds for all to be let go


async def _steer(load: Load, process: Watched, share: float) -> None:
    """Keep the process at this share of a core."""
    while True:
        began, used = time.monotonic(), process.processor()
        await asyncio.sleep(1)
        now = (process.processor() - used) / (time.monotonic() - began)
        load.rate = min(_MOST, max(_LEAST, load.rate * min(1.15, max(0.85, share / max(now, 0.01)))))


async def _look(load: Load, process: Watched, every: float, seen: list[Figures]) -> None:
    minute, asked = 0, 0
    before = await process.figures()
    while True:
        await asyncio.sleep(every)
        minute += 1
        now = await process.figures()
        seen.append(now)
        total = load.got.total()
        print(
            f"{minute:4}: {now.memory / MB:6.1f} MiB, {now.files:4} files, {now.tasks:4} tasks, "
            f"{(now.processor - before.processor) / every:4.0%} of a core, {(total - asked) / every:5.0f} requests/s, "
            f"{dict(load.got)}",
            flush=True,
        )
        before, asked = now, total


def _grown(seen: list[Figures]) -> list[str]:
    settled = seen[1:]
    third = max(1, len(settled) // 3)
    first, last = (max(figures.memory for figures in part) for part in (settled[:third], settled[-third:]))
    if last > first * (1 + _GROWTH) + _SLACK:
        return [f"memory grew from {first / MB:.1f} to {last / MB:.1f} MiB"]
    return []


async def _let_go(process: Watched, before: Figures) -> list[str]:
    deadline = time.monotonic() + _AFTER
    while True:
        now = await process.figures()
        held = [
            f"{name}: {count} where there were {was}"
            for name, count, was in (("files", now.files, before.files), ("tasks", now.tasks, before.tasks))
            if count > was + _OWN
        ]
        if not held or time.monotonic() > deadline:
            return held
        await asyncio.sleep(0.5)


async def soak(minutes: float, share: float, seed: int) -> list[str]:
    """What was wrong."""
    allow_files(20_000)
    seen: list[Figures] = []
    async with Model(seed) as model:
        upstreams = [{"name": name, "protocol": name, "base_url": model.base_url, "api_key": "k"} for name in PROTOCOLS]
        models = [{"match": name, "upstream": name} for name in PROTOCOLS]
        proxy = ProxyProcess("chat", "", command=WATCHED, more={"upstreams": upstreams, "models": models})
        await proxy.start()
        try:
            process = Watched(proxy)
            before = await process.figures()
            load = Load(proxy.port, seed, _FIRST_RATE)
            beside = [
                asyncio.create_task(_steer(load, process, share)),
                asyncio.create_task(_look(load, process, min(60.0, minutes * 60 / _LINES), seen)),
            ]
            await load.run(asyncio.get_running_loop().time() + minutes * 60 + 1)
            for task in beside:
                task.cancel()
            await model.__aexit__()
            problems = [*load.odd, *_grown(seen), *await _let_go(process, before)]
        finally:
            await proxy.stop()
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        problems = runner.run(soak(given.minutes, given.share, given.seed))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
