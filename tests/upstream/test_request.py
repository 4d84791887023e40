"""What goes to a backend, byte by byte, and what becomes of its connection, for requests of either size."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.canonical.errors import Rejected
from proxy.upstream.backend import Backend
from proxy.upstream.pool import Answer, Body, Pool
from tests.upstream.scripted import CUT, HOLD, Scripted, Step, chunk, head, reply
from tests.upstream.test_pool import backend_at

SMALL, LARGE = b'{"a":1}', b'{"a":"' + b"x" * 600_000 + b'"}'
BOTH = pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool()
    yield pool
    await pool.close()


async def ask(pool: Pool, backend: Backend, body: Body = SMALL, method: str = "POST", **headers: str) -> Answer:
    told = backend.headers.copy()
    told.update({name.replace("_", "-"): value for name, value in headers.items()})
    return await pool.start(backend, backend.url("m", stream=False), told, body, method)


@BOTH
async def test_either_way_says_the_same_of_itself(pool: Pool, body: bytes) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        host = backend.base_url.removeprefix("http://").removesuffix("/v1")
        answer = await ask(pool, backend_at(backend.base_url), body, X_Other="é")
        answer.close()
    [asked] = backend.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.body == body
    told = dict(asked.headers)
    assert told.pop("user-agent").startswith("dragoman/")
    assert told == {
        "host": host,
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": "Bearer proxy-key",
        "x-other": "é".encode().decode("latin-1"),
    }


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("DELETE", "0"), ("POST", "0")])
async def test_the_length_of_no_body(pool: Pool, method: str, length: str | None) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        answer = await ask(pool, backend_at(backend.base_url), None, method)
        answer.close()
    assert backend.asked[0].line.startswith(method + " ")
    assert backend.asked[0].headers.get("content-length") == length


@BOTH
@pytest.mark.parametrize("value", ["a\r\nx-more: 1", "a\nb", "a\rb", "a\0b", "a\x7f"])
async def test_no_value_adds_a_line(pool: Pool, body: bytes, value: str) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        with pytest.raises(ValueError, match=r"(?i)control character"):
            await ask(pool, backend_at(backend.base_url), body, X_Told=value)
    assert backend.asked == []


async def test_a_tab_may_stand_in_a_value(pool: Pool) -> None:
    async with Scripted(reply(200, "{}")) as backend:
        answer = await ask(pool, backend_at(backend.base_url), X_Told="a\tb")
        answer.close()
    assert backend.asked[0].headers["x-told"] == "a\tb"


@BOTH
async def test_what_is_said_before_the_answer_is_passed_over(pool: Pool, body: bytes) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    async with Scripted([early, reply(200, "said")]) as backend:
        answer = await ask(pool, backend_at(backend.base_url), body)
        assert (answer.status, await answer.read()) == (200, b"said")
        answer.finish()


@BOTH
@pytest.mark.parametrize(("said", "connections"), [({}, 1), ({"connection": "close"}, 2)])
async def test_a_connection_is_used_again_unless_the_backend_closes_it(
    pool: Pool, body: bytes, said: dict[str, str], connections: int
) -> None:
    async with Scripted(reply(200, "{}", **said)) as backend:
        target = backend_at(backend.base_url)
        for _ in range(2):
            answer = await ask(pool, target, body)
            assert await answer.read() == b"{}"
            answer.finish()
    assert len({asked.connection for asked in backend.asked}) == connections


@BOTH
async def test_an_answer_without_a_body_leaves_its_connection(pool: Pool, body: bytes) -> None:
    async with Scripted(b"HTTP/1.1 204 No Content\r\n\r\n") as backend:
        target = backend_at(backend.base_url)
        for _ in range(2):
            answer = await ask(pool, target, body)
            assert (answer.status, await answer.read()) == (204, b"")
            answer.finish()
    assert len({asked.connection for asked in backend.asked}) == 1


async def test_what_nobody_asked_for_is_not_the_next_answer(pool: Pool) -> None:
    async with Scripted(reply(200, "first") + reply(200, "forged"), reply(200, "second")) as backend:
        target = backend_at(backend.base_url)
        answers = []
        for _ in range(2):
            answer = await ask(pool, target)
            answers.append(await answer.read())
            answer.finish()
    assert answers == [b"first", b"second"]


@BOTH
async def test_who_waits_for_an_answer_no_longer_closes_the_connection(pool: Pool, body: bytes) -> None:
    async with Scripted([HOLD]) as backend:
        asking = asyncio.create_task(ask(pool, backend_at(backend.base_url), body))
        await backend.got_one.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(backend.asked[0].left.wait(), 5)


async def test_an_answer_that_ends_with_its_connection_is_whole(pool: Pool) -> None:
    async with Scripted([b"HTTP/1.1 200 OK\r\n\r\n", b"all of it"]) as backend:
        answer = await ask(pool, backend_at(backend.base_url), connection="close")
        assert await answer.read() == b"all of it"
        answer.finish()


async def test_both_ways_share_their_connections(pool: Pool) -> None:
    async with Scripted(stream_of("data: 1\n\n")) as backend:
        target = backend_at(backend.base_url)
        for body in (SMALL, LARGE, SMALL):
            answer = await ask(pool, target, body)
            assert await answer.read() == b"data: 1\n\n"
            answer.finish()
    assert len({asked.connection for asked in backend.asked}) == 1


def stream_of(event: str) -> bytes:
    """A stream that comes in one piece."""
    return head() + chunk(event) + b"0\r\n\r\n"


@pytest.mark.parametrize("step", [1, 7, 40])
async def test_an_answer_in_chunks_is_the_same_however_it_comes(pool: Pool, step: int) -> None:
    said = b"HTTP/1.1 103 Early Hints\r\n\r\n" + head() + chunk("data: 1\n\n") + chunk("data: 2\n\n") + b"0\r\n\r\n"
    async with Scripted([said[at : at + step] for at in range(0, len(said), step)]) as backend:
        target = backend_at(backend.base_url)
        for _ in range(2):
            answer = await ask(pool, target)
            assert await answer.read() == b"data: 1\n\ndata: 2\n\n"
            answer.finish()
    assert len({asked.connection for asked in backend.asked}) == 1


@pytest.mark.parametrize(
    "said",
    [
        [head(), chunk("half")[:-1], CUT],
        [head(), chunk("half"), CUT],
        [head(), chunk("half"), b"0\r\n", CUT],
        [head() + chunk("half"), CUT],
    ],
)
async def test_an_answer_in_chunks_that_is_cut_is_not_whole(pool: Pool, said: list[Step]) -> None:
    async with Scripted(said) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        with pytest.raises(Rejected, match="before its answer was complete"):
            await answer.read()
        answer.close()


@pytest.mark.parametrize("said", [[head() + b"no size\r\n"], [head(), chunk("half"), b"no size\r\n"]])
async def test_broken_chunks_are_told_whenever_they_come(pool: Pool, said: list[Step]) -> None:
    async with Scripted([*said, HOLD]) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        with pytest.raises(Rejected, match="not valid HTTP"):
            await answer.read()
        answer.close()
        await asyncio.wait_for(backend.asked[0].left.wait(), 5)


async def test_what_follows_on_the_last_chunk_is_not_the_next_answer(pool: Pool) -> None:
    first = head() + chunk("first") + b"0\r\n\r\n" + reply(200, "forged")
    async with Scripted(first, reply(200, "second")) as backend:
        target = backend_at(backend.base_url)
        answers = []
        for _ in range(2):
            answer = await ask(pool, target)
            answers.append(await answer.read())
            answer.finish()
    assert answers == [b"first", b"second"]


async def test_who_does_not_read_holds_the_backend_back_and_loses_nothing(pool: Pool) -> None:
    piece = b"x" * 65_536
    async with Scripted([head(), *[chunk(piece)] * 64, b"0\r\n\r\n"]) as backend:
        answer = await ask(pool, backend_at(backend.base_url))
        read = await answer.readany()
        while more := await answer.readany():
            assert len(more) < 40 * len(piece)
            read += more
        answer.finish()
    assert read == piece * 64
