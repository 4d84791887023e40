"""LangChain, with the packages of both vendors."""

import sys

from driver import ROUNDS, SCHEMA, Seen, Task, drive, weather
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather({"city": city})


def model_of(task: Task) -> ChatOpenAI | ChatAnthropic:
    if task.protocol == "messages":
        return ChatAnthropic(model=task.model, max_tokens=1000)
    if task.protocol == "chat":
        return ChatOpenAI(model=task.model)
    include = ["reasoning.encrypted_content"]
    return ChatOpenAI(model=task.model, use_responses_api=True, store=False, include=include)


def content_of(task: Task) -> list[dict[str, object]]:
    content: list[dict[str, object]] = [{"type": "text", "text": task.prompt}]
    if task.kind == "image":
        content.append({"type": "image", "base64": task.image, "mime_type": "image/png"})
    return content


def run(task: Task) -> Seen:
    model, seen = model_of(task), Seen()
    messages = [HumanMessage(content=content_of(task))]
    if task.kind in ("stream", "cancel"):
        for chunk in model.stream(messages):
            seen.piece(chunk.text)
            if task.kind == "cancel" and seen.get("pieces"):
                return Seen(left=True)
        return seen
    if task.kind == "structured":
        return Seen(value=model.with_structured_output(SCHEMA, method="json_schema").invoke(messages))
    if task.kind == "tools":
        model = model.bind_tools([get_weather])
    for _ in range(ROUNDS):
        answer = model.invoke(messages)
        if not answer.tool_calls:
            return Seen(text=answer.text)
        known = [call for call in answer.tool_calls if call["name"] == "get_weather"]
        if not known:
            return Seen(text=f"tool_calls: {answer.tool_calls}")
        messages += [answer, *(get_weather.invoke(call) for call in known)]
    return seen


if __name__ == "__main__":
    assert sys.argv[1] in ("chat", "responses", "messages")
    drive(run)
