"""One user program, written with the vendors' Python SDK for each protocol.

It asks, streams, and runs the tool loop in the way that the SDK's own documentation shows.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import anthropic
import openai

from tests.harness.wire import Json, Protocol

MODEL = "demo-model"
TOOL_NAME = "get_weather"
PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
MAX_ROUNDS = 3


def weather(arguments: Json) -> str:
    """The tool."""
    return f"{arguments['city']} has 21 degrees"


@dataclass
class Run:
    """pieces: text as it came in a stream. calls: the arguments of the calls. usage: input and output tokens."""

    text: str = ""
    pieces: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    reasoning: str = ""
    usage: tuple[int, int] = (0, 0)


class SdkClient(ABC):
    """A client of one protocol; its answers are compared, so all of them report a `Run`."""

    @abstractmethod
    async def run(self, prompt: str, *, tools: bool = False, stream: bool = False) -> Run:
        """Asks, answers the calls until there are none, and reports all that was seen."""

    @abstractmethod
    async def close(self) -> None: ...


# What the SDK adds to a message for its user and no API takes back.
PARSED_FIELDS = {"parsed", "parsed_arguments"}


def _as_received(node: Json) -> Json:
    """A message or item of a reply as it goes into the next request: everything that came, and nothing else."""
    if hasattr(node, "model_dump"):
        node = node.model_dump(mode="json", exclude_unset=True, warnings=False)
    if isinstance(node, dict):
        return {name: _as_received(value) for name, value in node.items() if name not in PARSED_FIELDS}
    return [_as_received(element) for element in node] if isinstance(node, list) else node


class ChatClient(SdkClient):
    def __init__(self, url: str, key: str) -> None:
        self._sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    async def close(self) -> None:
        await self._sdk.close()

    async def run(self, prompt: str, *, tools: bool = False, stream: bool = False) -> Run:
        run = Run()
        messages: list[Json] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]
        tool = {"type": "function", "function": {"name": TOOL_NAME, "description": "Weather", "parameters": PARAMETERS}}
        arguments: dict[str, Json] = {"model": MODEL, "messages": messages}
        if tools:
            arguments["tools"] = [tool]
        for _ in range(MAX_ROUNDS):
            completion = await (self._streamed(arguments, run) if stream else self._whole(arguments))
            message = completion.choices[0].message
            run.text = message.content or ""
            run.reasoning += getattr(message, "reasoning_content", None) or ""
            run.usage = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
            if not message.tool_calls:
                assert completion.choices[0].finish_reason == "stop"
                return run
            assert completion.choices[0].finish_reason == "tool_calls"
            messages.append(_as_received(message))
            for sent in messages[-1]["tool_calls"]:
                sent.pop("index", None)  # the stream helper leaves it in
            for call in message.tool_calls:
                run.calls.append(json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": weather(run.calls[-1])})
        raise AssertionError("the model does not stop calling")

    async def _whole(self, arguments: dict[str, Json]) -> Json:
        return await self._sdk.chat.completions.create(**arguments)

    async def _streamed(self, arguments: dict[str, Json], run: Run) -> Json:
        arguments = {**arguments, "stream_options": {"include_usage": True}}
        async with self._sdk.chat.completions.stream(**arguments) as stream:
            async for event in stream:
                if event.type == "content.delta" and event.delta:  # the first chunk opens with an empty one
                    run.pieces.append(event.delta)
            return await stream.get_final_completion()


class ResponsesClient(SdkClient):
    def __init__(self, url: str, key: str) -> None:
        self._sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    async def close(self) -> None:
        await self._sdk.close()

    async def run(self, prompt: str, *, tools: bool = False, stream: bool = False) -> Run:
        run = Run()
        items: list[Json] = [{"role": "user", "content": prompt}]
        tool = {
            "type": "function",
            "name": TOOL_NAME,
            "description": "Weather",
            "parameters": PARAMETERS,
            "strict": True,
        }
        arguments: dict[str, Json] = {
            "model": MODEL,
            "instructions": "Be brief.",
            "input": items,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if tools:
            arguments["tools"] = [tool]
        for _ in range(MAX_ROUNDS):
            response = await (self._streamed(arguments, run) if stream else self._whole(arguments))
            assert response.status == "completed"
            run.text = response.output_text
            run.usage = (response.usage.input_tokens, response.usage.output_tokens)
            for item in response.output:
                items.append(_as_received(item))
                if item.type == "reasoning":
                    run.reasoning += "".join(part.text for part in [*item.summary, *(item.content or ())])
            called = [item for item in response.output if item.type == "function_call"]
            if not called:
                return run
            for item in called:
                run.calls.append(json.loads(item.arguments))
                output = {"type": "function_call_output", "call_id": item.call_id, "output": weather(run.calls[-1])}
                items.append(output)
        raise AssertionError("the model does not stop calling")

    async def _whole(self, arguments: dict[str, Json]) -> Json:
        return await self._sdk.responses.create(**arguments)

    async def _streamed(self, arguments: dict[str, Json], run: Run) -> Json:
        async with self._sdk.responses.stream(**arguments) as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    run.pieces.append(event.delta)
            return await stream.get_final_response()


class MessagesClient(SdkClient):
    def __init__(self, url: str, key: str) -> None:
        self._sdk = anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0)

    async def close(self) -> None:
        await self._sdk.close()

    async def run(self, prompt: str, *, tools: bool = False, stream: bool = False) -> Run:
        run = Run()
        messages: list[Json] = [{"role": "user", "content": prompt}]
        arguments: dict[str, Json] = {
            "model": MODEL,
            "max_tokens": 1000,
            "system": "Be brief.",
            "messages": messages,
        }
        if tools:
            arguments["tools"] = [{"name": TOOL_NAME, "description": "Weather", "input_schema": PARAMETERS}]
        for _ in range(MAX_ROUNDS):
            message = await (self._streamed(arguments, run) if stream else self._whole(arguments))
            run.text = "".join(block.text for block in message.content if block.type == "text")
            run.reasoning += "".join(block.thinking for block in message.content if block.type == "thinking")
            run.usage = (message.usage.input_tokens, message.usage.output_tokens)
            called = [block for block in message.content if block.type == "tool_use"]
            if not called:
                assert message.stop_reason == "end_turn"
                return run
            assert message.stop_reason == "tool_use"
            messages.append({"role": "assistant", "content": message.content})
            results = []
            for block in called:
                run.calls.append(block.input)
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": weather(block.input)})
            messages.append({"role": "user", "content": results})
        raise AssertionError("the model does not stop calling")

    async def _whole(self, arguments: dict[str, Json]) -> Json:
        return await self._sdk.messages.create(**arguments)

    async def _streamed(self, arguments: dict[str, Json], run: Run) -> Json:
        async with self._sdk.messages.stream(**arguments) as stream:
            async for event in stream:
                if event.type == "text":
                    run.pieces.append(event.text)
            return await stream.get_final_message()


# The modules whose exceptions a program catches.
SDKS: dict[Protocol, Json] = {"chat": openai, "responses": openai, "messages": anthropic}
CLIENTS: dict[Protocol, type[ChatClient] | type[ResponsesClient] | type[MessagesClient]] = {
    "chat": ChatClient,
    "responses": ResponsesClient,
    "messages": MessagesClient,
}
