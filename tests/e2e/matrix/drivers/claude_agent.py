"""The Claude Agent SDK, which brings a Claude Code of its own."""

import asyncio
import time
from pathlib import Path

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    StreamEvent,
    query,
)
from driver import SCHEMA, Seen, Task, drive


async def run(task: Task) -> Seen:
    options = ClaudeAgentOptions(
        model=task.model,
        cwd=task.folder,
        env=task.environment,
        permission_mode="bypassPermissions",
        include_partial_messages=task.kind == "stream",
        output_format={"type": "json_schema", "schema": SCHEMA} if task.kind == "structured" else None,
    )
    seen, result = Seen(), None
    messages = query(prompt=task.prompt, options=options)
    if task.kind == "cancel":
        reading = asyncio.ensure_future(anext(each async for each in messages if isinstance(each, AssistantMessage)))
        await asyncio.to_thread(wait_until_stalled, task)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await messages.aclose()
        return Seen(left=True)
    async for message in messages:
        if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
            seen.piece(message.event["delta"].get("text"))
        if isinstance(message, ResultMessage):
            result = message
    if result is None or result.is_error:
        return Seen(error=str(result.result if result else "no result"))
    return Seen(text=result.result or "", value=result.structured_output, pieces=seen.get("pieces", 0))


def wait_until_stalled(task: Task) -> None:
    while not Path(task.stalled).exists():
        time.sleep(0.05)


if __name__ == "__main__":
    drive(run)
