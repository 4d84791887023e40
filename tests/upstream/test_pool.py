"""What the pool gives for all that a backend may say, byte by byte on a real socket."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence

import pytest
from pydantic import SecretStr
from yarl import URL

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.settings import Timeouts, Upstream
from proxy.upstream.backend import Backend
from proxy.upstream.decoding import PIECE
from proxy.upstream.pool import Answer, Body, Pool
from tests.upstream.scripted import CUT, HOLD, LAST, Scripted, Step, chunk, head, reply, stream


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool()
    yield pool
    await pool.close()


def backend_at(base_url: str, **settings: object) -> Backend:
    return Backend(Upstream("backend", "chat", base_url, api_key=SecretStr("proxy-key"), **settings))  # type: ignore[arg-type]


async def ask(pool: Pool, backend: Backend, body: Body = b"{}", url: URL | None = None) -> Answer:
    return await pool.start(backend, url or backend.url("m", stream=False), backend.headers.copy(), body)


async def ask_and_read(pool: Pool, backend: Backend, body: bytes) -> bytes:
    answer = await ask(pool, backend, body)
    try:
        return await answer.read()
    finally:
        answer.close()


async def error_of(pool: Pool, script: Sequence[Step] | bytes, body: bytes = b"{}") -> tuple[Error, int]:
    """What is wrong with this answer, found at its head or in its body; and how often it was asked for."""
    async with Scripted(script) as backend:
        with pytest.raises(Rejected) as caught:
            await ask_and_read(pool, backend_at(backend.base_url), body)
        return caught.value.error, len(backend.asked)


def broken(message: str) -> Error:
    return Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)


def unreachable(why: str) -> Error:
    message = f"The backend 'backend' can't be reached: {why}."
    return Error(ErrorClass.UNREACHABLE, message, reason=Reason.UPSTREAM_UNREACHABLE)


async def test_an_answer_is_its_status_headers_and_body(pool: Pool) -> None:
    async with Scripted(reply(418, "short", "text/plain", x_request_id="1")) as backend:
        answer = await ask(pool, backend_at(backend.base_url), b'{"a":1}')
        seen = (answer.status, answer.headers["x-request-id"], await answer.read())
        answer.finish()
    assert seen == (418, "1", b"short")
    asked = backend.asked[0]
    assert (asked.line, asked.body, asked.headers["content-length"], asked.headers["authorization"]) == (
        "POST /v1/chat/completions HTTP/1.1",
        b'{"a":1}',
        "7",
        "Bearer proxy-key",
    )


async def test_a_body_of_megabytes_arrives_whole(pool: Pool) -> None:
    body = json.dumps({"text": "x" * 3_000_000}).encode()
    async with Scripted(reply(200, "{}")) as backend:
        answer = await ask(pool, backend_at(backend.base_url), body)
        answer.close()
    assert backend.asked[0].body == body


async def test_a_redirect_is_an_answer_like_any_other(pool: Pool) -> None:
    async with Scripted(reply(307, "", location="http://127.0.0.1:1/")) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        answer.close()
    assert answer.status == 307


async def test_a_stream_is_read_as_it_comes(pool: Pool) -> None:
    async with Scripted([head(), chunk("data: 1\n\n"), HOLD]) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        assert await answer.readany() == b"data: 1\n\n"
        answer.close()
        await asyncio.wait_for(backend.asked[0].left.wait(), 5)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
async def test_what_comes_compressed_all_the_same_is_decoded(pool: Pool, encoding: str) -> None:
    coded = gzip.compress(b"data: hello\n\n" * 1000)
    script = [head(content_encoding=encoding), chunk(coded[:7]), chunk(coded[7:]), LAST]
    async with Scripted(script) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        assert await answer.read() == b"data: hello\n\n" * 1000
        answer.finish()


async def test_one_that_swells_leaves_time_to_others(pool: Pool) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    swells = gzip.compress(bytes(8 * PIECE), mtime=0)
    async with Scripted(reply(200, swells, content_encoding="gzip")) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        others = asyncio.create_task(take_turns())
        assert len(await answer.read()) == 8 * PIECE
        others.cancel()
        answer.finish()
    assert turns >= 7


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", broken("The backend's answer is not valid HTTP.")),
        (
            reply(200, "x", content_encoding="br"),
            broken(
                "The backend's answer can't be read: content-encoding 'br' is not supported, only gzip and deflate are."
            ),
        ),
        (
            reply(200, "not gzip", content_encoding="gzip"),
            broken("The backend's answer is not encoded as its headers say."),
        ),
        (
            reply(200, gzip.compress(b"cut short", mtime=0)[:-4], content_encoding="gzip"),
            broken("The backend's answer is not encoded as its headers say."),
        ),
        (
            [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", CUT],
            broken("The backend broke the connection before its answer was complete."),
        ),
        (
            [head(), chunk("half"), CUT],
            broken("The backend broke the connection before its answer was complete."),
        ),
        (
            head() + b"no size\r\nhalf",
            broken("The backend's answer is not valid HTTP."),
        ),
    ],
)
async def test_an_answer_that_is_none_is_a_bad_gateway(pool: Pool, script: list[Step] | bytes, error: Error) -> None:
    assert await error_of(pool, script) == (error, 1)


async def test_a_refused_connection_says_so_without_the_address(pool: Pool) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        address = backend.base_url
    with pytest.raises(Rejected) as caught:
        await ask(pool, backend_at(address))
    assert caught.value.error == unreachable("the connection was refused")


async def test_an_unknown_host_says_so(pool: Pool) -> None:
    with pytest.raises(Rejected) as caught:
        await ask(pool, backend_at("http://no-such-host.invalid/v1"))
    assert caught.value.error == unreachable("its host name is not known")


async def test_a_connection_that_breaks_before_the_answer_is_tried_once_more(pool: Pool) -> None:
    async with Scripted([CUT], reply(200, "{}")) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        assert await answer.read() == b"{}"
        answer.finish()
    assert len(backend.asked) == 2


async def test_it_is_not_tried_a_third_time(pool: Pool) -> None:
    assert await error_of(pool, [CUT]) == (unreachable("it closed the connection without an answer"), 2)


@pytest.mark.parametrize("body", [b'{"store":true}', b'{"background":true}', b"no json"])
async def test_what_may_have_left_something_behind_is_not_asked_twice(pool: Pool, body: bytes) -> None:
    assert await error_of(pool, [CUT], body) == (unreachable("it closed the connection without an answer"), 1)


async def test_a_body_that_was_streamed_is_not_sent_twice(pool: Pool) -> None:
    async def upload() -> AsyncIterator[bytes]:
        yield b"once"

    async with Scripted([CUT]) as backend:
        with pytest.raises(Rejected):
            await ask(pool, backend_at(backend.base_url), upload())
    assert [asked.body for asked in backend.asked] == [b"once"]


async def test_a_finished_answer_leaves_its_connection_for_the_next(pool: Pool) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        for _ in range(3):
            answer = await ask(pool, backend_at(backend.base_url))
            await answer.read()
            answer.finish()
    assert [asked.connection for asked in backend.asked] == [1, 1, 1]


async def test_a_stream_that_ends_right_after_what_was_wanted_leaves_its_connection_too(pool: Pool) -> None:
    async with Scripted(stream("data: [DONE]\n\n", ": trailer\n\n")) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        await answer.readany()
        answer.finish()
        await pool.settled()
        answer = await ask(pool, backend_at(backend.base_url))
        answer.close()
    assert [asked.connection for asked in backend.asked] == [1, 1]


async def test_a_closed_answer_does_not(pool: Pool) -> None:
    async with Scripted([head(), chunk("a"), HOLD]) as backend:
        for _ in range(2):
            answer = await ask(pool, backend_at(backend.base_url))
            answer.close()
            answer.close()
    assert [asked.connection for asked in backend.asked] == [1, 2]


async def test_no_more_connections_than_the_settings_allow(pool: Pool) -> None:
    async with Scripted(reply(200, "{}")) as scripted:
        backend = backend_at(scripted.base_url, max_connections=1)
        first = await ask(pool, backend)
        waiting = asyncio.create_task(ask(pool, backend))
        await asyncio.sleep(0)
        assert len(scripted.asked) == 1
        first.close()
        (await waiting).close()
        # A slot that a failure took is given back too.
        assert backend.slots is not None
        assert not backend.slots.locked()


async def test_a_connection_that_is_not_made_in_time_is_unreachable(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_args: object, **_options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("aiohappyeyeballs.start_connection", never)
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", never)
    with pytest.raises(Rejected) as caught:
        await ask(pool, backend_at("http://127.0.0.1:9/v1", timeouts=Timeouts(connect=0.01)))
    assert caught.value.error == unreachable("the connection timed out")


async def test_another_try_meets_none_of_the_connections_that_broke_together(pool: Pool) -> None:
    """As when a backend starts again: of those that are kept, all are broken."""
    fine, both = reply(200, "{}"), asyncio.Barrier(2)
    async with Scripted([both, fine], [both, fine], [CUT], fine) as backend:
        to = backend_at(backend.base_url)
        await asyncio.gather(*(ask_and_read(pool, to, b"{}") for _ in range(2)))
        assert await ask_and_read(pool, to, b"{}") == b"{}"
    assert [asked.connection for asked in backend.asked] == [1, 2, 2, 3]
