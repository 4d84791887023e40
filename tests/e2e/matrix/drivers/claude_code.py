"""Claude Code for the command line."""

from driver import Seen, Task, drive
from program import run_program

SCHEMA = (
    '{"type":"object","properties":{"city":{"type":"string"},"degrees":{"type":"integer"}},'
    '"required":["city","degrees"],"additionalProperties":false}'
)


def run(task: Task) -> Seen:
    options = ["--json-schema", SCHEMA] if task.kind == "structured" else []
    if task.kind == "stream":
        options = ["--include-partial-messages"]
    ended = run_program(task, *options)
    if ended.cancelled:
        return Seen(left=True)
    result = next((event for event in reversed(ended.events) if event.get("type") == "result"), {})
    if ended.code or result.get("is_error"):
        return Seen(error=str(result.get("result") or ended.errors or ended.output[-400:]))
    told = [event["event"] for event in ended.events if event.get("type") == "stream_event"]
    deltas = [
        event for event in told if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta"
    ]
    return Seen(text=result.get("result", ""), value=result.get("structured_output"), pieces=len(deltas))


if __name__ == "__main__":
    drive(run)
