"""LlamaIndex, with its models of OpenAI's two protocols and of Anthropic's."""

import os

from driver import ROUNDS, Seen, Task, drive, weather
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.openai import OpenAI, OpenAIResponses
from pydantic import BaseModel


class Weather(BaseModel):
    """Of a city."""

    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather({"city": city})


def model_of(task: Task) -> OpenAI | OpenAIResponses | Anthropic:
    if task.protocol == "messages":
        return Anthropic(model=task.model, base_url=os.environ["ANTHROPIC_BASE_URL"], max_tokens=1000, max_retries=2)
    kind = OpenAIResponses if task.protocol == "responses" else OpenAI
    return kind(model=task.model, api_base=os.environ["OPENAI_BASE_URL"])


def run(task: Task) -> Seen:
    model, seen = model_of(task), Seen()
    blocks = [TextBlock(text=task.prompt)]
    if task.kind == "image":
        blocks.append(ImageBlock(image=task.image.encode(), image_mimetype="image/png"))
    messages = [ChatMessage(role="user", blocks=blocks)]
    if task.kind in ("stream", "cancel"):
        for chunk in model.stream_chat(messages):
            seen.piece(chunk.delta)
            if task.kind == "cancel" and seen.get("pieces"):
                return Seen(left=True)
        return seen
    if task.kind == "structured":
        return Seen(value=model.as_structured_llm(Weather).chat(messages).raw.model_dump())
    if task.kind != "tools":
        return Seen(text=model.chat(messages).message.content)
    tool = FunctionTool.from_defaults(get_weather)
    for _ in range(ROUNDS):
        answer = model.chat_with_tools([tool], chat_history=messages, allow_parallel_tool_calls=True)
        calls = model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        messages.append(answer.message)
        if not calls:
            return Seen(text=answer.message.content)
        for call in calls:
            result = str(tool(**call.tool_kwargs))
            told = {"tool_call_id": call.tool_id, "name": call.tool_name}
            messages.append(ChatMessage(role="tool", content=result, additional_kwargs=told))
    return seen


if __name__ == "__main__":
    drive(run)
