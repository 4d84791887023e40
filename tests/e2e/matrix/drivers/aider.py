"""aider for the command line: text only."""

from driver import Seen, Task, drive
from program import run_program


def run(task: Task) -> Seen:
    ended = run_program(task)
    if ended.cancelled:
        return Seen(left=True)
    failed = next((line for line in ended.output.splitlines() if "Error" in line or "error" in line), "")
    if ended.code or failed or ended.errors.strip():
        return Seen(error=(failed or ended.errors or ended.output).strip())
    return Seen(text=ended.output)


if __name__ == "__main__":
    drive(run)
