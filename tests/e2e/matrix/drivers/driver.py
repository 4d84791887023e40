"""What drivers in Python have in common. A driver runs in its client's own environment, so this knows the standard
library only.

It reads tasks from standard input, a line of JSON each, makes the client do it, and prints what the user saw as a
line of JSON.
"""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

SCHEMA: dict[str, Any] = {
    "title": "weather",
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ROUNDS = 4


def weather(arguments: dict[str, str]) -> str:
    """The tool that the model calls."""
    return f"{arguments['city']} has 21 degrees"


class Task:
    """What to do: `kind`, `prompt`, `model`, `image` (base64 of a PNG), `protocol`, and where programs work."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.kind: str = fields["kind"]
        self.protocol: str = fields["protocol"]
        self.prompt: str = fields["prompt"]
        self.model: str = fields["model"]
        self.image: str = fields["image"]
        self.environment: dict[str, str] = fields["environment"]
        self.command: list[str] = fields["command"]
        self.folder: str = fields["folder"]
        self.stalled: str = fields["stalled"]


class Seen(dict[str, Any]):
    """What the user saw: `text`, `pieces`, `value`, `error`, `left`, `resources`."""

    def piece(self, text: str | None) -> None:
        if text:
            self["text"] = self.get("text", "") + text
            self["pieces"] = self.get("pieces", 0) + 1


def drive(run: Callable[[Task], Any]) -> None:
    """`run` makes the client do a task and gives what was seen; what it raises is what the user saw."""
    reports, sys.stdout = sys.stdout, sys.stderr  # clients print, too
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            task = Task(json.loads(line))
            os.environ.update(task.environment)
            try:
                seen = run(task)
                if inspect.iscoroutine(seen):
                    seen = runner.run(seen)
            except Exception as error:  # noqa: BLE001 - whatever a client raises is its message to the user
                seen = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(seen), file=reports, flush=True)
