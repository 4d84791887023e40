"""The OpenAI SDK for Python: Chat Completions and Responses."""

import json
import sys

from driver import PARAMETERS, ROUNDS, SCHEMA, Seen, Task, drive, weather
from openai import OpenAI


def chat(task: Task) -> Seen:
    sdk, seen = OpenAI(), Seen()
    content = [{"type": "text", "text": task.prompt}]
    if task.kind == "image":
        content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{task.image}"}})
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": content}]
    asked = {"model": task.model, "messages": messages}
    if task.kind in ("stream", "cancel"):
        with sdk.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}) as stream:
            for chunk in stream:
                seen.piece(chunk.choices[0].delta.content if chunk.choices else None)
                if task.kind == "cancel" and seen.get("pieces"):
                    return Seen(left=True)
        return seen
    if task.kind == "structured":
        form = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": SCHEMA}}
        answer = sdk.chat.completions.create(**asked, response_format=form)
        return Seen(value=json.loads(answer.choices[0].message.content))
    if task.kind == "tools":
        function = {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS, "strict": True}
        asked["tools"] = [{"type": "function", "function": function}]
    for _ in range(ROUNDS):
        message = sdk.chat.completions.create(**asked).choices[0].message
        if not message.tool_calls:
            return Seen(text=message.content)
        messages.append(message.to_dict())
        for call in message.tool_calls:
            result = weather(json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return seen


def responses(task: Task) -> Seen:
    sdk, seen = OpenAI(), Seen()
    content = [{"type": "input_text", "text": task.prompt}]
    if task.kind == "image":
        content.append({"type": "input_image", "image_url": f"data:image/png;base64,{task.image}", "detail": "auto"})
    items = [{"role": "user", "content": content}]
    include = ["reasoning.encrypted_content"]
    asked = {"model": task.model, "instructions": "Be brief.", "input": items, "store": False, "include": include}
    if task.kind in ("stream", "cancel"):
        with sdk.responses.create(**asked, stream=True) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    seen.piece(event.delta)
                if event.type in ("error", "response.failed"):
                    told = event if event.type == "error" else event.response.error
                    return Seen(error=f"{event.type}: {told.message}")
                if task.kind == "cancel" and seen.get("pieces"):
                    return Seen(left=True)
        return seen
    if task.kind == "structured":
        form = {"type": "json_schema", "name": "weather", "strict": True, "schema": SCHEMA}
        return Seen(value=json.loads(sdk.responses.create(**asked, text={"format": form}).output_text))
    if task.kind == "tools":
        tool = {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS, "strict": True}
        asked["tools"] = [{"type": "function", **tool}]
    for _ in range(ROUNDS):
        answer = sdk.responses.create(**asked)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return Seen(text=answer.output_text)
        items += [item.to_dict() for item in answer.output]
        for call in calls:
            output = weather(json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    return seen


def resources(task: Task) -> Seen:
    """Everything else that the proxy serves of what the SDK has."""
    sdk = OpenAI()
    found: dict[str, object] = {"models.list": [model.id for model in sdk.models.list()] != []}
    if task.protocol == "chat":
        legacy = sdk.completions.create(model=task.model, prompt=task.prompt)
        found["completions"] = "Count this" in legacy.choices[0].text
        pieces = [
            chunk.choices[0].text
            for chunk in sdk.completions.create(model=task.model, prompt=task.prompt, stream=True)
            if chunk.choices
        ]
        found["completions, streamed"] = "Count this" in "".join(pieces) and len(pieces) > 1
        with sdk.chat.completions.stream(
            model=task.model, messages=[{"role": "user", "content": task.prompt}]
        ) as stream:
            found["chat.completions.stream"] = "Count this" in stream.get_final_completion().choices[0].message.content
    else:
        counted = sdk.responses.input_tokens.count(model=task.model, input=task.prompt)
        found["responses.input_tokens"] = counted.input_tokens > 0
        with sdk.responses.stream(model=task.model, input=task.prompt, store=False) as stream:
            found["responses.stream"] = "Count this" in stream.get_final_response().output_text
    return Seen(resources=found)


def stored(task: Task) -> Seen:
    """The second request names the first, and says nothing of it."""
    sdk = OpenAI()
    first = sdk.responses.create(model=task.model, input=task.prompt)
    second = sdk.responses.create(model=task.model, input="What was it?", previous_response_id=first.id)
    return Seen(text=second.output_text)


def embeddings(task: Task) -> Seen:
    made = OpenAI().embeddings.create(model=task.model, input=task.prompt, encoding_format="float")
    return Seen(resources={"embeddings": len(made.data[0].embedding) > 0})


if __name__ == "__main__":
    by_protocol = {"chat": chat, "responses": responses}[sys.argv[1]]
    beside = {"resources": resources, "embeddings": embeddings, "stored": stored}
    drive(lambda task: beside.get(task.kind, by_protocol)(task))
