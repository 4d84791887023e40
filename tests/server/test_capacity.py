"""What is too much is refused at once, in each dialect, and cheaply; who had come before is served on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from proxy.server.connections import MAX_HEAD
from proxy.settings import Capacity, Timeouts
from tests.server.serving import PATHS, REQUESTS, Proxy, begins, says_hello, serving, upstream
from tests.upstream.scripted import HOLD, Scripted, Step

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
PROBES = ("/healthz", "/readyz", "/", "/api/hello")


@asynccontextmanager
async def able(
    *scripts: list[Step], timeouts: Timeouts | None = None, **most: float
) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """A proxy that is able to do so much, before a backend of Chat."""
    capacity = replace(Capacity(), **most)  # type: ignore[arg-type]
    async with (
        Scripted(*scripts) as backend,
        serving(upstream("chat", backend.base_url), timeouts=timeouts, capacity=capacity) as proxy,
    ):
        yield proxy, backend


async def held(proxy: Proxy, stack: AsyncExitStack, *, stream: bool) -> aiohttp.ClientResponse | asyncio.Task[object]:
    """A request that goes on."""
    asking = proxy.session.post(proxy.url + PATHS["chat"], json={**REQUESTS["chat"], "stream": stream})
    if stream:
        response = await stack.enter_async_context(asking)
        await response.content.readany()
        return response
    task: asyncio.Task[object] = asyncio.create_task(asking.__aenter__())
    stack.callback(task.cancel)
    return task


def check_told(client: str, status: int, headers: dict[str, str], body: bytes) -> None:
    """operations.md 10, "local overload"."""
    error = json.loads(body)["error"]
    if client == "messages":
        assert (status, error["type"]) == (529, "overloaded_error")
    else:
        named = error["type"], error["code"], error["param"]
        assert (status, named) == (503, ("service_unavailable_error", "server_is_overloaded", None))
    assert (headers["dragoman-reason"], headers["retry-after"]) == ("overloaded", "1")


async def check_probed(proxy: Proxy) -> None:
    assert [(await proxy.ask("GET", path))[0] for path in PROBES] == [200] * len(PROBES)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", PATHS)
async def test_more_requests_than_there_may_be_are_told_so(client: str, stream: bool) -> None:
    async with able([HOLD], max_requests=1) as (proxy, backend), AsyncExitStack() as stack:
        await held(proxy, stack, stream=False)
        await backend.got_one.wait()
        check_told(client, *await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream}))
        await check_probed(proxy)
        assert len(backend.asked) == 1
        record = proxy.access.records[0]
        assert (record["outcome"], record["reason"]) == ("proxy_error", "overloaded")


@pytest.mark.parametrize("client", PATHS)
async def test_more_streams_than_there_may_be_are_told_so(client: str) -> None:
    whole = says_hello("chat", streamed=False)
    async with able([*begins("chat"), HOLD], whole, whole, max_streams=1) as (proxy, _), AsyncExitStack() as stack:
        first = await held(proxy, stack, stream=True)
        check_told(client, *await proxy.post(PATHS[client], {**REQUESTS[client], "stream": True}))
        assert (await proxy.post(PATHS[client], REQUESTS[client]))[0] == 200
        assert isinstance(first, aiohttp.ClientResponse)
        first.close()
        async with asyncio.timeout(5):
            while proxy.runtime.load.streams:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert (await proxy.post(PATHS[client], {**REQUESTS[client], "stream": True}))[0] == 200


@pytest.mark.parametrize("client", PATHS)
async def test_a_loop_that_is_late_again_and_again_takes_no_more(client: str) -> None:
    async with able(says_hello("chat", streamed=False)) as (proxy, _):
        load = proxy.runtime.load
        load.note_lag(5.0)
        assert (await proxy.post(PATHS[client], REQUESTS[client]))[0] == 200
        load.note_lag(5.0)
        check_told(client, *await proxy.post(PATHS[client], REQUESTS[client]))
        await check_probed(proxy)
        load.note_lag(0.0)
        assert (await proxy.post(PATHS[client], REQUESTS[client]))[0] == 200


async def test_one_that_may_be_as_late_as_it_likes_does() -> None:
    async with able(says_hello("chat", streamed=False), max_lag=0) as (proxy, _):
        for _ in range(2):
            proxy.runtime.load.note_lag(5.0)
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"]))[0] == 200


# ---- connections


class Peer:
    """A connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, proxy: Proxy) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1])))

    def say(self, raw: bytes) -> None:
        self._writer.write(raw)

    async def hears(self, until: bytes = b"") -> bytes:
        """All that is said, to the end of the connection or to these bytes."""
        async with asyncio.timeout(10):
            if until:
                return await self._reader.readuntil(until)
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    def leave(self) -> None:
        self._writer.close()


@asynccontextmanager
async def peers(proxy: Proxy, count: int) -> AsyncIterator[list[Peer]]:
    made = [await Peer.of(proxy) for _ in range(count)]
    try:
        yield made
    finally:
        for peer in made:
            peer.leave()


def turned_away(proxy: Proxy, why: str) -> float:
    (family,) = [proxy.runtime.metrics.traffic.turned_away.collect()]
    return next(sample.value for sample in family.samples if sample.labels.get("reason") == why)


async def test_who_only_waits_gives_way_to_who_asks() -> None:
    async with able(says_hello("chat", streamed=False), max_connections=3) as (proxy, _), peers(proxy, 3) as waiting:
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"]))[0] == 200
        assert await waiting[0].hears() == b""
        waiting[1].say(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await waiting[1].hears(b"\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_where_all_are_served_a_newcomer_is_told_so() -> None:
    async with able([*begins("chat"), HOLD], max_connections=2) as (proxy, _), AsyncExitStack() as stack:
        for _ in range(2):
            await held(proxy, stack, stream=True)
        peer = await Peer.of(proxy)
        head, _, body = (await peer.hears()).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        check_told("chat", int(lines[0].split(" ")[1]), headers, body)
        assert (headers["connection"], turned_away(proxy, "full")) == ("close", 1)
        peer.leave()


async def test_who_says_nothing_is_let_go() -> None:
    async with able([HOLD], timeouts=Timeouts(head_read=0.05)) as (proxy, _), peers(proxy, 1) as (silent,):
        assert await silent.hears() == b""
        assert turned_away(proxy, "slow_head") == 1


async def test_who_asks_byte_by_byte_is_let_go() -> None:
    async with able([HOLD], timeouts=Timeouts(head_read=0.1)) as (proxy, backend), peers(proxy, 1) as (slow,):
        hearing = asyncio.create_task(slow.hears())
        for byte in HEAD + b"x: " + b"y" * 10_000:
            if hearing.done():
                break
            slow.say(bytes([byte]))
            await asyncio.sleep(0.001)
        assert (await hearing, backend.asked) == (b"", [])


async def test_who_asks_in_time_is_not() -> None:
    limits = Timeouts(head_read=0.05)
    async with able([*begins("chat"), HOLD], timeouts=limits) as (proxy, _), AsyncExitStack() as stack:
        await held(proxy, stack, stream=True)
        async with peers(proxy, 1) as (silent,):
            await silent.hears()
        assert len(proxy.runtime.open) == 1


async def test_a_head_without_an_end_is_not_read_to_it() -> None:
    async with able([HOLD]) as (proxy, _), peers(proxy, 1) as (peer,):
        peer.say(HEAD)
        line = b"x-%d: " + b"y" * 8000 + b"\r\n"
        for number in range(MAX_HEAD // 8000 + 2):
            peer.say(line % number)
            await asyncio.sleep(0.01)
        heard = await peer.hears()
        assert heard.startswith(b"HTTP/1.1 400 ")
        assert b"head is larger than 65536 bytes" in heard
        assert turned_away(proxy, "large_head") == 1


async def test_a_body_that_comes_byte_by_byte_is_not_waited_for() -> None:
    limits = Timeouts(body_read=0.1)
    async with able([HOLD], timeouts=limits) as (proxy, backend), peers(proxy, 1) as (slow,):
        slow.say(HEAD + b"content-length: 10000\r\nconnection: close\r\n\r\n")
        hearing = asyncio.create_task(slow.hears(b"bytes a second."))
        for _ in range(10_000):
            if hearing.done():
                break
            slow.say(b" ")
            await asyncio.sleep(0.002)
        assert (await hearing).startswith(b"HTTP/1.1 400 ")
        assert backend.asked == []
