"""What a process and its children have used: CPU time, minor page faults, resident memory. Linux only."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
MINOR_FAULTS = 7  # fields of /proc/<pid>/stat after the command's closing bracket, from 0


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time is user and system of all threads. `rss_kb` is a level, the others are sums since the start."""

    cpu_ns: int
    minor_faults: int
    rss_kb: int


def cost_of(pid: int) -> Cost:
    pids = [pid, *descendants(pid)]
    return Cost(
        cpu_ns=sum(cpu_ns(each) for each in pids),
        minor_faults=sum(minor_faults(each) for each in pids),
        rss_kb=sum(rss_kb(each) for each in pids),
    )


def descendants(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [pid for child in children for pid in (child, *descendants(child))]


def cpu_ns(pid: int) -> int:
    """The process's CPU clock, by the number clock_getcpuclockid(3) gives it.

    utime and stime in /proc/<pid>/stat count in steps of 10 ms, too coarse for a phase of half a second.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def minor_faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[MINOR_FAULTS])


def rss_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB
