"""Instructor: structured output, by forced tools and by schemas."""

import instructor
from driver import Seen, Task, drive
from pydantic import BaseModel

PROVIDERS = {"chat": "openai", "messages": "anthropic"}


class Weather(BaseModel):
    """Of a city."""

    city: str
    degrees: int


def run(task: Task) -> Seen:
    more = {"mode": instructor.Mode.RESPONSES_TOOLS} if task.protocol == "responses" else {}
    client = instructor.from_provider(f"{PROVIDERS.get(task.protocol, 'openai')}/{task.model}", **more)
    asked = {"messages": [{"role": "user", "content": task.prompt}], "response_model": Weather, "max_retries": 1}
    if task.protocol == "messages":
        asked["max_tokens"] = 1000
    if task.kind == "stream":
        partial = list(client.chat.completions.create_partial(**asked))
        return Seen(value=partial[-1].model_dump(), pieces=len(partial))
    return Seen(value=client.chat.completions.create(**asked).model_dump())


if __name__ == "__main__":
    drive(run)
