"""Pydantic AI, with its models of OpenAI's two protocols and of Anthropic's."""

from driver import Seen, Task, drive, weather
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput

PREFIXES = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic"}


class Weather(BaseModel):
    """Of a city."""

    city: str
    degrees: int


async def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather({"city": city})


async def run(task: Task) -> Seen:
    seen = Seen()
    agent = Agent(
        f"{PREFIXES[task.protocol]}:{task.model}",
        instructions="Be brief.",
        tools=[get_weather] if task.kind == "tools" else [],
        output_type=NativeOutput(Weather) if task.kind == "structured" else str,
    )
    if task.kind in ("stream", "cancel"):
        async with agent.run_stream(task.prompt) as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                seen.piece(text)
                if task.kind == "cancel":
                    return Seen(left=True)
        return seen
    prompt: list[str | BinaryContent] = [task.prompt]
    if task.kind == "image":
        prompt.append(BinaryContent.from_data_uri(f"data:image/png;base64,{task.image}"))
    output = (await agent.run(prompt)).output
    return Seen(value=output.model_dump()) if task.kind == "structured" else Seen(text=output)


if __name__ == "__main__":
    drive(run)
