"""What OpenAI's SDK counts on, against every backend protocol, on every store."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.modelled import modelled
from tests.server.serving import Proxy

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
ASK: Any = {"model": "m", "tools": [TOOL], "reasoning": {"effort": "low", "summary": "auto"}}


def sdk(proxy: Proxy) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=proxy.url + "/v1", api_key="k", max_retries=0)


async def turn(client: AsyncOpenAI, sent: Any, *, stream: bool, **more: Any) -> Any:
    if not stream:
        return await client.responses.create(input=sent, **ASK, **more)
    async with client.responses.stream(input=sent, **ASK, **more) as events:
        async for _ in events:
            pass
        return await events.get_final_response()


def outputs(told: Any) -> list[Any]:
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": f"Rain {item.call_id[-4:]}"}
        for item in told.output
        if item.type == "function_call"
    ]


def calls_in(body: Any) -> int:
    """How many calls a backend was told of, in any protocol."""
    text = json.dumps(body)
    return max(text.count('"tool_use_id"'), text.count('"tool_call_id"'), text.count('"function_call_output"'))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_five_turns_and_a_branch(protocol: Protocol, url: str) -> None:
    async with modelled(protocol, url) as (proxy, backend), sdk(proxy) as client:
        told = await turn(client, "[[think]] Weather?", stream=False)
        first = told
        for number in range(1, 5):
            answers = outputs(told)
            sent = answers or f"[[think]] And {number}?"
            told = await turn(client, sent, stream=number % 2 == 1, previous_response_id=told.id)
        assert [item.type for item in told.output] == ["reasoning", "message", "function_call"]
        assert calls_in(backend.requests[-1]) == 2
        branch = await turn(client, outputs(first), stream=True, previous_response_id=first.id)
        assert branch.output_text == f"Results: {outputs(first)[0]['output']}"
        assert calls_in(backend.requests[-1]) == 1
        assert len(backend.requests) == 6
        again = await client.responses.retrieve(branch.id)
        assert again.output_text == branch.output_text
        assert [item.id for item in again.output] == [item.id for item in branch.output]


async def test_another_replica_goes_on(url: str) -> None:
    if url == "memory:":
        return
    async with (
        modelled("chat", url) as (one, _),
        modelled("chat", url) as (other, backend),
        sdk(one) as client,
        sdk(other) as another,
    ):
        conversation = await client.conversations.create()
        told = await client.responses.create(model="m", input="One.", conversation=conversation.id)
        again = await another.responses.retrieve(told.id)
        assert again.model_dump() == told.model_dump()
        await another.responses.create(model="m", input="Two.", conversation=conversation.id)
        await another.responses.create(model="m", input="Branch.", previous_response_id=told.id)
        assert [m["content"] for m in backend.requests[1]["messages"]] == ["One.", "You said: One.", "Branch."]
        items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
        assert len(items) == 4
        await another.responses.delete(told.id)
        with pytest.raises(NotFoundError):
            await client.responses.retrieve(told.id)
