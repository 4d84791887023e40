"""Requests that two servers could read differently, and what is hardly HTTP: refused, or read in the one right way, and
never as two."""

import asyncio
import json
import re

import pytest

from tests.server.serving import PATHS, REQUESTS, Proxy, before, says_hello
from tests.upstream.scripted import Scripted

BODY = json.dumps(REQUESTS["chat"]).encode()
SIZE = len(BODY)
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
LENGTH = b"content-length: %d\r\n" % SIZE
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY)
# Whoever takes the end of a request to be elsewhere would see this as one of its own.
HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"

REFUSED = {
    "a length and chunks": ASK + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
    "chunks and a length": ASK + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
    "two lengths": ASK + LENGTH + b"content-length: 3\r\n\r\n" + BODY,
    "one length twice": ASK + LENGTH + LENGTH + b"\r\n" + BODY,
    "a list of lengths": ASK + b"content-length: %d, %d\r\n\r\n" % (SIZE, SIZE) + BODY,
    "a length with a sign": ASK + b"content-length: +%d\r\n\r\n" % SIZE + BODY,
    "a negative length": ASK + b"content-length: -1\r\n\r\n" + BODY,
    "a length in hex": ASK + b"content-length: 0x10\r\n\r\n" + BODY,
    "a length with an underline": ASK + b"content-length: 1_0\r\n\r\n" + BODY,
    "a length that no number holds": ASK + b"content-length: 99999999999999999999\r\n\r\n" + BODY,
    "a blank before the colon": ASK + b"content-length : %d\r\n\r\n" % SIZE + BODY,
    "a folded header": ASK + LENGTH + b"x-a: 1\r\n folded\r\n\r\n" + BODY,
    "a folded encoding": ASK + b"transfer-encoding:\r\n chunked\r\n\r\n" + CHUNKS,
    "line feeds alone": (ASK + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY,
    "a line feed in a header": ASK + b"x: y\ncontent-length: 3\r\n" + LENGTH + b"\r\n" + BODY,
    "a carriage return in a header": ASK + b"x: y\rcontent-length: 3\r\n" + LENGTH + b"\r\n" + BODY,
    "a zero byte": ASK + b"x: y\x00z\r\n" + LENGTH + b"\r\n" + BODY,
    "nearly chunked": ASK + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS,
    "chunked, and then not": ASK + b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "not chunked": ASK + b"transfer-encoding: identity\r\n" + LENGTH + b"\r\n" + BODY,
    "chunked twice": ASK + CHUNKED + CHUNKED + b"\r\n" + CHUNKS,
    "chunked behind a strange blank": ASK + b"transfer-encoding: \x0bchunked\r\n\r\n" + CHUNKS,
    "chunked before the colon": ASK + b"transfer-encoding : chunked\r\n\r\n" + CHUNKS,
    "a line feed in a chunk's extension": ASK + CHUNKED + b"\r\n%x;a\nb\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY),
    "chunks with line feeds alone": ASK + CHUNKED + b"\r\n%x\n%s\n0\n\n" % (SIZE, BODY),
    "a chunk's size with 0x": ASK + CHUNKED + b"\r\n0x%x\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY),
    "a chunk of negative size": ASK + CHUNKED + b"\r\n-1\r\n%s\r\n0\r\n\r\n" % BODY,
    "a chunk's size that no number holds": ASK + CHUNKED + b"\r\n1%016x\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY),
    "a blank behind a chunk's size": ASK + CHUNKED + b"\r\n%x \r\n%s\r\n0\r\n\r\n" % (SIZE, BODY),
    "a length behind the last chunk": ASK + CHUNKED + b"\r\n%x\r\n%s\r\n0\r\ncontent-length: 5\r\n\r\n" % (SIZE, BODY),
    "HTTP/0.9": b"GET /v1/models\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version that there is not": ASK.replace(b"1.1", b"1.2") + LENGTH + b"\r\n" + BODY,
    "a method that there is not": b"JUNK /v1/models HTTP/1.1\r\nhost: y\r\n\r\n",
    "no host": b"GET /v1/models HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "a blank in the target": b"GET /v1/mod els HTTP/1.1\r\nhost: a\r\n\r\n",
    "a hundred thousand headers": ASK + b"".join(b"x-%d: y\r\n" % number for number in range(100_000)) + b"\r\n",
}
# (request, status): what may be, which ends where it seems to.
READ = {
    "a plain request": (ASK + LENGTH + b"\r\n" + BODY, 200),
    "chunks": (ASK + CHUNKED + b"\r\n" + CHUNKS, 200),
    "chunked behind a tab": (ASK + b"transfer-encoding:\tchunked\r\n\r\n" + CHUNKS, 200),
    "a header that looks like one": (ASK + b"transfer_encoding: chunked\r\n" + LENGTH + b"\r\n" + BODY, 200),
    "chunks with extensions": (ASK + CHUNKED + b"\r\n%x;a=b\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY), 200),
    "a whole address": (ASK.replace(b"/v1", b"http://internal.example/v1", 1) + LENGTH + b"\r\n" + BODY, 200),
    "an address elsewhere": (b"GET http://169.254.169.254/latest HTTP/1.1\r\nhost: y\r\n\r\n", 404),
    "a tunnel": (b"CONNECT internal.example:443 HTTP/1.1\r\nhost: internal.example:443\r\n\r\n", 404),
    "a trace": (b"TRACE /v1/models HTTP/1.1\r\nhost: y\r\nauthorization: Bearer mine\r\n\r\n", 405),
    "everything": (b"OPTIONS * HTTP/1.1\r\nhost: y\r\n\r\n", 404),
    "empty lines before it": (b"\r\n" * 100 + ASK + LENGTH + b"\r\n" + BODY, 200),
}
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
UPGRADES = (b"h2c", b"websocket", b"TLS/1.0")


async def said(proxy: Proxy, raw: bytes) -> tuple[list[int], bytes]:
    """The statuses of what is said to these bytes, and all of it, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))
    heard = b""
    try:
        writer.write(raw)
        async with asyncio.timeout(10):
            while piece := await reader.read(65536):
                heard += piece
    except ConnectionError:
        pass  # more than is read had been sent
    finally:
        writer.close()
    return [int(status) for status in _STATUS.findall(heard)], heard


def last(raw: bytes) -> bytes:
    """The request, and behind it one that asks to close."""
    return raw + HIDDEN.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize("name", REFUSED)
async def test_what_could_be_read_in_two_ways_is_not_read(name: str) -> None:
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, backend):
        statuses, heard = await said(proxy, last(REFUSED[name]))
    assert (statuses, b"valid HTTP" in heard, backend.asked) == ([400], True, [])


@pytest.mark.parametrize("name", READ)
async def test_what_ends_where_it_seems_to_is_one_request(name: str) -> None:
    raw, status = READ[name]
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, backend):
        statuses, heard = await said(proxy, last(raw))
    assert (statuses, len(backend.asked)) == ([status, 404], int(status == 200))
    assert b"mine" not in heard
    check_where(backend)


def check_where(backend: Scripted) -> None:
    """Only what the configuration names is ever asked."""
    assert all(asked.headers["host"].startswith("127.0.0.1:") for asked in backend.asked)


@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_a_client_that_would_rather_speak_something_else_is_answered(upgrade: bytes) -> None:
    """Some HTTP clients ask so with each request, on a connection that they keep."""
    wish = b"connection: upgrade, http2-settings\r\nupgrade: %s\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n" % upgrade
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, backend):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))
        async with asyncio.timeout(10):
            for _ in range(3):
                writer.write(ASK + wish + LENGTH + b"\r\n" + BODY)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                (length,) = (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(length)
        writer.close()
    assert len(backend.asked) == 3


async def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, backend):
        wires = [json.dumps({**REQUESTS["chat"], "model": f"m-{number}"}).encode() for number in range(100)]
        raw = b"".join(ASK + b"content-length: %d\r\n\r\n" % len(wire) + wire for wire in wires)
        statuses, _ = await said(proxy, last(raw))
    assert statuses == [200] * 100 + [404]
    asked = [json.loads(each.body)["model"] for each in backend.asked]
    assert asked == [f"m-{number}" for number in range(100)]


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize(
    "member",
    [
        '"metadata":' + "[" * 100_000 + "]" * 100_000,
        '"metadata":' + '{"a":' * 100_000 + "1" + "}" * 100_000,
        '"tools":' + "[" * 100_000 + "]" * 100_000,
    ],
    ids=["lists", "objects", "tools"],
)
async def test_a_hundred_thousand_levels_are_no_json(client: str, member: str) -> None:
    raw = json.dumps(REQUESTS[client])[:-1].encode() + b"," + member.encode() + b"}"
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, backend):
        status, headers, _ = await proxy.post(PATHS[client], raw)
    assert (status, headers["dragoman-reason"], backend.asked) == (400, "malformed", [])


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("number", ["9" * 100_000, "-" + "9" * 100_000, "1e999", "1e-999999999"])
@pytest.mark.parametrize("field", ["max_tokens", "max_output_tokens", "temperature", "seed"])
async def test_a_number_that_none_holds_does_no_harm(client: str, field: str, number: str) -> None:
    raw = json.dumps(REQUESTS[client])[:-1] + f',"{field}":{number}}}'
    async with before("messages", says_hello("messages", streamed=False)) as (proxy, _):
        status, _, _ = await proxy.post(PATHS[client], raw.encode())
    assert status in (200, 400)
