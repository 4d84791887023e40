"""A pod of the chart ends without a client noticing: its streams finish, and new connections go to another."""

import asyncio
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import orjson

from proxy.tenancy.keys import new_key
from tests.helm.chart import Manifest, only, render
from tests.image.backend import WORDS, HeldBackend
from tests.image.pods import Service, is_ready, pod

STREAMS = 50
LEAVING, STAYING = "127.0.0.2", "127.0.0.3"
PEPPER = "a pepper of the tests"
KEY = new_key(PEPPER.encode())

# By the protocol of the client: where it asks, and how its stream ends, well or badly.
PROTOCOLS = {
    "chat": ("/v1/chat/completions", "data: [DONE]", '"error":'),
    "responses": ("/v1/responses", '"type":"response.completed"', '"type":"response.failed"'),
    "messages": ("/v1/messages", '"type":"message_stop"', "event: error"),
}
CLIENTS = [list(PROTOCOLS)[number % 3] for number in range(STREAMS)]


def gateway(backend: HeldBackend, longest: int) -> list[Manifest]:
    """The chart's objects, for a tenant of the tests."""
    upstream = {"name": "held", "protocol": "chat", "base_url": backend.url, "headers": {"x-replica": "${REPLICA}"}}
    config = {
        "upstreams": [{**upstream, "api_key": "none"}],
        "key_pepper": "${file:/run/secrets/dragoman/pepper}",
        "tenants": [{"name": "t", "keys": [{"kid": KEY.kid, "hash": KEY.hash}]}],
        "state": {"carrier_keys": ["00" * 32]},
    }
    drain = {"maxStreamSeconds": longest, "preStopSeconds": 0, "lameDuckSeconds": 1}
    return render({"config": config, "drain": drain, "secrets": {"create": {"pepper": PEPPER}}})


def grace_period(manifests: list[Manifest]) -> int:
    seconds: int = only(manifests, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return seconds


async def ask(session: aiohttp.ClientSession, base: str, protocol: str, *, stream: bool = True) -> str:
    """The answer as it came."""
    message = {"role": "user", "content": "Count."}
    said = {"input": [message]} if protocol == "responses" else {"messages": [message]}
    more = {"max_tokens": 100} if protocol == "messages" else {}
    body = orjson.dumps({"model": "m", "stream": stream, **said, **more})
    headers = {"Authorization": f"Bearer {KEY.text}", "Content-Type": "application/json"}
    async with session.post(base + PROTOCOLS[protocol][0], data=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return (await answer.read()).decode()


async def open_streams(session: aiohttp.ClientSession, backend: HeldBackend) -> list[asyncio.Task[str]]:
    """All at the pod that will leave, and begun."""
    streams = [asyncio.create_task(ask(session, f"http://{LEAVING}:8080", one)) for one in CLIENTS]
    await backend.until_open(STREAMS)
    return streams


def new_session() -> aiohttp.ClientSession:
    """Each request on a connection of its own."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))


async def test_no_stream_is_lost_and_new_connections_go_elsewhere(tmp_path: Path) -> None:
    async with HeldBackend() as backend, new_session() as session:
        manifests = gateway(backend, longest=30)
        async with (
            pod(manifests, LEAVING, tmp_path / "leaving") as leaving,
            pod(manifests, STAYING, tmp_path / "staying"),
            Service([LEAVING, STAYING]) as service,
        ):
            streams = await open_streams(session, backend)

            asked = 0
            began = time.monotonic()
            await asyncio.to_thread(leaving.terminate)
            while await is_ready(LEAVING) or LEAVING in service.ready or not await refuses(LEAVING):
                await ask(session, service.url, "chat", stream=False)
                asked += 1
            before = len(service.sent)
            for _ in range(20):
                await ask(session, service.url, "chat", stream=False)
            assert set(service.sent[before:]) == {STAYING}
            assert asked > 0

            assert not any(stream.done() for stream in streams)
            backend.release.set()
            answers = await asyncio.gather(*streams)
            code = await asyncio.to_thread(leaving.wait)
            took = time.monotonic() - began
    assert backend.open == {LEAVING: STREAMS}
    for protocol, answer in zip(CLIENTS, answers, strict=True):
        assert all(orjson.dumps(word).decode()[1:-1] in answer for word in WORDS)
        assert PROTOCOLS[protocol][1] in answer
        assert PROTOCOLS[protocol][2] not in answer
    assert code == 0
    assert took < grace_period(manifests)


async def test_streams_that_last_too_long_are_told_in_time(tmp_path: Path) -> None:
    async with HeldBackend() as backend, new_session() as session:
        manifests = gateway(backend, longest=2)
        async with pod(manifests, LEAVING, tmp_path / "leaving") as leaving:
            streams = await open_streams(session, backend)
            began = time.monotonic()
            await asyncio.to_thread(leaving.terminate)
            answers = await asyncio.gather(*streams)
            code = await asyncio.to_thread(leaving.wait)
            took = time.monotonic() - began
    for protocol, answer in zip(CLIENTS, answers, strict=True):
        assert PROTOCOLS[protocol][2] in answer
        assert PROTOCOLS[protocol][1] not in answer or protocol == "chat"
        assert "shutting down" in answer
    assert code == 0
    assert 3 <= took < grace_period(manifests)


async def test_clients_that_do_not_read_are_not_waited_for_too_long(tmp_path: Path) -> None:
    async with HeldBackend() as backend:
        manifests = gateway(backend, longest=1)
        async with pod(manifests, LEAVING, tmp_path / "leaving") as leaving:
            with ExitStack() as stack:
                for _ in range(5):
                    stack.enter_context(ask_and_never_read())
                await backend.until_open(5)
                began = time.monotonic()
                await asyncio.to_thread(leaving.terminate)
                code = await asyncio.to_thread(leaving.wait)
                took = time.monotonic() - began
    assert code == 0
    assert took < grace_period(manifests)


def ask_and_never_read() -> socket.socket:
    """A connection whose answer stays where it is."""
    body = orjson.dumps({"model": "endless", "stream": True, "messages": [{"role": "user", "content": "Count."}]})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY.text}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = socket.create_connection((LEAVING, 8080))
    connection.sendall(head.encode() + body)
    return connection


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with (
        HeldBackend() as backend,
        new_session() as session,
        pod(gateway(backend, longest=30), LEAVING, tmp_path / "leaving") as leaving,
    ):
        streams = await open_streams(session, backend)
        await asyncio.to_thread(leaving.terminate)
        while await is_ready(LEAVING):
            pass
        await asyncio.to_thread(leaving.terminate)
        ends = await asyncio.gather(*streams, return_exceptions=True)
        assert await asyncio.to_thread(leaving.wait) == 130
    assert all(isinstance(end, aiohttp.ClientPayloadError) for end in ends)


async def refuses(address: str) -> bool:
    """Whether nobody listens there any more."""
    try:
        _, writer = await asyncio.open_connection(address, 8080)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False
