"""opencode for the command line."""

from driver import Seen, Task, drive
from program import run_program


def run(task: Task) -> Seen:
    options = ["--file", "picture.png"] if task.kind == "image" else []
    ended = run_program(task, *options)
    if ended.cancelled:
        return Seen(left=True)
    failures = [event["error"] for event in ended.events if event.get("type") == "error"]
    if failures:
        return Seen(error=str((failures[-1].get("data") or failures[-1]).get("message", failures[-1])))
    if ended.code:
        return Seen(error=(ended.errors or ended.output).strip())
    return Seen(text="".join(event["part"]["text"] for event in ended.events if event.get("type") == "text"))


if __name__ == "__main__":
    drive(run)
