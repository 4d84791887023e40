"""LiteLLM as a client, by each of its interfaces."""

import json

import litellm
from driver import PARAMETERS, ROUNDS, SCHEMA, Seen, Task, drive, weather

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS, "strict": True},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": SCHEMA}}
PROVIDERS = {"chat": "openai", "messages": "anthropic"}


def completion(task: Task) -> Seen:
    seen = Seen()
    content: list[dict[str, object]] = [{"type": "text", "text": task.prompt}]
    if task.kind == "image":
        content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{task.image}"}})
    messages: list[object] = [{"role": "user", "content": content}]
    asked: dict[str, object] = {"model": f"{PROVIDERS[task.protocol]}/{task.model}", "messages": messages}
    asked |= {"num_retries": 2}
    if task.kind in ("stream", "cancel"):
        stream = litellm.completion(**asked, stream=True)
        for chunk in stream:
            seen.piece(chunk.choices[0].delta.content)
            if task.kind == "cancel" and seen.get("pieces"):
                stream.close() if hasattr(stream, "close") else None
                return Seen(left=True)
        return seen
    if task.kind == "structured":
        answer = litellm.completion(**asked, response_format=FORMAT)
        return Seen(value=json.loads(answer.choices[0].message.content))
    if task.kind == "tools":
        asked["tools"] = [TOOL]
    for _ in range(ROUNDS):
        message = litellm.completion(**asked).choices[0].message
        if not message.tool_calls:
            return Seen(text=message.content)
        messages.append(message)
        for call in message.tool_calls:
            result = weather(json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return seen


def responses(task: Task) -> Seen:
    seen = Seen()
    content: list[dict[str, object]] = [{"type": "input_text", "text": task.prompt}]
    if task.kind == "image":
        content.append({"type": "input_image", "image_url": f"data:image/png;base64,{task.image}", "detail": "auto"})
    items: list[object] = [{"role": "user", "content": content}]
    include = ["reasoning.encrypted_content"]
    asked: dict[str, object] = {"model": f"openai/{task.model}", "input": items, "store": False, "include": include}
    asked |= {"num_retries": 2}
    if task.kind in ("stream", "cancel"):
        for event in litellm.responses(**asked, stream=True):
            if event.type == "response.output_text.delta":
                seen.piece(event.delta)
                if task.kind == "cancel":
                    return Seen(left=True)
            if event.type in ("error", "response.failed"):
                return Seen(error=f"{event.type}: {event}")
        return seen
    if task.kind == "structured":
        form = {"type": "json_schema", "name": "weather", "strict": True, "schema": SCHEMA}
        return Seen(value=json.loads(litellm.responses(**asked, text={"format": form}).output_text))
    if task.kind == "tools":
        asked["tools"] = [{"type": "function", **TOOL["function"]}]
    for _ in range(ROUNDS):
        answer = litellm.responses(**asked)
        output = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return Seen(text=answer.output_text)
        items += output
        for call in calls:
            result = weather(json.loads(call["arguments"]))
            items.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})
    return seen


if __name__ == "__main__":
    drive(lambda task: responses(task) if task.protocol == "responses" else completion(task))
