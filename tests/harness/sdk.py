"""Read replies with the vendors' own SDKs, without a network: what they make of bytes is what users get.

`openai` reads Chat Completions and Responses, `anthropic` reads Messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import anthropic
import httpx2
import openai
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam

from tests.harness.wire import Json, Protocol

STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8"}
JSON_HEADERS = {"content-type": "application/json"}

Answer: TypeAlias = Callable[[httpx2.Request], httpx2.Response]
# What any call of the SDK may raise for an answer that it refuses.
SDK_ERRORS = (openai.OpenAIError, anthropic.AnthropicError)


@dataclass(frozen=True)
class SdkError:
    """The class that user code catches, its message, and whether the SDK tries again by itself."""

    name: str
    message: str
    retried: bool


def read_stream(protocol: Protocol, raw: bytes) -> Json:
    """The final object of the SDK's stream helper. Raises what the helper raises."""
    return STREAM_READERS[protocol](_answer(200, raw, STREAM_HEADERS))


def read_whole(protocol: Protocol, body: bytes) -> Json:
    """The object that a plain call returns."""
    return WHOLE_READERS[protocol](_answer(200, body, JSON_HEADERS), 0)


def read_error(protocol: Protocol, status: int, body: bytes, headers: dict[str, str] | None = None) -> SdkError:
    """The exception of a plain call that is answered so. Raises AssertionError if the SDK takes it for a reply."""
    asked = 0
    answer = _answer(status, body, {**JSON_HEADERS, "retry-after-ms": "1", **(headers or {})})

    def count(request: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        return answer(request)

    try:
        WHOLE_READERS[protocol](count, 1)
    except SDK_ERRORS as error:
        return SdkError(type(error).__name__, str(error), retried=asked > 1)
    raise AssertionError(f"the SDK takes {status} {body!r} for a reply")


def read_stream_error(protocol: Protocol, raw: bytes) -> SdkError:
    """The exception of the stream helper. Raises AssertionError if the SDK takes the stream for a whole one."""
    try:
        STREAM_READERS[protocol](_answer(200, raw, STREAM_HEADERS))
    except (*SDK_ERRORS, RuntimeError, AssertionError) as error:  # how the helpers refuse a stream without an end
        return SdkError(type(error).__name__, str(error), retried=False)
    raise AssertionError(f"the SDK takes this stream for a whole one: {raw!r}")


def _answer(status: int, body: bytes, headers: dict[str, str]) -> Answer:
    return lambda request: httpx2.Response(status, content=body, headers=headers)


def _openai(answer: Answer, retries: int = 0) -> openai.OpenAI:
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="key", base_url="http://test/v1", http_client=http, max_retries=retries)


def _anthropic(answer: Answer, retries: int = 0) -> anthropic.Anthropic:
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="key", base_url="http://test", http_client=http, max_retries=retries)


# A helper checks calls against the tools that were declared, so it is told of one.
PARAMETERS: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": PARAMETERS},
}
RESPONSES_TOOL: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "parameters": PARAMETERS,
    "strict": False,
}
MODEL = "demo-model"


def _stream_chat(answer: Answer) -> Json:
    with (
        _openai(answer) as client,
        client.chat.completions.stream(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], tools=[CHAT_TOOL]
        ) as stream,
    ):
        return _plain(stream.get_final_completion())


def _stream_responses(answer: Answer) -> Json:
    with _openai(answer) as client, client.responses.stream(model=MODEL, input="Hi", tools=[RESPONSES_TOOL]) as stream:
        return _plain(stream.get_final_response())


def _stream_messages(answer: Answer) -> Json:
    with (
        _anthropic(answer) as client,
        client.messages.stream(model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "Hi"}]) as stream,
    ):
        return _plain(stream.get_final_message())


def _create_chat(answer: Answer, retries: int) -> Json:
    with _openai(answer, retries) as client:
        return _plain(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}]))


def _create_responses(answer: Answer, retries: int) -> Json:
    with _openai(answer, retries) as client:
        return _plain(client.responses.create(model=MODEL, input="Hi"))


def _create_messages(answer: Answer, retries: int) -> Json:
    with _anthropic(answer, retries) as client:
        messages: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Hi"}]
        return _plain(client.messages.create(model=MODEL, max_tokens=100, messages=messages))


def _plain(reply: openai.BaseModel | anthropic.BaseModel) -> Json:
    """Only what was on the wire, without the defaults of the SDK's types."""
    return reply.model_dump(mode="json", exclude_unset=True, warnings=False)


STREAM_READERS: dict[Protocol, Callable[[Answer], Json]] = {
    "chat": _stream_chat,
    "responses": _stream_responses,
    "messages": _stream_messages,
}
WHOLE_READERS: dict[Protocol, Callable[[Answer, int], Json]] = {
    "chat": _create_chat,
    "responses": _create_responses,
    "messages": _create_messages,
}
