"""Codex for the command line."""

import json

from driver import Seen, Task, drive
from program import run_program


def run(task: Task) -> Seen:
    options = {"structured": ["--output-schema", "schema.json"], "image": ["-i", "picture.png", "--"]}.get(
        task.kind, []
    )
    ended = run_program(task, before_prompt=options)
    if ended.cancelled:
        return Seen(left=True)
    items = [event["item"] for event in ended.events if event.get("type") == "item.completed"]
    texts = [item["text"] for item in items if item["type"] == "agent_message"]
    failures = [event["error"]["message"] for event in ended.events if event.get("type") == "turn.failed"]
    if ended.code or failures:
        return Seen(error=(failures or [ended.errors])[-1])
    if task.kind == "structured":
        return Seen(value=json.loads(texts[-1]))
    return Seen(text=texts[-1] if texts else "")


if __name__ == "__main__":
    drive(run)
