"""Responses over a WebSocket, on backends that know nothing of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientWebSocketResponse, WSServerHandshakeError
from openai import NotFoundError

from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.modelled import modelled
from tests.server.serving import Proxy, says_hello
from tests.server.test_stored_responses import keeping
from tests.state.test_turns import ASK, sdk


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[ClientWebSocketResponse]:
    async with proxy.session.ws_connect(proxy.url.replace("http", "ws") + "/v1/responses") as socket:
        yield socket


async def said(socket: ClientWebSocketResponse) -> list[dict[str, Any]]:
    """The events up to the one that ends a response, or the error in its place."""
    events: list[dict[str, Any]] = []
    while True:
        events.append(await asyncio.wait_for(socket.receive_json(), 10))
        if events[-1]["type"] in ("response.completed", "response.failed", "error", "response.steer.failed"):
            return events


async def create(socket: ClientWebSocketResponse, text: Any, **more: Any) -> list[dict[str, Any]]:
    await socket.send_json({"type": "response.create", **ASK, "input": text, **more})
    return await said(socket)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("store", [True, False])
async def test_a_tool_loop_goes_on_over_one_connection(protocol: Protocol, store: bool) -> None:
    async with modelled(protocol) as (proxy, backend), connected(proxy) as socket, sdk(proxy) as client:
        previous: dict[str, Any] = {}
        sent: Any = "[[rounds=3]] [[think]] Weather?"
        for _ in range(4):
            events = await create(socket, sent, store=store, **previous)
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            response = events[-1]["response"]
            assert (response["status"], response["store"]) == ("completed", store)
            calls = [item for item in response["output"] if item["type"] == "function_call"]
            sent = [{"type": "function_call_output", "call_id": call["call_id"], "output": "Rain"} for call in calls]
            previous = {"previous_response_id": response["id"]}
        assert response["output"][-1]["content"][0]["text"] == "Results: Rain; Rain; Rain"
        assert len(backend.requests) == 4
        if store:
            assert (await client.responses.retrieve(response["id"])).id == response["id"]
        else:
            with pytest.raises(NotFoundError):
                await client.responses.retrieve(response["id"])


async def test_a_warm_up_asks_no_backend_and_can_be_continued() -> None:
    async with modelled("chat") as (proxy, backend), connected(proxy) as socket:
        events = await create(socket, "My name is Ada.", generate=False)
        assert [event["type"] for event in events] == [
            "response.created", "response.in_progress", "response.completed",
        ]  # fmt: skip
        warmed = events[-1]["response"]
        assert (warmed["output"], backend.requests) == ([], [])
        told = await create(socket, "And I?", previous_response_id=warmed["id"])
        assert told[-1]["type"] == "response.completed"
        assert [message["content"] for message in backend.requests[0]["messages"]] == ["My name is Ada.", "And I?"]


async def test_lanes_are_answered_beside_each_other_and_each_in_its_order() -> None:
    asked, waits = asyncio.Barrier(2), asyncio.Event()
    hello = says_hello("chat", streamed=True)
    async with keeping("chat", [asked, waits, *hello], hello) as (proxy, _, _), connected(proxy) as socket:
        base = {"type": "response.create", "model": "m", "input": "Hi"}
        await socket.send_json({**base, "stream_id": "slow"})
        await asked.wait()
        await socket.send_json({**base, "stream_id": "slow", "metadata": {"second": "yes"}})
        await socket.send_json({**base, "stream_id": "fast"})
        first = await said(socket)
        assert {event["stream_id"] for event in first} == {"fast"}
        waits.set()
        for second in (False, True):
            events = await said(socket)
            assert {event["stream_id"] for event in events} == {"slow"}
            assert ("second" in events[-1]["response"]["metadata"]) is second


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("no json", None),
        ("[]", None),
        ('{"type": "response.cancel"}', "invalid_value"),
        ('{"type": "response.create", "stream_id": "a b", "model": "m", "input": "x"}', "invalid_stream_id"),
        ('{"type": "response.create", "model": "m", "input": "x", "background": true}', "unsupported_parameter"),
        ('{"type": "response.create", "model": "m", "input": "x", "multi_agent": {}}', None),
        (
            '{"type": "response.create", "model": "m", "input": "x", "previous_response_id": "resp_none"}',
            "previous_response_not_found",
        ),
        ('{"type": "response.steer", "previous_response_id": "resp_1", "input": "x"}', "steering_not_supported"),
    ],
)
async def test_what_can_not_be_is_refused_and_the_connection_goes_on(frame: str, code: str | None) -> None:
    async with keeping("chat", says_hello("chat", streamed=True)) as (proxy, _, _), connected(proxy) as socket:
        await socket.send_str(frame)
        events = await said(socket)
        if "multi_agent" not in frame:
            assert events[-1]["error"]["code"] == code
        assert (await create(socket, "Hi"))[-1]["type"] == "response.completed"


async def test_a_backend_that_refuses_is_told_in_a_frame() -> None:
    async with modelled("chat") as (proxy, _), connected(proxy) as socket:
        (event,) = await create(socket, "[[status=429]] x")
        assert (event["type"], event["status"]) == ("error", 429)
        assert (await create(socket, "[[cut]] x"))[-2:][0]["type"] != "response.completed"


async def test_an_ordinary_get_is_not_allowed() -> None:
    async with keeping("chat", says_hello("chat", streamed=True)) as (proxy, _, _):
        status, headers, _ = await proxy.ask("GET", "/v1/responses")
        assert (status, headers["allow"]) == (405, "POST")


async def test_several_agents_are_refused_clearly() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, backend, _):
        asked = {"model": "m", "input": "x"}
        status, _, body = await proxy.post("/v1/responses", asked, {"OpenAI-Beta": "responses_multi_agent=v1"})
        assert (status, b"several agents" in body, backend.asked) == (400, True, [])


async def test_a_page_of_another_site_gets_no_connection() -> None:
    async with keeping("chat", says_hello("chat", streamed=True)) as (proxy, _, _):
        address = proxy.url.replace("http", "ws") + "/v1/responses"
        with pytest.raises(WSServerHandshakeError) as refused:
            await proxy.session.ws_connect(address, origin="https://elsewhere.example")
        assert refused.value.status == 403
        async with proxy.session.ws_connect(address, origin=proxy.url) as socket:
            assert (await create(socket, "Hi"))[-1]["type"] == "response.completed"


@pytest.mark.parametrize(("abort", "outcome"), [(False, "ok"), (True, "cancelled")])
async def test_a_connection_that_its_client_closes_well_is_no_client_that_left(abort: bool, outcome: str) -> None:
    async with modelled("chat") as (proxy, _):
        async with connected(proxy) as socket:
            await create(socket, "hello")
            if abort:
                transport = socket.get_extra_info("socket")
                assert transport is not None
                transport.shutdown(2)
        async with asyncio.timeout(10):
            while not [record for record in proxy.access.records if record["status"] == 101]:
                await proxy.access.written.wait()
                await asyncio.sleep(0)
    (record,) = (record for record in proxy.access.records if record["status"] == 101)
    assert record["outcome"] == outcome
