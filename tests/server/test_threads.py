"""Threads of Messages on any backend: Anthropic's own tool runner, which uses them by default, is the judge."""

import asyncio
import json

import anthropic
import pytest
from anthropic import AsyncAnthropic, beta_async_tool

from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.modelled import modelled
from tests.server.serving import Proxy, says_hello
from tests.server.test_stored_responses import keeping

PROMPT = "[[rounds=3]] [[think]] Weather?"


@beta_async_tool
async def get_weather(city: str) -> str:
    """Current weather.

    Args:
        city: A city.
    """
    return f"Rain in {city}"


def sdk(proxy: Proxy) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=proxy.url, api_key="k", max_retries=0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_tool_runner_finishes_three_rounds_by_its_thread(protocol: Protocol, stream: bool) -> None:
    async with modelled(protocol) as (proxy, backend), sdk(proxy) as client:
        runner = client.beta.messages.tool_runner(
            model="m",
            max_tokens=2000,
            tools=[get_weather],
            messages=[{"role": "user", "content": PROMPT}],
            stream=stream,  # type: ignore[call-overload]
        )
        last = None
        async for step in runner:
            last = await step.get_final_message() if stream else step
        assert last is not None
        assert last.content[-1].text == "Results: " + "; ".join(["Rain in Lima"] * 3)
        sent = [record for record in proxy.access.records if record["status"] == 200]
        assert len(sent) == len(backend.requests) == 4
        sizes = [int(str(record["bytes_in"])) for record in sent]
        assert max(sizes[1:]) < sizes[0]  # none but the first holds the tools and the prompt


async def ask(proxy: Proxy, thread: object, **more: object) -> tuple[int, dict[str, object]]:
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], "thread": thread, **more}
    status, _, told = await proxy.post("/v1/messages", body)
    return status, json.loads(told)


def code(told: dict[str, object]) -> object:
    return told["error"]["details"]["error_code"]  # type: ignore[index]


async def test_a_thread_is_continued_once() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, backend, _):
        _, first = await ask(proxy, {"type": "create"}, system="Be brief.")
        on = {"type": "continue", "previous_message_id": first["id"]}
        status, second = await ask(proxy, on)
        assert status == 200
        assert [m["role"] for m in json.loads(backend.asked[1].body)["messages"]] == [
            "system", "user", "assistant", "user",
        ]  # fmt: skip
        status, told = await ask(proxy, on)
        assert (status, code(told)) == (400, "thread_already_continued")
        assert (await ask(proxy, {"type": "continue", "previous_message_id": second["id"]}))[0] == 200


async def test_of_two_that_continue_a_thread_one_is_told_to_wait() -> None:
    asked, goes_on = asyncio.Barrier(2), asyncio.Event()
    slow = [asked, goes_on, *says_hello("chat", streamed=False)]
    async with keeping("chat", says_hello("chat", streamed=False), slow) as (proxy, _, _):
        _, first = await ask(proxy, {"type": "create"})
        on = {"type": "continue", "previous_message_id": first["id"]}
        waiting = asyncio.create_task(ask(proxy, on))
        await asked.wait()
        status, told = await ask(proxy, on)
        assert (status, code(told)) == (400, "thread_continue_in_flight")
        goes_on.set()
        assert (await waiting)[0] == 200


async def test_a_thread_can_be_continued_after_a_failure() -> None:
    broken = b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"
    scripts = [says_hello("chat", streamed=False), [broken], [broken], says_hello("chat", streamed=False)]
    async with keeping("chat", *scripts) as (proxy, _, _):
        _, first = await ask(proxy, {"type": "create"})
        on = {"type": "continue", "previous_message_id": first["id"]}
        assert (await ask(proxy, on))[0] >= 500
        assert (await ask(proxy, on))[0] == 200


@pytest.mark.parametrize(
    ("thread", "more", "status", "said"),
    [
        ({"type": "continue", "previous_message_id": "msg_none"}, {}, 404, "msg_none"),
        ({"type": "continue"}, {}, 400, "thread.previous_message_id"),
        ({"type": "fork"}, {}, 400, "thread.type"),
        ("create", {}, 400, "thread"),
        ({"type": "continue", "previous_message_id": "msg_1"}, {"system": "x"}, 400, "system"),
    ],
)
async def test_a_thread_that_can_not_be_is_refused(
    thread: object, more: dict[str, object], status: int, said: str
) -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, backend, _):
        told_status, told = await ask(proxy, thread, **more)
        assert told_status == status
        assert said in told["error"]["message"]  # type: ignore[index]
        assert backend.asked == []


async def test_a_mistake_is_told_at_the_place_that_the_client_knows() -> None:
    async with keeping("chat", says_hello("chat", streamed=False)) as (proxy, _, _):
        _, first = await ask(proxy, {"type": "create"})
        on = {"type": "continue", "previous_message_id": first["id"]}
        status, told = await ask(proxy, on, messages=[{"role": "user", "content": 7}])
        assert (status, told["error"]["message"][:19]) == (400, "messages[0].content")  # type: ignore[index]
        assert (await ask(proxy, on))[0] == 200  # it has been given back


async def test_an_unknown_thread_makes_the_sdk_send_everything() -> None:
    async with modelled("chat") as (proxy, backend), sdk(proxy) as client:
        thread = client.beta.messages.thread(model="m", max_tokens=100)
        await thread.send({"role": "user", "content": "One."})
        keeping_now = proxy.runtime.keeping
        assert keeping_now is not None
        await keeping_now.store.close()  # which forgets all
        told = await thread.send({"role": "user", "content": "Two."})
        assert isinstance(told, anthropic.types.beta.BetaMessage)
        assert [m["role"] for m in backend.requests[-1]["messages"]] == ["user", "assistant", "user"]
