"""A store that is down at the start, goes away and comes back, or is full: who needs it is told, others go on."""

import json
import resource
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness.model_backend import ModelBackend
from tests.harness.postgres_server import PostgresServer
from tests.harness.proxy_process import SERVE, ProxyProcess
from tests.harness.redis_server import RedisServer
from tests.server.modelled import modelled
from tests.server.serving import Proxy

HELLO = {"model": "m", "input": "Hi"}


async def ask(proxy: Proxy, body: Any, path: str = "/v1/responses") -> tuple[int, Any]:
    status, _, told = await proxy.post(path, body)
    return status, json.loads(told)


async def test_others_go_on_while_the_store_is_down(server: RedisServer | PostgresServer) -> None:
    async with modelled("chat", server.url) as (proxy, backend):
        # Down at the start.
        status, told = await ask(proxy, HELLO)
        assert (status, told["store"]) == (200, False)
        for body in (
            {**HELLO, "store": True},
            {**HELLO, "background": True},
            {**HELLO, "previous_response_id": "resp_1"},
            {**HELLO, "conversation": "conv_1"},
        ):
            status, told = await ask(proxy, body)
            assert status == 503, body
            assert told["error"]["type"] == "service_unavailable_error"
        assert (await ask(proxy, {"items": []}, "/v1/conversations"))[0] == 503
        assert (await proxy.ask("GET", "/v1/responses/resp_1"))[0] == 503
        streamed = await proxy.post("/v1/responses", {**HELLO, "stream": True})
        assert b"response.completed" in streamed[2]
        message = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
        assert (await ask(proxy, {**message, "thread": {"type": "create"}}, "/v1/messages"))[0] == 200
        going_on = {"type": "continue", "previous_message_id": "msg_1"}
        status, told = await ask(proxy, {**message, "thread": going_on}, "/v1/messages")
        assert (status, told["error"]["details"]["error_code"]) == (404, "thread_not_found")
        # Comes back.
        server.start()
        status, kept = await ask(proxy, {**HELLO, "store": True})
        assert (status, kept["store"]) == (200, True)
        assert (await ask(proxy, {**HELLO, "previous_response_id": kept["id"]}))[0] == 200
        # Goes away once more.
        server.kill()
        assert (await ask(proxy, {**HELLO, "previous_response_id": kept["id"]}))[0] == 503
        assert (await ask(proxy, HELLO))[0] == 200
        server.start()
        assert (await ask(proxy, {**HELLO, "store": True}))[0] == 200
        assert len(backend.requests) >= 6


@pytest.fixture(params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest) -> Any:
    """One that is not running yet."""
    one = RedisServer() if request.param == "redis" else PostgresServer(durable=False)
    if isinstance(one, PostgresServer):
        one.start()  # once, for its files
        one.kill()
    yield one
    one.stop()


async def test_a_folder_that_is_not_there_is_an_outage_until_it_is(tmp_path: Path) -> None:
    async with modelled("chat", f"sqlite://{tmp_path}/later/state.db") as (proxy, _):
        assert (await ask(proxy, {**HELLO, "store": True}))[0] == 503
        (tmp_path / "later").mkdir()
        assert (await ask(proxy, {**HELLO, "store": True}))[0] == 200


async def test_a_full_disk_is_told_and_what_was_kept_stays(tmp_path: Path) -> None:
    backend = ModelBackend("chat", "upstream-key")
    await backend.start()
    limited = ("prlimit", f"--fsize={512 * 1024}:{resource.RLIM_INFINITY}", *SERVE)
    state = {"url": f"sqlite://{tmp_path}/state.db"}
    proxy = ProxyProcess("chat", backend.url, command=limited, more={"state": state})
    try:
        await proxy.start()
        async with aiohttp.ClientSession() as session:
            statuses, kept = [], []
            for _ in range(40):
                body = {**HELLO, "input": "x" * 50_000, "store": True}
                async with session.post(proxy.url + "/v1/responses", json=body) as reply:
                    statuses.append(reply.status)
                    if reply.status == 200:
                        kept.append((await reply.json())["id"])
            assert statuses[0] == 200
            assert statuses[-1] == 503
            async with session.post(proxy.url + "/v1/responses", json={**HELLO, "input": "y" * 50_000}) as reply:
                assert (reply.status, (await reply.json())["store"]) == (200, False)
            for one in kept:
                async with session.get(f"{proxy.url}/v1/responses/{one}") as reply:
                    assert reply.status == 200
    finally:
        await proxy.stop()
        await backend.stop()


async def test_a_response_that_is_too_large_is_not_kept_and_says_so(url: str) -> None:
    async with modelled("chat", url, most=2000) as (proxy, _):
        large = {**HELLO, "input": "x" * 3000}
        assert (await ask(proxy, large))[1]["store"] is False
        assert (await ask(proxy, {**large, "store": True}))[0] == 503
        assert (await ask(proxy, {**HELLO, "store": True}))[0] == 200


async def test_a_stream_that_had_to_be_kept_and_could_not_be_ends_in_an_error() -> None:
    async with modelled("chat", "memory:", most=2000) as (proxy, _):
        large = {**HELLO, "input": "x" * 3000, "stream": True, "store": True}
        _, _, told = await proxy.post("/v1/responses", large)
        events = [json.loads(line[6:]) for line in told.decode().splitlines() if line.startswith("data: {")]
        assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert len({event["response"]["id"] for event in events if "response" in event}) == 1
        assert (await proxy.record())["outcome"] == "incomplete"
        chat = {"model": "m", "messages": [{"role": "user", "content": "x" * 3000}], "stream": True, "store": True}
        _, _, told = await proxy.post("/v1/chat/completions", chat)
        assert b"[DONE]" not in told
        assert json.loads(told.rstrip().rpartition(b"data: ")[2])["error"]["type"] == "service_unavailable_error"
