"""What a proxy's process takes, as the system and the process itself see it."""

import asyncio
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.harness.proxy_process import SERVE, ProxyProcess

# The product, and who answers a signal with the number of its tasks.
WATCHED = (SERVE[0], "-m", "tests.soak.watched", *SERVE[3:])
_TICK = os.sysconf("SC_CLK_TCK")
_TASKS = re.compile(r"^tasks: (\d+)$", re.MULTILINE)
_WITHIN = 5.0  # seconds


@dataclass(frozen=True)
class Figures:
    """`memory`: resident, bytes; `processor`: seconds so far."""

    memory: int
    files: int
    tasks: int
    processor: float


class Watched:
    """A proxy's process that was started as `WATCHED`."""

    def __init__(self, proxy: ProxyProcess) -> None:
        self._proxy = proxy
        self._folder = Path("/proc", str(proxy.pid))

    def processor(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def memory(self) -> int:
        return int((self._folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async def figures(self) -> Figures:
        return Figures(self.memory(), len(list((self._folder / "fd").iterdir())), await self._tasks(), self.processor())

    async def _tasks(self) -> int:
        told = len(_TASKS.findall(self._proxy.output))
        os.kill(self._proxy.pid, signal.SIGUSR1)
        async with asyncio.timeout(_WITHIN):
            while len(found := _TASKS.findall(self._proxy.output)) == told:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return int(found[-1])
