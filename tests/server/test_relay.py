"""The streaming loop: when the client gets its status, what it hears while it waits, and how a stream ends."""

import asyncio
import gc
import json

import pytest

from proxy.server.exchange import Exchange
from proxy.server.relay import Relay
from proxy.settings import ProtocolName, Timeouts
from proxy.translation.pass_through import PassThrough
from proxy.translation.prepared import Prepared
from proxy.translation.streams import Translation
from tests.server.serving import EVENTS, PATHS, REPLIES, REQUESTS, before, begins, says_hello, serving, upstream
from tests.upstream.scripted import CUT, HOLD, LAST, Scripted, Step, chunk, head, reply, stream

PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "responses", "messages")
PAIRS = [(client, backend) for client in (*PROTOCOLS, "completions") for backend in PROTOCOLS]
SOON = 0.05

# How a stream of each protocol shows that it failed, and what must not be in it then.
FAILED = {
    "chat": b'data: {"error":',
    "completions": b'data: {"error":',
    "responses": b"event: response.failed\n",
    "messages": b"event: error\n",
}
FINISHED = {
    "chat": (b"[DONE]", b'"finish_reason":"'),
    "completions": (b"[DONE]", b'"finish_reason":"'),
    "responses": (b"response.completed", b"response.incomplete"),
    "messages": (b"message_stop", b'"stop_reason":"'),
}


def streamed(client: str) -> dict[str, object]:
    return {**REQUESTS[client], "stream": True}


def ends_as_failed(client: str, body: bytes) -> bool:
    """The stream says that it failed, ends whole, and does not look finished."""
    looks_finished = any(mark in body for mark in FINISHED[client])
    return FAILED[client] in body and body.endswith(b"\n\n") and not looks_finished


def until_text(client: str, backend_protocol: str) -> int:
    """How many events of the backend give the client something: the legacy protocol knows only text."""
    if client != "completions":
        return 2
    return 3 if backend_protocol == "chat" else 4


@pytest.mark.parametrize("end", [CUT, LAST])
@pytest.mark.parametrize("half", [b"", b"even", b'data: {"id":"x","ty'])
@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_stream_that_ends_too_early_never_looks_finished(
    client: str, backend_protocol: ProtocolName, half: bytes, end: Step
) -> None:
    script = [*begins(backend_protocol, until_text(client, backend_protocol)), *([chunk(half)] if half else []), end]
    async with before(backend_protocol, script) as (proxy, _):
        status, _, body = await proxy.post(PATHS[client], streamed(client))
        record = await proxy.record()
    assert (status, ends_as_failed(client, body)) == (200, True), body
    assert (record["status"], record["outcome"], record["reason"]) == (200, "incomplete", "upstream_error")


@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_bug_in_the_middle_is_an_error_in_the_stream(
    client: str, backend_protocol: ProtocolName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_stream: object) -> bytes:
        raise KeyError("a bug")

    monkeypatch.setattr(Translation, "end", end)
    monkeypatch.setattr(PassThrough, "end", end)
    script = [*begins(backend_protocol, until_text(client, backend_protocol)), LAST]
    async with before(backend_protocol, script) as (proxy, _):
        status, _, body = await proxy.post(PATHS[client], streamed(client))
        record = await proxy.record()
    assert (status, ends_as_failed(client, body), record["reason"]) == (200, True, "internal"), body


@pytest.mark.parametrize("backend_protocol", ["responses", "messages"])
async def test_as_long_as_the_client_has_nothing_a_failure_is_a_real_error(backend_protocol: ProtocolName) -> None:
    async with before(backend_protocol, [*begins(backend_protocol), LAST]) as (proxy, _):
        status, _, _ = await proxy.post(PATHS["completions"], streamed("completions"))
    assert status == 502


@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_backend_that_falls_silent_is_given_up(client: str, backend_protocol: ProtocolName) -> None:
    script = [*begins(backend_protocol, until_text(client, backend_protocol)), HOLD]
    async with before(backend_protocol, script, timeouts=Timeouts(idle=SOON)) as (proxy, backend):
        status, _, body = await proxy.post(PATHS[client], streamed(client))
        await asyncio.wait_for(backend.asked[0].left.wait(), 5)
        record = await proxy.record()
    assert (status, ends_as_failed(client, body), record["reason"]) == (200, True, "upstream_timeout"), body


@pytest.mark.parametrize("end", [CUT, HOLD])
@pytest.mark.parametrize("stream_wanted", [True, False])
@pytest.mark.parametrize(
    ("client", "backend_protocol", "told"),
    [
        ("messages", "chat", 4),
        ("responses", "chat", 4),
        ("completions", "chat", 5),
        ("chat", "messages", 6),
        ("responses", "messages", 6),
    ],
)
async def test_an_answer_that_lacks_only_its_end_mark_is_whole(
    client: str, backend_protocol: ProtocolName, told: int, stream_wanted: bool, end: Step
) -> None:
    """A backend that said why it stops need not say more, and may leave its connection open (mapping.md 13.6, 13.8)."""
    wire = streamed(client) if stream_wanted else REQUESTS[client]
    script = [*begins(backend_protocol, told), end]
    async with before(backend_protocol, script, timeouts=Timeouts(idle=SOON)) as (proxy, _):
        status, _, body = await proxy.post(PATHS[client], wire)
        record = await proxy.record()
    assert (status, record["outcome"], FAILED[client] in body) == (200, "ok", False), body
    assert not stream_wanted or any(mark in body for mark in FINISHED[client])


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([HOLD], 504),
        ([head(), HOLD], 504),
        ([head(), chunk(": starting\n\n"), HOLD], 504),
        ([head(), LAST], 502),
        ([head(), CUT], 502),
        (stream(": starting\n\n", ": still starting\n\n"), 502),
        (stream("\n"), 502),
    ],
)
@pytest.mark.parametrize("client", PATHS)
async def test_before_the_backend_has_begun_a_failure_is_a_real_error(
    client: str, script: list[Step], status: int
) -> None:
    async with before("chat", script, timeouts=Timeouts(first_event_stream=SOON)) as (proxy, _):
        got, headers, body = await proxy.post(PATHS[client], streamed(client))
    assert (got, headers["content-type"], "error" in json.loads(body)) == (status, "application/json", True)


@pytest.mark.parametrize("client", PATHS)
async def test_a_client_that_waits_hears_heartbeats(client: str) -> None:
    timeouts = Timeouts(commit_after=0.0, heartbeat=0.02)
    async with (
        before("chat", [HOLD], timeouts=timeouts) as (proxy, _),
        proxy.session.post(proxy.url + PATHS[client], json=streamed(client)) as response,
    ):
        heard = await response.content.readuntil(b"\n\n") + await response.content.readuntil(b"\n\n")
    assert (response.status, heard) == (200, b": ping\n\n: ping\n\n")


@pytest.mark.parametrize(
    ("client", "ping"),
    [
        ("chat", b": ping\n\n"),
        ("responses", b": ping\n\n"),
        ("messages", b'event: ping\ndata: {"type":"ping"}\n\n'),
    ],
)
@pytest.mark.parametrize("backend_protocol", PROTOCOLS)
async def test_silence_in_the_middle_is_filled_in_the_clients_dialect(
    client: str, ping: bytes, backend_protocol: ProtocolName
) -> None:
    heard = b""
    async with (
        before(backend_protocol, [*begins(backend_protocol), HOLD], timeouts=Timeouts(heartbeat=0.02)) as (proxy, _),
        proxy.session.post(proxy.url + PATHS[client], json=streamed(client)) as response,
    ):
        while heard.count(ping) < 2:
            heard += await response.content.readany()
    assert heard.endswith(ping)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_silence_in_the_middle_of_an_event_is_filled_between_two(protocol: ProtocolName) -> None:
    first, *_, last = EVENTS[protocol]
    script = [head(), chunk(first), chunk(last[:9]), HOLD]
    timeouts = Timeouts(heartbeat=0.02, idle=0.2)
    async with before(protocol, script, timeouts=timeouts) as (proxy, _):
        _, _, body = await proxy.post(PATHS[protocol], streamed(protocol))
    assert ends_as_failed(protocol, body), body
    assert body.startswith(first.encode())
    assert body.removeprefix(first.encode()).startswith((b": ping\n\n", b"event: ping\n"))


@pytest.mark.parametrize("client", PATHS)
async def test_what_fails_after_the_first_heartbeat_is_an_error_in_the_stream(client: str) -> None:
    timeouts = Timeouts(commit_after=0.0, heartbeat=0.0, first_event_stream=SOON)
    async with before("chat", [HOLD], timeouts=timeouts) as (proxy, _):
        status, headers, body = await proxy.post(PATHS[client], streamed(client))
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert body.startswith(b": ping\n\n")
    assert ends_as_failed(client, body), body


class Waiting(Scripted):
    """A backend that says nothing until it may."""

    def __init__(self, script: bytes) -> None:
        super().__init__(script)
        self.go_on = asyncio.Event()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        await self.go_on.wait()
        return await super()._answer(reader, writer, number)


@pytest.mark.parametrize("backend_protocol", ["chat", "responses"])
async def test_an_error_status_after_the_first_heartbeat_is_one_too(backend_protocol: ProtocolName) -> None:
    wire = b'{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}'
    script = b"HTTP/1.1 429 Said\r\ncontent-length: %d\r\n\r\n" % len(wire) + wire
    timeouts = Timeouts(commit_after=0.0, heartbeat=0.0)
    async with (
        Waiting(script) as backend,
        serving(upstream(backend_protocol, backend.base_url), timeouts=timeouts) as proxy,
        proxy.session.post(proxy.url + PATHS["chat"], json=streamed("chat")) as response,
    ):
        assert await response.content.readuntil(b"\n\n") == b": ping\n\n"
        backend.go_on.set()
        rest = await response.content.read()
    error = json.loads(rest.removeprefix(b"data: "))["error"]
    assert (error["message"], error["code"]) == ("slow down", "rate_limit_exceeded")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_the_backends_work(stream: bool) -> None:
    script: list[Step] = [*begins("messages"), HOLD] if stream else [HOLD]
    async with before("messages", script) as (proxy, backend):
        asking = asyncio.create_task(proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": stream}))
        await asyncio.wait_for(backend.got_one.wait(), 5)
        asking.cancel()
        await asyncio.wait_for(backend.asked[0].left.wait(), 1)
        record = await proxy.record()
    assert (record["outcome"], record["status"]) == ("cancelled", 200 if record["bytes_out"] else 499)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("client", ["chat", "messages"])
async def test_a_stream_leaves_nothing_for_the_collector(client: str, leaves: bool) -> None:
    """It seldom runs while serving, so what only it could free is as good as leaked."""
    script: list[Step] = [*begins("messages"), HOLD] if leaves else says_hello("messages", streamed=True)
    async with before("messages", script) as (proxy, _):
        gc.collect()
        gc.disable()
        try:
            async with proxy.session.post(proxy.url + PATHS[client], json=streamed(client)) as response:
                await (response.content.readany() if leaves else response.content.read())
            await proxy.record()
            for _ in range(3):
                await asyncio.sleep(0)
            kept = [type(each).__name__ for each in gc.get_objects() if isinstance(each, Relay | Exchange | Prepared)]
        finally:
            gc.enable()
    assert kept == []


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_does_not_read_is_as_good_as_gone(stream: bool) -> None:
    flood = chunk("data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 60_000}}]}) + "\n\n")
    whole = json.dumps({**REPLIES["chat"], "flood": "x" * 30_000_000})
    script = [*begins("chat"), *[flood] * 400, HOLD] if stream else [reply(200, whole)]
    async with before("chat", script, timeouts=Timeouts(client_write=0.1)) as (proxy, _):
        port = int(proxy.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        body = json.dumps({**REQUESTS["chat"], "stream": stream}).encode()
        lines = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(lines.encode() + body)
        await reader.readline()
        record = await proxy.record()
        writer.transport.abort()
    assert record["outcome"] == "cancelled"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_leaves_its_connection_to_the_backend_for_the_next(protocol: ProtocolName) -> None:
    async with before(protocol, says_hello(protocol, streamed=True)) as (proxy, backend):
        for client in ("chat", "messages", protocol):
            await proxy.post(PATHS[client], streamed(client))
            await proxy.runtime.pool.settled()
    assert {asked.connection for asked in backend.asked} == {1}


async def test_usage_behind_the_finish_of_a_chat_stream_is_passed_on() -> None:
    async with before("chat", stream(*EVENTS["chat"])) as (proxy, _):
        _, _, body = await proxy.post(PATHS["chat"], streamed("chat"))
    assert body == "".join(EVENTS["chat"]).encode()


async def test_a_total_limit_ends_a_stream_that_never_stops() -> None:
    timeouts = Timeouts(total_stream=SOON)
    async with before("messages", [*begins("messages"), HOLD], timeouts=timeouts) as (proxy, _):
        _, _, body = await proxy.post(PATHS["chat"], streamed("chat"))
    assert ends_as_failed("chat", body), body


async def test_a_whole_reply_that_does_not_come_is_a_timeout() -> None:
    async with before("messages", [HOLD], timeouts=Timeouts(first_event_whole=SOON)) as (proxy, _):
        status, headers, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-reason"], json.loads(body)["error"]["code"]) == (
        504,
        "upstream_timeout",
        "dragoman_upstream_timeout",
    )
