"""The Anthropic SDK for Python."""

import json

from anthropic import Anthropic
from driver import PARAMETERS, ROUNDS, SCHEMA, Seen, Task, drive, weather


def _text(message: object) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def run(task: Task) -> Seen:
    sdk, seen = Anthropic(), Seen()
    content = [{"type": "text", "text": task.prompt}]
    if task.kind == "image":
        source = {"type": "base64", "media_type": "image/png", "data": task.image}
        content.insert(0, {"type": "image", "source": source})
    turns = [{"role": "user", "content": content}]
    asked = {"model": task.model, "max_tokens": 1000, "system": "Be brief.", "messages": turns}
    if task.kind == "resources":
        return resources(sdk, task)
    if task.kind in ("stream", "cancel"):
        with sdk.messages.stream(**asked) as stream:
            for text in stream.text_stream:
                seen.piece(text)
                if task.kind == "cancel":
                    return Seen(left=True)
            stream.get_final_message()
        return seen
    if task.kind == "structured":
        form = {"format": {"type": "json_schema", "schema": SCHEMA}}
        return Seen(value=json.loads(_text(sdk.messages.create(**asked, output_config=form))))
    if task.kind == "tools":
        asked["tools"] = [{"name": "get_weather", "description": "Weather", "input_schema": PARAMETERS}]
    for _ in range(ROUNDS):
        message = sdk.messages.create(**asked)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return Seen(text=_text(message))
        turns.append({"role": "assistant", "content": message.content})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": weather(call.input)} for call in calls]
        turns.append({"role": "user", "content": results})
    return seen


def resources(sdk: Anthropic, task: Task) -> Seen:
    turns = [{"role": "user", "content": task.prompt}]
    counted = sdk.messages.count_tokens(model=task.model, messages=turns)
    return Seen(
        resources={
            "models.list": [model.id for model in sdk.models.list(limit=1000)] != [],
            "messages.count_tokens": counted.input_tokens > 0,
        }
    )


if __name__ == "__main__":
    drive(run)
