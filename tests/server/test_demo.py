"""The demo backend, read with the vendor's own SDK."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anthropic
import pytest
from anthropic import AsyncAnthropic

from proxy.server.demo import DemoBackend, start_demo
from proxy.server.demo_script import INTRODUCTION, invent

TOOL: dict[str, Any] = {
    "name": "get_weather",
    "description": "Current weather",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "note": {"type": "string"},
        },
        "required": ["city", "days", "unit"],
    },
}
ARGUMENTS = {"city": "demo", "days": 1, "unit": "celsius"}


@pytest.fixture
async def backend() -> AsyncIterator[DemoBackend]:
    running = await start_demo(pause=0)
    yield running
    await running.close()


@pytest.fixture
async def client(backend: DemoBackend) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=backend.base_url, api_key="none", max_retries=0) as sdk:
        yield sdk


def asked(content: Any, **more: Any) -> dict[str, Any]:
    return {"model": "any", "max_tokens": 500, "messages": [{"role": "user", "content": content}], **more}


async def test_a_whole_reply_says_who_it_is_and_what_was_said(client: AsyncAnthropic) -> None:
    message = await client.messages.create(**asked("Good morning"))
    assert [block.to_dict() for block in message.content] == [
        {"type": "text", "text": f'{INTRODUCTION} You said: "Good morning"', "citations": None}
    ]
    assert (message.model, message.stop_reason) == ("any", "end_turn")
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


async def test_a_stream_folds_to_the_whole_reply(client: AsyncAnthropic) -> None:
    request = asked("Weather in Oslo?", tools=[TOOL])
    whole = await client.messages.create(**request)
    async with client.messages.stream(**request) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_message()

    def comparable(message: Any) -> list[tuple[Any, ...]]:
        parts = [(p.type, getattr(p, "text", None), getattr(p, "input", None)) for p in message.content]
        return [*parts, (message.stop_reason, message.usage.output_tokens, message.usage.input_tokens)]

    assert comparable(streamed) == comparable(whole)
    assert kinds.count("text") == len(whole.content[0].to_dict()["text"].split(" "))
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


async def test_a_tool_is_called_and_its_result_quoted(client: AsyncAnthropic) -> None:
    request = asked("Weather in Oslo?", tools=[TOOL])
    first = await client.messages.create(**request)
    text, call = first.content
    assert first.stop_reason == "tool_use"
    assert INTRODUCTION in text.text
    assert (call.name, call.input) == ("get_weather", ARGUMENTS)

    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "-3 °C, snow"}]}
    request["messages"] += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = await client.messages.create(**request)
    assert second.stop_reason == "end_turn"
    assert second.content[0].text == f'{INTRODUCTION} The tool answered: "-3 °C, snow"'


async def test_the_named_tool_is_the_one_called(client: AsyncAnthropic) -> None:
    other = {"name": "other", "input_schema": {"type": "object"}}
    choice = {"type": "tool", "name": "other"}
    message = await client.messages.create(**asked("Go", tools=[TOOL, other], tool_choice=choice))
    assert (message.content[1].name, message.content[1].input) == ("other", {})
    message = await client.messages.create(**asked("Go", tools=[TOOL], tool_choice={"type": "none"}))
    assert message.stop_reason == "end_turn"


async def test_the_limit_cuts_the_text(client: AsyncAnthropic) -> None:
    message = await client.messages.create(**{**asked("Hi"), "max_tokens": 3})
    assert (message.content[0].text, message.stop_reason, message.usage.output_tokens) == (
        "This is Dragoman's",
        "max_tokens",
        3,
    )


async def test_a_wanted_schema_is_kept_to(client: AsyncAnthropic) -> None:
    schema = {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
    config = {"format": {"type": "json_schema", "schema": schema}}
    message = await client.messages.create(**asked("Sum up", output_config=config))
    assert message.content[0].text == f'{{"summary":"{INTRODUCTION}"}}'


async def test_counting_and_models(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model="any", messages=[{"role": "user", "content": "Hi"}])
    replied = await client.messages.create(**asked("Hi"))
    assert counted.input_tokens == replied.usage.input_tokens
    assert [model.id async for model in client.models.list()] == ["dragoman-demo"]
    assert (await client.models.retrieve("any")).id == "any"


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/v1/messages", b"{", 400, "invalid_request_error"),
        ("/v1/messages", b'{"model": "a", "messages": []}', 400, "invalid_request_error"),
        ("/v1/nothing", b"{}", 404, "not_found_error"),
    ],
)
async def test_errors_have_the_shape_of_the_protocol(
    backend: DemoBackend, path: str, body: bytes, status: int, kind: str
) -> None:
    async with aiohttp.ClientSession() as session, session.post(backend.base_url + path, data=body) as response:
        assert (response.status, (await response.json())["error"]["type"]) == (status, kind)


async def test_an_sdk_raises_what_it_would_for_the_vendor(client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="messages: field required"):
        await client.messages.create(model="any", max_tokens=1, messages=None)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": ["null", "string"]}, "demo"),
        ({"type": "null"}, None),
        ({"type": "number", "minimum": 5}, 5),
        ({"type": "boolean"}, True),
        ({"const": 7}, 7),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["demo", "demo"]),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"$ref": "#/$defs/unit", "$defs": {"unit": {"enum": ["m"]}}}, "m"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
        (None, {}),
    ],
)
def test_invented_arguments_fit_their_schema(schema: Any, value: object) -> None:
    assert invent(schema, "demo") == value


def test_a_schema_that_holds_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert isinstance(invent(node, "demo"), dict)
