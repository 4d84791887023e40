"""Responses in the background: polled, cancelled, resumed, and left behind by a replica that dies."""

import asyncio
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, NotFoundError

from proxy.state import Key, Put
from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.modelled import modelled
from tests.server.serving import says_hello
from tests.server.test_stored_responses import keeping
from tests.state.test_turns import ASK, sdk
from tests.upstream.scripted import HOLD


async def ended(client: AsyncOpenAI, response_id: str) -> Any:
    async with asyncio.timeout(10):
        told = await client.responses.retrieve(response_id)
        while told.status in ("queued", "in_progress"):  # a client can't know otherwise
            told = await client.responses.retrieve(response_id)
    return told


async def numbers_until_it_fails(stream: Any) -> tuple[list[int], str]:
    numbers: list[int] = []
    try:
        async for event in stream:
            numbers += [event.sequence_number]
    except APIError as error:
        return numbers, error.message
    return numbers, ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_response_is_polled_until_it_is_there(protocol: Protocol, url: str) -> None:
    async with modelled(protocol, url) as (proxy, _), sdk(proxy) as client:
        begun = await client.responses.create(input="[[think]] Weather?", background=True, **ASK)
        assert begun.status in ("queued", "in_progress")
        assert begun.background is True
        told = await ended(client, begun.id)
        assert (told.status, told.id, told.background) == ("completed", begun.id, True)
        assert [item.type for item in told.output] == ["reasoning", "message", "function_call"]
        call = told.output[-1].call_id
        result: Any = [{"type": "function_call_output", "call_id": call, "output": "Rain"}]
        last = await client.responses.create(input=result, previous_response_id=told.id, **ASK)
        assert last.output_text == "Results: Rain"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_is_resumed_from_any_event_with_none_lost_or_doubled(protocol: Protocol, url: str) -> None:
    async with modelled(protocol, url) as (proxy, _), sdk(proxy) as client:
        stream = await client.responses.create(input="[[think]] Weather?", background=True, stream=True, **ASK)
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert [event.type for event in events[:3]] == [
            "response.created", "response.queued", "response.in_progress",
        ]  # fmt: skip
        assert events[-1].type == "response.completed"
        response = events[-1].response
        for cut in (0, 1, 2, 7, len(events) - 2, len(events) - 1, len(events) + 5):
            again = await client.responses.retrieve(response.id, stream=True, starting_after=cut)
            rest = [event async for event in again]
            assert [event.model_dump() for event in rest] == [event.model_dump() for event in events[cut + 1 :]]


async def test_a_stream_is_resumed_at_another_replica_while_it_runs(url: str) -> None:
    if url == "memory:":
        return
    goes_on = asyncio.Event()
    whole = says_hello("chat", streamed=True)
    script = [*whole[:3], goes_on, *whole[3:]]
    async with keeping("chat", script, url=url) as (_, _, client), keeping("chat", script, url=url) as (_, _, other):
        stream = await client.responses.create(model="m", input="Hi", background=True, stream=True)
        events = []
        async for event in stream:
            events.append(event)
            if event.type == "response.output_text.delta":
                break
        response = events[0].response  # type: ignore[union-attr]
        resumed = await other.responses.retrieve(response.id, stream=True, starting_after=events[-1].sequence_number)
        assert (await other.responses.retrieve(response.id)).status == "in_progress"
        goes_on.set()
        rest = [event async for event in resumed]
        await stream.close()
        numbers = [event.sequence_number for event in (*events, *rest)]
        assert numbers == list(range(len(numbers)))
        assert rest[-1].type == "response.completed"
        assert rest[-1].response.output_text == "Hello"


async def test_a_response_is_cancelled_and_its_backend_stopped(url: str) -> None:
    whole = says_hello("chat", streamed=True)
    async with keeping("chat", [*whole[:3], HOLD], url=url) as (_, backend, client):
        stream = await client.responses.create(model="m", input="Hi", background=True, stream=True)
        created = await anext(aiter(stream))
        response = created.response  # type: ignore[union-attr]
        told = await client.responses.cancel(response.id)
        assert (told.status, told.id) == ("cancelled", response.id)
        assert (await client.responses.cancel(response.id)).status == "cancelled"
        assert (await client.responses.retrieve(response.id)).status == "cancelled"
        assert "response.completed" not in [event.type async for event in stream]
        async with asyncio.timeout(5):
            await backend.asked[0].left.wait()
        with pytest.raises(APIError):
            await client.responses.create(model="m", input="Again", previous_response_id=response.id)


async def test_one_that_fails_has_failed(url: str) -> None:
    async with modelled("chat", url) as (proxy, _), sdk(proxy) as client:
        for prompt in ("[[error]] x", "[[cut]] x", "[[status=500]] x"):
            begun = await client.responses.create(input=prompt, background=True, **ASK)
            told = await ended(client, begun.id)
            assert told.status == "failed"
            assert told.error is not None
        stream = await client.responses.create(input="[[cut]] x", background=True, stream=True, **ASK)
        numbers, said = await numbers_until_it_fails(stream)
        assert numbers == list(range(len(numbers)))
        assert said


async def test_what_can_not_be_begun_is_refused_at_once(url: str) -> None:
    async with modelled("chat", url) as (proxy, backend), sdk(proxy) as client:
        with pytest.raises(APIError) as told:
            await client.responses.create(model="m", input=7, background=True)  # type: ignore[arg-type]
        assert told.value.status_code == 400  # type: ignore[attr-defined]
        assert backend.requests == []


async def test_one_whose_replica_went_away_fails(url: str) -> None:
    async with modelled("chat", url) as (proxy, _), sdk(proxy) as client:
        stream = await client.responses.create(input="Hi", background=True, stream=True, **ASK)
        events = [event async for event in stream]
        response = events[0].response
        kept = proxy.runtime.keeping
        assert kept is not None
        key = Key("", "response", response.id)
        record = (await kept.store.get(*key[:2], [key.id]))[key.id]
        value = record.value.replace(b'"status":"completed"', b'"status":"in_progress"', 1)
        await kept.store.commit(Put(key, value, record.expires, lease=1.0))
        told = await ended(client, response.id)
        assert (told.status, told.error.code) == ("failed", "server_error")
        again = await client.responses.retrieve(response.id, stream=True, starting_after=2)
        numbers, said = await numbers_until_it_fails(again)
        assert numbers == list(range(3, len(events)))
        assert "went away" in said


async def test_an_unknown_one_is_not_there(url: str) -> None:
    async with modelled("chat", url) as (proxy, _), sdk(proxy) as client:
        with pytest.raises(NotFoundError):
            await client.responses.cancel("resp_none")
        with pytest.raises(NotFoundError):
            await client.responses.retrieve("resp_none", stream=True, starting_after=1)


async def test_one_whose_conversation_is_deleted_meanwhile_fails(url: str) -> None:
    goes_on = asyncio.Event()
    whole = says_hello("chat", streamed=True)
    async with keeping("chat", [*whole[:3], goes_on, *whole[3:]], url=url) as (_, _, client):
        conversation = await client.conversations.create()
        begun = await client.responses.create(model="m", input="Hi", background=True, conversation=conversation.id)
        await client.conversations.delete(conversation.id)
        goes_on.set()
        told = await ended(client, begun.id)
        assert told.status == "failed"
        assert conversation.id in told.error.message
