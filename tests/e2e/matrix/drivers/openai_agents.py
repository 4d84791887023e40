"""The OpenAI Agents SDK, on Chat Completions and on Responses."""

from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from agents.items import TResponseInputItem
from driver import Seen, Task, drive, weather
from pydantic import BaseModel


class Weather(BaseModel):
    """Of a city."""

    city: str
    degrees: int


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather({"city": city})


def agent_of(task: Task) -> Agent[None]:
    set_tracing_disabled(True)
    set_default_openai_api("responses" if task.protocol == "responses" else "chat_completions")
    stateless = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    return Agent(
        name="agent",
        instructions="Be brief.",
        model=task.model,
        model_settings=stateless if task.protocol == "responses" else ModelSettings(),
        tools=[get_weather] if task.kind == "tools" else [],
        output_type=Weather if task.kind == "structured" else None,
    )


def input_of(task: Task) -> str | list[TResponseInputItem]:
    if task.kind != "image":
        return task.prompt
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{task.image}", "detail": "auto"}
    return [{"role": "user", "content": [{"type": "input_text", "text": task.prompt}, image]}]


async def run(task: Task) -> Seen:
    agent, seen = agent_of(task), Seen()
    if task.kind in ("stream", "cancel"):
        result = Runner.run_streamed(agent, input_of(task))
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                seen.piece(event.data.delta)
                if task.kind == "cancel":
                    result.cancel()
                    return Seen(left=True)
        return seen
    output = (await Runner.run(agent, input_of(task))).final_output
    return Seen(value=output.model_dump()) if task.kind == "structured" else Seen(text=output)


if __name__ == "__main__":
    drive(run)
