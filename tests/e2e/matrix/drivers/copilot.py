"""GitHub Copilot for the command line, with a provider of one's own."""

from driver import Seen, Task, drive
from program import run_program


def run(task: Task) -> Seen:
    ended = run_program(task)
    if ended.cancelled:
        return Seen(left=True)
    if ended.code:
        return Seen(error=(ended.errors or ended.output).strip())
    return Seen(text=ended.output)


if __name__ == "__main__":
    drive(run)
