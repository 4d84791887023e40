"""aider for the command line: text only."""

import re

from driver import Seen, Task, drive
from program import run_program

FAILURE = re.compile(r"[^\n]*(?:[Ee]rror|token limit).*", re.DOTALL)


def run(task: Task) -> Seen:
    ended = run_program(task)
    if ended.cancelled:
        return Seen(left=True)
    after_retries = ended.output.rpartition("Retrying in")[2]
    failed = FAILURE.search(after_retries)
    if ended.code or failed or ended.errors.strip():
        return Seen(error=failed[0] if failed else ended.errors or ended.output)
    return Seen(text=ended.output)


if __name__ == "__main__":
    drive(run)
