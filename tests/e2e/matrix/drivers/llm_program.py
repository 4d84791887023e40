"""llm for the command line."""

import json

from driver import SCHEMA, Seen, Task, drive
from program import run_program

FUNCTIONS = """
def get_weather(city: str) -> str:
    "The weather of a city."
    return f"{city} has 21 degrees"
"""


def run(task: Task) -> Seen:
    options = {
        "tools": ["--functions", FUNCTIONS],
        "structured": ["--schema", json.dumps(SCHEMA)],
        "image": ["-a", "picture.png"],
    }.get(task.kind, [])
    if task.kind not in ("stream", "cancel", "tools"):
        options.append("--no-stream")
    ended = run_program(task, *options)
    if ended.cancelled:
        return Seen(left=True)
    if ended.code:
        return Seen(error=ended.errors.strip())
    if task.kind == "structured":
        return Seen(value=json.loads(ended.output))
    return Seen(text=ended.output)


if __name__ == "__main__":
    drive(run)
