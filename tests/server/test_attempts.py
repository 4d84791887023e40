"""The table of operations.md 11: what follows from which failure, whole and streamed."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from proxy.settings import ProtocolName, Timeouts
from tests.server.falling import Target, before_all, metrics, says, told
from tests.server.serving import PATHS, REQUESTS, says_hello
from tests.upstream.scripted import CUT, HOLD, Step, stream

FIRST_ERROR = stream('data: {"error":{"message":"Oops.","type":"server_error","param":null,"code":null}}\n\n')
SHORT = Timeouts(first_event_stream=0.15, first_event_whole=0.15)

# What the first target says; how often it is asked; whether the next one is.
ROWS: dict[str, tuple[Sequence[Step] | bytes, int, bool]] = {
    "connection reset": ([CUT], 2, True),
    "no first event": ([HOLD], 1, True),
    "408": (says(408), 2, True),
    "500": (says(500), 2, True),
    "502": (says(502), 2, True),
    "503": (says(503), 2, True),
    "504": (says(504), 2, True),
    "529": (says(529), 1, True),
    "503 overloaded": (says(503, "service_unavailable_error", "server_is_overloaded"), 1, True),
    "500 with a long Retry-After": (says(500, retry_after="60"), 1, True),
    "500 that is final": (says(500, x_should_retry="false"), 1, True),
    "429 without Retry-After": (says(429, "requests", "rate_limit_exceeded"), 1, True),
    "429 with a short one": (says(429, "requests", "rate_limit_exceeded", retry_after_ms="1"), 2, True),
    "429 with a long one": (says(429, "requests", "rate_limit_exceeded", retry_after="60"), 1, True),
    "429 quota": (says(429, "insufficient_quota", "insufficient_quota"), 1, True),
    "401": (says(401, "invalid_request_error", "invalid_api_key"), 1, True),
    "402": (says(402), 1, True),
    "403": (says(403), 1, True),
    "400": (says(400, "invalid_request_error"), 1, False),
    "404": (says(404, "invalid_request_error"), 1, False),
    "409": (says(409, "invalid_request_error"), 1, False),
    "413": (says(413, "invalid_request_error"), 1, False),
    "422": (says(422, "invalid_request_error"), 1, False),
    "context length": (says(400, "invalid_request_error", "context_length_exceeded"), 1, False),
    "content refused": (says(400, "invalid_request_error", "content_policy_violation"), 1, False),
}
PAIRS: list[tuple[str, ProtocolName]] = [("chat", "chat"), ("messages", "chat"), ("chat", "messages")]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstream.health.FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("client", "second"), PAIRS)
@pytest.mark.parametrize("row", ROWS)
async def test_what_follows_from_a_failure(client: str, second: ProtocolName, row: str, streamed: bool) -> None:
    script, asked, goes_on = ROWS[row]
    timeouts = SHORT if script == [HOLD] else None
    hello = says_hello(second, streamed=streamed)
    async with before_all(Target("chat", [script], timeouts=timeouts), Target(second, [hello])) as (proxy, backends):
        status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": streamed})
        record = await proxy.record()
    assert [len(backend.asked) for backend in backends] == [asked, int(goes_on)]
    if goes_on:
        attempts = 2 if script == [CUT] else asked + 1  # the second connection is a part of the first attempt
        assert (status, told(headers)) == (200, (str(attempts), "1", "two"))
        assert (record["fallback_from"], record["upstream"], record["attempts"]) == ("one", "two", attempts)
        assert b"Hel" in body
    else:
        refused = int(row[:3]) if row[:3].isdigit() else 400
        assert status in ({refused} if client == "chat" else {refused, 400})
        assert told(headers) == ("1", None, "one")
        assert "fallback_from" not in record


@pytest.mark.parametrize("client", ["chat", "messages"])
@pytest.mark.parametrize(
    "script", [FIRST_ERROR, stream(), stream(": a comment\n\n")], ids=["error", "empty", "comment"]
)
async def test_a_stream_that_does_not_begin_is_not_committed(client: str, script: Sequence[Step]) -> None:
    hello = says_hello("messages", streamed=True)
    async with before_all(Target("chat", [script]), Target("messages", [hello])) as (proxy, backends):
        status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": True})
    assert (status, headers["dragoman-upstream"]) == (200, "two")
    assert b"Hel" in body
    assert b"Oops" not in body
    assert len(backends[1].asked) == 1


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("client", "protocol"), [("chat", "chat"), ("messages", "chat"), ("chat", "messages")])
async def test_one_target_alone_is_asked_once_more(client: str, protocol: ProtocolName, streamed: bool) -> None:
    says_no = says(500)
    hello = says_hello(protocol, streamed=streamed)
    async with before_all(Target(protocol, [says_no, hello])) as (proxy, backends):
        status, headers, _ = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": streamed})
        assert await metrics(proxy, "retries") == {("one", "server_error"): 1}
        assert await metrics(proxy, "attempts") == {("one", "retryable"): 1, ("one", "ok"): 1}
    assert (status, told(headers)) == (200, ("2", None, "one"))
    assert backends[0].asked[0].body == backends[0].asked[1].body


@pytest.mark.parametrize("streamed", [False, True])
async def test_nobody_listens(streamed: bool) -> None:
    hello = says_hello("responses", streamed=streamed)
    async with before_all(Target("chat", []), Target("responses", [hello])) as (proxy, _):
        status, headers, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": streamed})
        assert await metrics(proxy, "fallbacks") == {("one", "two", "ok"): 1}
    assert (status, told(headers)) == (200, ("2", "1", "two"))


async def test_when_all_fail_the_last_is_told_and_counted() -> None:
    async with before_all(
        Target("chat", [says(529)]), Target("chat", [says(429, "requests", "rate_limit_exceeded", retry_after="7300")])
    ) as (proxy, _):
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert await metrics(proxy, "fallbacks") == {("one", "two", "failed"): 1}
    assert (status, told(headers)) == (429, ("2", "1", "two"))
    assert (headers["retry-after"], headers["dragoman-retry-after"]) == ("120", "7300")


async def test_all_attempts_have_the_time_of_one() -> None:
    """Both are silent: together they may take as long as the more patient one."""
    patient = Timeouts(first_event_whole=0.3)
    async with before_all(Target("chat", [[HOLD]], timeouts=SHORT), Target("chat", [[HOLD]], timeouts=patient)) as (
        proxy,
        backends,
    ):
        began = asyncio.get_running_loop().time()
        status, headers, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        took = asyncio.get_running_loop().time() - began
        attempts = await metrics(proxy, "attempts")
    assert (status, told(headers)) == (504, ("2", "1", "two"))
    assert attempts == {("one", "timeout_first_event"): 1, ("two", "timeout_first_event"): 1}
    assert [len(backend.asked) for backend in backends] == [1, 1]
    assert took < 0.3 + 0.25
    assert b"did not answer within 0.1" in body


@pytest.mark.parametrize(
    "more", [{"store": True}, {"background": True}, {"tools": [{"type": "mcp", "server_label": "x"}]}]
)
async def test_what_does_something_is_sent_once(more: dict[str, object]) -> None:
    hello = says_hello("responses", streamed=False)
    async with before_all(Target("responses", [says(500)]), Target("responses", [hello])) as (proxy, backends):
        status, _, _ = await proxy.post(PATHS["responses"], {**REQUESTS["responses"], **more})
    assert (status, [len(backend.asked) for backend in backends]) == (500, [1, 0])


async def test_what_does_something_was_not_sent_where_there_is_no_connection() -> None:
    hello = says_hello("responses", streamed=False)
    async with before_all(Target("responses", []), Target("responses", [hello])) as (proxy, backends):
        status, _, _ = await proxy.post(PATHS["responses"], {**REQUESTS["responses"], "store": True})
    assert (status, len(backends[1].asked)) == (200, 1)


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
async def test_after_the_first_byte_nobody_else_is_asked(client: str) -> None:
    began = says_hello("chat", streamed=True)[:4]
    async with (
        before_all(Target("chat", [[*began, CUT]]), Target("chat", [says_hello("chat", streamed=True)])) as (
            proxy,
            backends,
        ),
        proxy.session.post(
            proxy.url + PATHS[client], data=json.dumps({**REQUESTS[client], "stream": True}).encode()
        ) as response,
    ):
        body = await response.read()
    assert (response.status, [len(backend.asked) for backend in backends]) == (200, [1, 0])
    assert b"error" in body


async def test_a_heartbeat_is_a_byte_as_well() -> None:
    """The client has its 200: what fails then is told in the stream, and nobody else is asked."""
    fails = asyncio.Event()
    early = Timeouts(commit_after=0.01)
    script: list[Step] = [fails, says(500)]
    async with before_all(
        Target("chat", [script], timeouts=early), Target("chat", [says_hello("chat", streamed=True)], timeouts=early)
    ) as (proxy, backends):
        request = json.dumps({**REQUESTS["messages"], "stream": True}).encode()
        async with proxy.session.post(proxy.url + PATHS["messages"], data=request) as response:
            first = await response.content.readany()
            fails.set()
            rest = await response.read()
    assert (response.status, first[:1]) == (200, b":")
    assert b"event: error" in rest
    assert [len(backend.asked) for backend in backends] == [1, 0]


async def test_heartbeats_count_from_the_first_attempt() -> None:
    """A second attempt does not make the client wait for its status as long again."""
    early = Timeouts(commit_after=0.2)
    goes_on = asyncio.Event()
    hello: list[Step] = [goes_on, *says_hello("chat", streamed=True)]
    first: list[Step] = [goes_on, says(529)]
    async with before_all(Target("chat", [first], timeouts=early), Target("chat", [hello], timeouts=early)) as (
        proxy,
        backends,
    ):
        request = json.dumps({**REQUESTS["chat"], "stream": True}).encode()
        waiting = asyncio.create_task(proxy.session.post(proxy.url + PATHS["chat"], data=request))
        await backends[0].got_one.wait()
        goes_on.set()
        async with await waiting as response:
            body = await response.read()
    assert (response.status, response.headers["dragoman-upstream"]) == (200, "two")
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_that_leaves_while_nobody_is_asked(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts: no task is left, nothing is asked, and the record says who left."""
    monkeypatch.setattr("proxy.upstream.health.FIRST_PAUSE", 30.0)
    async with before_all(Target("chat", [says(500)])) as (proxy, backends):
        request = json.dumps({**REQUESTS["messages"], "stream": streamed}).encode()
        waiting = asyncio.create_task(proxy.session.post(proxy.url + PATHS["messages"], data=request))
        await backends[0].got_one.wait()
        async with asyncio.timeout(5):
            while not await metrics(proxy, "retries"):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)
        waiting.cancel()
        record = await proxy.record()
        assert (record["outcome"], record["attempts"]) == ("cancelled", 1)
        assert len(backends[0].asked) == 1
        assert proxy.runtime.open == set()
        left = [task for task in asyncio.all_tasks() if "RequestHandler.start" in repr(task)]
        if left:
            await asyncio.wait(left, timeout=5)
        assert all(task.done() for task in left)
