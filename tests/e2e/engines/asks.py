"""The same question by each protocol, whole and streamed, by the vendors' SDKs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anthropic
import openai

from tests.harness.wire import Json, Protocol

MODEL = "smollm2"


@dataclass(frozen=True)
class Question:
    """What is asked; greedily, so that there is one answer."""

    name: str
    turns: tuple[tuple[str, str], ...]
    system: str = ""
    limit: int = 24


@dataclass(frozen=True)
class Answer:
    """ended: whether the model was done, rather than cut at the limit."""

    text: str
    ended: bool
    prompt_tokens: int
    answer_tokens: int


QUESTIONS = (
    Question("a fact", (("user", "What is the capital of France?"),)),
    Question("an instruction", (("user", "Say hello."),), system="You answer in one short sentence."),
    Question(
        "a history",
        (
            ("user", "My name is Ann, and I live in Oslo."),
            ("assistant", "Nice to meet you, Ann!"),
            ("user", "Where do I live?"),
        ),
    ),
    Question(
        "letters of many bytes",
        (("user", "Translate into French: the coffee was already ready, naïve café"),),
        limit=32,
    ),
    Question("an answer that is cut", (("user", "Count from one to fifty."),), limit=16),
)

Ask = Callable[[str, Question, bool], Awaitable[Answer]]  # URL, question, whether streamed


def _turns(question: Question) -> list[Json]:
    return [{"role": role, "content": text} for role, text in question.turns]


def _item(role: str, text: str) -> Json:
    """llama.cpp knows answers in full form only."""
    if role == "user":
        return {"role": role, "content": text}
    return {"type": "message", "role": role, "content": [{"type": "output_text", "text": text, "annotations": []}]}


async def _chat(url: str, question: Question, stream: bool) -> Answer:
    system = [{"role": "system", "content": question.system}] if question.system else []
    asked: Json = {
        "model": MODEL,
        "messages": [*system, *_turns(question)],
        "temperature": 0,
        "max_tokens": question.limit,
    }
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk:
        if stream:
            chunks = await sdk.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
            return _together([chunk async for chunk in chunks])
        completion: Json = await sdk.chat.completions.create(**asked)
    choice, usage = completion.choices[0], completion.usage
    ended = choice.finish_reason == "stop"
    return Answer(choice.message.content, ended, usage.prompt_tokens, usage.completion_tokens)


def _together(chunks: list[Json]) -> Answer:
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    usage = next(chunk.usage for chunk in reversed(chunks) if chunk.usage)
    return Answer(text, reasons == ["stop"], usage.prompt_tokens, usage.completion_tokens)


async def _responses(url: str, question: Question, stream: bool) -> Answer:
    asked: Json = {
        "model": MODEL,
        "input": [_item(*turn) for turn in question.turns],
        "temperature": 0,
        "max_output_tokens": question.limit,
    }
    asked |= {"store": False} | ({"instructions": question.system} if question.system else {})
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk:
        response: Json = None
        if not stream:
            response = await sdk.responses.create(**asked)
        else:
            async for event in await sdk.responses.create(**asked, stream=True):
                if event.type in ("response.completed", "response.incomplete"):
                    response = event.response
    usage = response.usage
    return Answer(response.output_text, response.status == "completed", usage.input_tokens, usage.output_tokens)


async def _messages(url: str, question: Question, stream: bool) -> Answer:
    asked: Json = {"model": MODEL, "messages": _turns(question), "max_tokens": question.limit}
    asked |= {"system": question.system} if question.system else {}
    asked["extra_body"] = {"temperature": 0}
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk:
        if stream:
            async with sdk.messages.stream(**asked) as events:
                message: Json = await events.get_final_message()
        else:
            message = await sdk.messages.create(**asked)
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    text = "".join(block.text for block in message.content if block.type == "text")
    return Answer(text, message.stop_reason == "end_turn", usage.input_tokens + cached, usage.output_tokens)


ASKS: dict[Protocol, Ask] = {"chat": _chat, "responses": _responses, "messages": _messages}
