"""Responses that the proxy keeps, on backends that keep none: OpenAI's own SDK is the judge."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from pydantic import SecretStr

from proxy.settings import ProtocolName
from proxy.settings.snapshot import StateSettings
from tests.server.serving import Proxy, says_hello, serving, upstream
from tests.upstream.scripted import CUT, Scripted, Step

TRANSLATED: list[ProtocolName] = ["chat", "messages"]


@asynccontextmanager
async def keeping(
    protocol: ProtocolName, *scripts: Sequence[Step] | bytes, url: str = "memory:", **more: object
) -> AsyncIterator[tuple[Proxy, Scripted, AsyncOpenAI]]:
    state = StateSettings(SecretStr(url), 3600.0)
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url)
        async with serving(to, state=state, **more) as proxy:  # type: ignore[arg-type]
            client = AsyncOpenAI(base_url=proxy.url + "/v1", api_key="k", max_retries=0)
            async with client:
                yield proxy, backend, client


@pytest.mark.parametrize("protocol", TRANSLATED)
async def test_a_turn_continues_the_one_that_it_names(protocol: ProtocolName) -> None:
    scripts = [says_hello(protocol, streamed=False) for _ in range(2)]
    async with keeping(protocol, *scripts) as (_, backend, client):
        first = await client.responses.create(model="m", input="Say hello.")
        assert first.model_dump()["store"] is True
        second = await client.responses.create(model="m", input="Again.", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        assert second.id != first.id
        sent = json.loads(backend.asked[1].body)["messages"]
        texts = [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in sent]
        assert texts == ["Say hello.", "Hello", "Again."]


async def test_an_unknown_previous_response_is_refused() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        with pytest.raises(BadRequestError) as told:
            await client.responses.create(model="m", input="Again.", previous_response_id="resp_none")
        assert (told.value.code, told.value.param) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize("protocol", TRANSLATED)
async def test_a_streamed_turn_is_kept_as_it_was_told(protocol: ProtocolName) -> None:
    scripts = [says_hello(protocol, streamed=True), says_hello(protocol, streamed=False)]
    async with keeping(protocol, *scripts) as (_, backend, client):
        async with client.responses.stream(model="m", input="Say hello.") as stream:
            events = [event async for event in stream]
            told = await stream.get_final_response()
        assert events[0].type == "response.created"
        assert events[0].response.id == told.id
        second = await client.responses.create(model="m", input="Again.", previous_response_id=told.id)
        assert len(json.loads(backend.asked[1].body)["messages"]) == 3
        assert second.output_text == "Hello"


async def test_a_response_is_read_listed_and_deleted() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        items = [{"role": "user", "content": f"Line {number}."} for number in range(5)]
        told = await client.responses.create(model="m", input=items, metadata={"a": "b"})  # type: ignore[arg-type]
        again = await client.responses.retrieve(told.id)
        assert again.model_dump() == told.model_dump()
        newest = await client.responses.input_items.list(told.id, limit=2)
        assert [item.content[0].text for item in newest.data] == ["Line 4.", "Line 3."]  # type: ignore[union-attr]
        assert newest.has_more
        every = [item async for item in client.responses.input_items.list(told.id, limit=2, order="asc")]
        assert [item.content[0].text for item in every] == [f"Line {number}." for number in range(5)]  # type: ignore[union-attr]
        assert len({item.id for item in every}) == 5
        past = await client.responses.input_items.list(told.id, after=every[-1].id, order="asc")
        assert (past.data, past.has_more) == ([], False)
        await client.responses.delete(told.id)
        for gone in (
            client.responses.retrieve(told.id),
            client.responses.delete(told.id),
            client.responses.cancel(told.id),
            client.responses.input_items.list(told.id),
        ):
            with pytest.raises(NotFoundError):
                await gone  # type: ignore[misc]
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="m", input="Again.", previous_response_id=told.id)
        assert refused.value.code == "previous_response_not_found"


async def test_what_is_not_to_be_kept_leaves_no_trace() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        told = await client.responses.create(model="m", input="Say hello.", store=False)
        assert told.model_dump()["store"] is False
        with pytest.raises(NotFoundError):
            await client.responses.retrieve(told.id)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=msg_none"])
async def test_a_page_that_can_not_be_is_refused(query: str) -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, _, client):
        told = await client.responses.create(model="m", input="Say hello.")
        status, _, body = await proxy.ask("GET", f"/v1/responses/{told.id}/input_items?{query}")
        assert status == 400
        assert json.loads(body)["error"]["param"] == query.partition("=")[0]


async def test_what_was_not_begun_in_the_background_is_not_cancelled_or_resumed() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        told = await client.responses.create(model="m", input="Say hello.")
        with pytest.raises(BadRequestError):
            await client.responses.cancel(told.id)
        with pytest.raises(BadRequestError):
            await client.responses.retrieve(told.id, stream=True, starting_after=0)


async def test_what_came_before_is_counted() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (_, _, client):
        told = await client.responses.create(model="m", input="A long story. " * 200)
        short = await client.responses.input_tokens.count(model="m", input="And?")
        whole = await client.responses.input_tokens.count(model="m", input="And?", previous_response_id=told.id)
        assert whole.input_tokens > short.input_tokens + 200


async def test_a_stream_that_breaks_keeps_its_id_and_is_not_kept() -> None:
    script = [*says_hello("responses", streamed=True)[:5], CUT]
    async with Scripted(script) as backend:
        to = upstream("responses", backend.base_url, state="proxy")
        async with serving(to, state=StateSettings(SecretStr("memory:"), 3600.0)) as proxy:
            _, _, told = await proxy.post("/v1/responses", {"model": "m", "input": "x", "stream": True})
            events = [json.loads(line[6:]) for line in told.decode().splitlines() if line.startswith("data: {")]
            ids = {event["response"]["id"] for event in events if "response" in event}
            assert (len(ids), events[-1]["type"]) == (1, "response.failed")
            assert (await proxy.ask("GET", f"/v1/responses/{ids.pop()}"))[0] == 404


@pytest.mark.parametrize(
    ("sent", "param"), [([{"role": "user", "content": "a"}, {"role": "user"}], "input[1].content"), (7, "input")]
)
async def test_a_mistake_is_told_at_the_place_that_the_client_knows(sent: object, param: str) -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, _, client):
        told = await client.responses.create(model="m", input="Hi")
        body = {"model": "m", "previous_response_id": told.id, "input": sent}
        status, _, refused = await proxy.post("/v1/responses", body)
        error = json.loads(refused)["error"]
        assert (status, error["param"]) == (400, param)
        assert error["message"].startswith(param)
