"""Choices of which one fails, that nobody waits for any more, or that take too long: all end together."""

import asyncio
import gc
import json

import pytest

from proxy.server.exchange import Exchange
from proxy.server.fan_out import FanOut
from proxy.server.relay import Relay
from proxy.settings import ProtocolName, Timeouts
from proxy.translation.fan_out import Choices
from proxy.translation.prepared import Prepared
from proxy.translation.streams import Translation
from tests.harness.grammar import check_stream
from tests.server.fanning import BACKENDS, WORDS, all_left, events, fanning, says, wish
from tests.server.serving import PATHS
from tests.upstream.scripted import CUT, HOLD, LAST, Step, chunk, head, reply

SOON = 0.05
LATER = 0.3  # when something else must have come by then
BUSY = reply(529, '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')
PING = b": ping\n\n"


def begins(protocol: ProtocolName, count: int = 2, words: str = "One.") -> list[Step]:
    """The first events of an answer that is not over."""
    return [head(), *map(chunk, events(protocol, words)[:count])]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refusal_of_one_is_that_of_all_and_stops_the_others(streamed: bool) -> None:
    asked = asyncio.Barrier(3)
    scripts: list[list[Step]] = [[asked, HOLD], [asked, HOLD], [asked, BUSY]]
    async with fanning("messages", *scripts) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish(3, stream=streamed))
        await all_left(backend, 0, 1)
        record = await proxy.record()
    assert (status, json.loads(body)["error"]["message"]) == (503, "busy")
    assert (record["outcome"], record["finish_reason"], len(backend.asked)) == ("upstream_error", None, 3)


async def test_what_the_finished_ones_used_is_on_record() -> None:
    """They are billed, whatever became of the last one."""
    (hello,) = says("messages", "One.", streamed=False, meet=False)
    # With one connection the second is asked for when the first has come.
    async with fanning("messages", hello, BUSY, max_connections=1) as (proxy, _):
        await proxy.post(PATHS["chat"], wish())
        record = await proxy.record()
    assert record["tokens"]["output"] == 7  # type: ignore[index]


@pytest.mark.parametrize("end", [CUT, LAST, chunk('event: error\ndata: {"type":"error","error":{"message":"no"}}\n\n')])
@pytest.mark.parametrize("protocol", BACKENDS)
async def test_a_stream_of_which_one_breaks_never_looks_finished(protocol: ProtocolName, end: Step) -> None:
    asked = asyncio.Barrier(3)
    (whole,) = says(protocol, "Two.", streamed=True, meet=False)
    scripts = [[asked, *begins(protocol), HOLD], [asked, *whole], [asked, *begins(protocol), end, HOLD]]
    async with fanning(protocol, *scripts) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish(3, stream=True))
        await all_left(backend, 0)
        record = await proxy.record()
    assert (status, record["outcome"]) == (200, "incomplete")
    assert check_stream("chat", body, choices=3, expect_end="error") == [], body
    assert body.count(b'data: {"error"') == 1


async def test_one_that_has_not_begun_breaks_a_stream_that_has() -> None:
    begun = asyncio.Event()
    scripts: list[list[Step]] = [[*begins("messages"), HOLD], [begun, BUSY]]
    async with (
        fanning("messages", *scripts) as (proxy, backend),
        proxy.session.post(proxy.url + PATHS["chat"], json=wish(stream=True)) as response,
    ):
        heard = await response.content.readuntil(b"\n\n")
        begun.set()
        heard += await response.content.read()
        await all_left(backend, 0)
    assert check_stream("chat", heard, choices=2, expect_end="error") == [], heard
    assert b"busy" in heard


async def test_one_that_began_and_broke_in_one_read_is_told_in_the_stream() -> None:
    asked = asyncio.Barrier(2)
    broken = b"".join(events("messages", "One.")[:4]) + b"data: {\n\n"
    async with fanning("messages", [asked, HOLD], [asked, head(), chunk(broken), HOLD]) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish(stream=True))
        await all_left(backend, 0, 1)
    assert (status, check_stream("chat", body, choices=2, expect_end="error")) == (200, []), body
    assert b'"content":"On"' in body


async def test_a_bug_in_one_is_an_error_in_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_stream: object) -> bytes:
        raise KeyError("a bug")

    monkeypatch.setattr(Translation, "end", end)
    asked = asyncio.Barrier(2)
    scripts = [[asked, *begins("messages"), HOLD], [asked, *begins("messages"), LAST]]
    async with fanning("messages", *scripts) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], wish(stream=True))
        await all_left(backend, 0)
        record = await proxy.record()
    assert (status, record["reason"]) == (200, "internal")
    assert check_stream("chat", body, choices=2, expect_end="error") == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_that_leaves_ends_all_of_the_backends_work(streamed: bool) -> None:
    asked = asyncio.Barrier(4)
    script: list[Step] = [*(begins("messages") if streamed else []), asked, HOLD]
    async with fanning("messages", script) as (proxy, backend):
        asking = asyncio.create_task(proxy.post(PATHS["chat"], wish(3, stream=streamed)))
        async with asyncio.timeout(5):
            await asked.wait()
        asking.cancel()
        await all_left(backend, 0, 1, 2)
        record = await proxy.record()
    assert record["outcome"] == "cancelled"


async def test_a_client_that_does_not_read_is_as_good_as_gone() -> None:
    """It is not the backend that is too slow then."""
    flood = chunk(events("messages", "x" * 60_000)[4])
    script = [*begins("messages", 3), *[flood] * 400, HOLD]
    async with fanning("messages", script, timeouts=Timeouts(client_write=0.6, idle=LATER)) as (proxy, backend):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]), limit=1024)
        body = json.dumps(wish(stream=True)).encode()
        writer.write(f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readline()
        record = await proxy.record()
        writer.transport.abort()
    assert (record["outcome"], record["reason"], len(backend.asked)) == ("cancelled", None, 2)


# ---- time limits


@pytest.mark.parametrize("script", [[HOLD], [head(), HOLD]])
@pytest.mark.parametrize("streamed", [False, True])
async def test_one_that_does_not_begin_is_too_late_for_all(script: list[Step], streamed: bool) -> None:
    timeouts = Timeouts(first_event_stream=SOON, first_event_whole=SOON)
    async with fanning("messages", script, timeouts=timeouts) as (proxy, backend):
        status, headers, _ = await proxy.post(PATHS["chat"], wish(stream=streamed))
        await all_left(backend, 0, 1)
    assert (status, headers["dragoman-reason"]) == (504, "upstream_timeout")


@pytest.mark.parametrize("protocol", BACKENDS)
async def test_one_that_falls_silent_is_given_up_while_another_speaks(protocol: ProtocolName) -> None:
    """The other says something more often than the limit, until the client has been told."""
    told = asyncio.Event()
    tick = chunk(": still here\n\n")

    class Ticking(asyncio.Event):
        async def wait(self) -> bool:  # type: ignore[override]
            loop = asyncio.get_running_loop()
            pause = loop.create_future()
            loop.call_later(SOON / 5, pause.set_result, None)
            await asyncio.wait([pause, asyncio.ensure_future(told.wait())], return_when=asyncio.FIRST_COMPLETED)
            return True

    speaks: list[Step] = begins(protocol)
    for _ in range(200):
        speaks += [Ticking(), tick]
    scripts = [[*begins(protocol), HOLD], [*speaks, HOLD]]
    async with fanning(protocol, *scripts, timeouts=Timeouts(idle=SOON)) as (proxy, backend):
        _, _, body = await proxy.post(PATHS["chat"], wish(stream=True))
        told.set()
        await all_left(backend, 0)
        record = await proxy.record()
    assert (record["reason"], check_stream("chat", body, choices=2, expect_end="error")) == ("upstream_timeout", [])


@pytest.mark.parametrize("end", [CUT, HOLD])
@pytest.mark.parametrize("streamed", [False, True])
async def test_one_that_lacks_only_its_end_mark_is_whole(end: Step, streamed: bool) -> None:
    script: list[Step] = [*begins("messages", -1), end]
    async with fanning("messages", script, timeouts=Timeouts(idle=LATER)) as (proxy, _):
        status, _, body = await proxy.post(PATHS["chat"], wish(stream=streamed))
        record = await proxy.record()
    assert (status, record["outcome"]) == (200, "ok"), body
    assert not streamed or check_stream("chat", body, choices=2) == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_limit_for_all_ends_all(streamed: bool) -> None:
    script: list[Step] = [*begins("messages"), HOLD] if streamed else [HOLD]
    async with fanning("messages", script, timeouts=Timeouts(total_stream=LATER, total_whole=SOON)) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS["chat"], wish(stream=streamed))
        await all_left(backend, 0, 1)
        record = await proxy.record()
    assert (record["outcome"], record["reason"]) == ("incomplete" if streamed else "upstream_error", "upstream_timeout")
    if streamed:
        assert check_stream("chat", body, choices=2, expect_end="error") == [], body
    else:
        assert (status, headers["dragoman-reason"]) == (504, "upstream_timeout")


async def test_a_client_that_waits_hears_heartbeats() -> None:
    async with (
        fanning("messages", [HOLD], timeouts=Timeouts(commit_after=0.0, heartbeat=0.02)) as (proxy, _),
        proxy.session.post(proxy.url + PATHS["chat"], json=wish(stream=True)) as response,
    ):
        heard = await response.content.readuntil(b"\n\n") + await response.content.readuntil(b"\n\n")
    assert (response.status, heard) == (200, PING + PING)


async def test_silence_of_all_in_the_middle_is_filled() -> None:
    heard = b""
    async with (
        fanning("messages", [*begins("messages"), HOLD], timeouts=Timeouts(heartbeat=0.02)) as (proxy, _),
        proxy.session.post(proxy.url + PATHS["chat"], json=wish(stream=True)) as response,
    ):
        while heard.count(PING) < 2:
            heard += await response.content.readany()
    assert heard.endswith(PING)


async def test_what_fails_after_the_first_heartbeat_is_an_error_in_the_stream() -> None:
    timeouts = Timeouts(commit_after=0.0, heartbeat=0.0)
    heard = asyncio.Event()
    async with (
        fanning("messages", [HOLD], [heard, BUSY], timeouts=timeouts) as (proxy, backend),
        proxy.session.post(proxy.url + PATHS["chat"], json=wish(stream=True)) as response,
    ):
        body = await response.content.readuntil(b"\n\n")
        heard.set()
        body += await response.content.read()
        await all_left(backend, 0)
    assert body.startswith(PING)
    assert check_stream("chat", body, choices=2, expect_end="error") == [], body


# ---- afterwards


@pytest.mark.parametrize("streamed", [False, True])
async def test_connections_are_left_for_the_next(streamed: bool) -> None:
    (more,) = says("messages", "Four.", streamed=streamed, meet=False)
    async with fanning("messages", *says("messages", *WORDS, streamed=streamed), more) as (proxy, backend):
        await proxy.post(PATHS["chat"], wish(3, stream=streamed))
        await proxy.runtime.pool.settled()
        await proxy.post(PATHS["chat"], wish(1, stream=streamed))
    assert backend.connections == 3


KINDS = Relay | FanOut | Exchange | Prepared | Choices


@pytest.mark.parametrize("ends", ["well", "broken", "left"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_nothing_is_left_for_the_collector(streamed: bool, ends: str) -> None:
    """It seldom runs while serving, so what only it could free is as good as leaked."""
    asked = asyncio.Barrier(3)
    scripts = says("messages", *WORDS[:2], streamed=streamed, meet=False)
    if ends == "broken":
        scripts = [[*begins("messages"), HOLD], [*begins("messages"), LAST]] if streamed else [[HOLD], [BUSY]]
    elif ends == "left":
        scripts = [[*(begins("messages") if streamed else []), asked, HOLD]]
    async with fanning("messages", *scripts) as (proxy, _):
        gc.collect()
        gc.disable()
        try:
            asking = asyncio.create_task(proxy.post(PATHS["chat"], wish(stream=streamed)))
            if ends == "left":
                await asked.wait()
                asking.cancel()
            await asyncio.wait([asking])
            await proxy.record()
            for _ in range(5):
                await asyncio.sleep(0)
            kept = [type(each).__name__ for each in gc.get_objects() if isinstance(each, KINDS)]
        finally:
            gc.enable()
    assert kept == []
