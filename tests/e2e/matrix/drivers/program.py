"""What drivers of programs for the command line have in common: run one without a terminal, and cancel it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import Task

ENDS_WITHIN_S = 100
CANCELLED_WITHIN_S = 15
ASKS_AGAIN_AFTER_S = 2
POLL_S = 0.05
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Hung(Exception):
    """The program did not end."""


@dataclass(frozen=True)
class Ended:
    """What a program wrote, without colours, and how it ended."""

    code: int
    output: str
    errors: str
    cancelled: bool = False

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it wrote as lines of JSON."""
        found = []
        for line in self.output.splitlines():
            with contextlib.suppress(ValueError):
                if isinstance(event := json.loads(line), dict):
                    found.append(event)
        return found


def run_program(task: Task, *more: str, before_prompt: Sequence[str] = ()) -> Ended:
    """`more` comes behind the command, `before_prompt` right before its last word. Where the task is to cancel, the
    program gets what Ctrl-C sends as soon as the backend has fallen silent."""
    command = [*task.command[:-1], *before_prompt, task.command[-1], *more]
    process = subprocess.Popen(
        command,
        cwd=task.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **task.environment},
        process_group=0,
    )
    is_left = task.kind == "cancel"
    if is_left:
        until = time.monotonic() + ENDS_WITHIN_S
        while not Path(task.stalled).exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(POLL_S)
        end_group(process, signal.SIGINT)
    try:
        if is_left:
            # Some want to be told twice.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ASKS_AGAIN_AFTER_S)
            end_group(process, signal.SIGINT)
        output, errors = process.communicate(timeout=CANCELLED_WITHIN_S if is_left else ENDS_WITHIN_S)
    except subprocess.TimeoutExpired as expired:
        end_group(process, signal.SIGKILL)
        output, errors = process.communicate()
        told = COLOURS.sub("", f"{output} {errors}")[-600:]
        raise Hung(f"did not end within {expired.timeout:.0f} s: {told}") from None
    return Ended(process.returncode, COLOURS.sub("", output), COLOURS.sub("", errors), is_left)


def end_group(process: subprocess.Popen[str], by: signal.Signals) -> None:
    """Tell the program and all that it started, as a terminal does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, by)
