"""What a client can do wrong: each mistake has an answer in its own protocol, and the proxy serves on."""

import asyncio
import gzip
import json
import zlib

import pytest

from proxy.settings import Timeouts
from tests.server.serving import PATHS, REQUESTS, Proxy, before, says_hello

HELLO = says_hello("chat", streamed=False)
Reply = tuple[int, str | None, dict[str, object]]


def openai_error(message: str, kind: str = "invalid_request_error", **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None, **more}}


def told(client: str, message: str) -> dict[str, object]:
    """What a client is told of a mistake in its request."""
    if client == "messages":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return openai_error(message)


async def answer_to(
    body: bytes, *, path: str = PATHS["chat"], max_body: int = 1000, headers: dict[str, str] | None = None
) -> Reply:
    """(status, dragoman-reason, body without the request's id); afterwards the proxy still serves."""
    async with before("chat", HELLO, max_body=max_body) as (proxy, _):
        status, got, raw = await proxy.post(path, body, headers)
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"]))[0] == 200
    wire = json.loads(raw)
    if "request_id" in wire:
        assert wire.pop("request_id") == got["request-id"]
    return status, got.get("dragoman-reason"), wire


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The request body is not valid JSON: "),
        (b"{", "The request body is not valid JSON: "),
        (b'{"model":"m"', "The request body is not valid JSON: "),
        (b"\xff\xfe\x00", "The request body is not valid JSON: "),
        (b"\xed\xa0\x80", "The request body is not valid JSON: "),
        (b"[" * 900, "The request body is not valid JSON: "),
        (b"model=m&prompt=hello", "The request body is not valid JSON: "),
        (b"[]", "The request body must be a JSON object."),
        (b'"text"', "The request body must be a JSON object."),
        (b"null", "The request body must be a JSON object."),
        (b"{}", "model: this field is required."),
        (b'{"model":7}', "model: expected a string, got a number."),
        (b'{"model":""}', "model: must not be empty."),
        (b'{"model":"m","stream":"yes"}', "stream: expected a boolean, got a string."),
    ],
)
async def test_a_body_that_is_no_request_is_refused(client: str, body: bytes, message: str) -> None:
    status, reason, wire = await answer_to(body, path=PATHS[client])
    error = wire["error"]
    assert isinstance(error, dict)
    assert (status, reason, error["type"]) == (400, "malformed", "invalid_request_error")
    assert error["message"].startswith(message)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/octet-stream",
        "application/json; charset=utf-8",
        "Application/JSON",
        "text/json",
        "application/vnd.x+json",
    ],
)
async def test_json_may_be_called_so_or_nothing(content_type: str) -> None:
    async with before("chat", HELLO) as (proxy, _):
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], {"content-type": content_type})
    assert status == 200


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "?"]
)
async def test_what_says_that_it_is_no_json_is_refused(client: str, content_type: str) -> None:
    body = json.dumps(REQUESTS[client]).encode()
    assert await answer_to(body, path=PATHS[client], headers={"content-type": content_type}) == (
        400,
        "malformed",
        told(client, f"content-type: expected application/json, got '{content_type}'."),
    )


@pytest.mark.parametrize("client", PATHS)
async def test_a_body_over_the_limit_is_too_large(client: str) -> None:
    status, reason, wire = await answer_to(b"x" * 1001, path=PATHS[client])
    message = "The request's body is larger than 1000 bytes."
    if client == "messages":
        expected: dict[str, object] = {"type": "error", "error": {"type": "request_too_large", "message": message}}
    else:
        expected = openai_error(message, code="request_too_large")
    assert (status, reason, wire) == (413, "body_too_large", expected)


async def test_a_body_that_does_not_tell_its_size_is_stopped_at_the_limit() -> None:
    async def endless() -> object:
        while True:
            yield b"x" * 100

    async with before("chat", HELLO, max_body=1000) as (proxy, _):
        status, _, _ = await proxy.ask("POST", PATHS["chat"], body=endless())
    assert status == 413


@pytest.mark.parametrize("encode", [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_compressed_request_is_read(encode: tuple[str, object]) -> None:
    encoding, compress = encode
    assert callable(compress)
    body = compress(json.dumps(REQUESTS["chat"]).encode())
    async with before("chat", HELLO) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS["chat"], body, {"content-encoding": encoding})
    assert (status, json.loads(backend.asked[0].body)) == (200, REQUESTS["chat"])


@pytest.mark.parametrize(
    ("encoding", "body", "status", "code"),
    [
        ("zstd", b"(\xb5/\xfd", 400, "request_body_encoding_unsupported"),
        ("br", b"\x0b", 400, "request_body_encoding_unsupported"),
        ("gzip", b"plain", 400, "request_body_encoding_invalid"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-4], 400, "request_body_encoding_invalid"),
        ("gzip", gzip.compress(bytes(100_000), mtime=0), 413, "request_body_too_large_after_decoding"),
    ],
)
async def test_one_that_can_t_be_is_refused_with_the_vendors_code(
    encoding: str, body: bytes, status: int, code: str
) -> None:
    got, _, wire = await answer_to(body, path=PATHS["messages"], headers={"content-encoding": encoding})
    error = wire["error"]
    assert isinstance(error, dict)
    assert (got, error["details"]) == (status, {"error_code": code})


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "wire"),
    [
        ("POST", "/v1/nowhere", {}, 404, openai_error("There is no endpoint POST /v1/nowhere.")),
        ("GET", "/metrics", {}, 404, openai_error("There is no endpoint GET /metrics.")),
        ("POST", "/v1/files/../admin", {}, 404, openai_error("There is no endpoint POST /v1/admin.")),
        (
            "POST",
            "/v1/nowhere",
            {"anthropic-version": "2023-06-01"},
            404,
            {
                "type": "error",
                "error": {"type": "not_found_error", "message": "There is no endpoint POST /v1/nowhere."},
            },
        ),
        (
            "GET",
            "/v1/messages/nowhere",
            {},
            404,
            {
                "type": "error",
                "error": {"type": "not_found_error", "message": "There is no endpoint GET /v1/messages/nowhere."},
            },
        ),
        ("GET", "/v1/chat/completions", {}, 405, openai_error("GET is not allowed here, only POST is.")),
        ("DELETE", "/v1/models", {}, 405, openai_error("DELETE is not allowed here, only GET is.")),
        (
            "GET",
            "/v1/messages",
            {},
            405,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "GET is not allowed here, only POST is."},
            },
        ),
    ],
)
async def test_a_wrong_path_or_method_is_answered_in_the_callers_shape(
    method: str, path: str, headers: dict[str, str], status: int, wire: dict[str, object]
) -> None:
    async with before("chat", HELLO) as (proxy, backend):
        got, _, raw = await proxy.ask(method, path, headers)
        record = await proxy.record()
    seen = json.loads(raw)
    seen.pop("request_id", None)
    assert (got, seen, backend.asked) == (status, wire, [])
    assert record["status"] == status


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/v1/chat/completions", "/v1/chat/completions/", "/v1/chat/completions?beta=true"]
)
async def test_the_version_a_slash_and_a_query_make_no_difference(path: str) -> None:
    async with before("chat", HELLO) as (proxy, backend):
        status, _, _ = await proxy.post(path, REQUESTS["chat"])
    assert (status, backend.asked[0].line) == (200, "POST /v1/chat/completions HTTP/1.1")


async def spoken(proxy: Proxy, raw: bytes) -> tuple[str, dict[str, object]]:
    """The status and the JSON body of what the proxy says to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))
    writer.write(raw)
    async with asyncio.timeout(5):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        (length,) = (int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        body = await reader.readexactly(length)
    writer.close()
    return lines[0].partition(" ")[2], json.loads(body)


@pytest.mark.parametrize(
    "raw",
    [
        b"HELLO\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nbroken header\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n" + b"x-many: x\r\n" * 500 + b"\r\n",
    ],
)
async def test_what_is_not_http_gets_json_too(raw: bytes) -> None:
    async with before("chat", HELLO) as (proxy, _):
        assert await spoken(proxy, raw) == (
            "400 bad request",
            openai_error("The request is not valid HTTP."),
        )
        assert (proxy.access.records[0]["status"], proxy.access.records[0]["route"]) == (400, "unmatched")
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"]))[0] == 200


async def test_a_line_that_is_too_long_is_named() -> None:
    raw = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-long: " + b"x" * 20_000 + b"\r\n\r\n"
    async with before("chat", HELLO) as (proxy, _):
        assert await spoken(proxy, raw) == (
            "400 bad request",
            openai_error("The request has a line that is too long."),
        )


@pytest.mark.parametrize(("name", "status"), [("x-api-key", 200), ("authorization", 200), ("idempotency-key", 400)])
async def test_a_header_of_strange_bytes_is_no_bug(name: str, status: int) -> None:
    body = json.dumps(REQUESTS["chat"]).encode()
    strange = name.encode() + b": Bearer \xff\xfe\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with before("chat", HELLO, key=None) as (proxy, _):
        line, wire = await spoken(proxy, b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + strange + body)
    assert line.startswith(str(status))
    assert ("error" in wire) == (status == 400)


async def test_a_broken_chunk_in_the_body_is_refused() -> None:
    raw = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n"
    async with before("chat", HELLO) as (proxy, _):
        line, wire = await spoken(proxy, raw)
    error = wire["error"]
    assert isinstance(error, dict)
    assert (line, error["type"]) == ("400 bad request", "invalid_request_error")


async def test_a_body_that_stops_coming_is_not_waited_for_for_ever() -> None:
    raw = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\n{"
    async with before("chat", HELLO, timeouts=Timeouts(body_read=0.05)) as (proxy, _):
        assert await spoken(proxy, raw) == (
            "400 bad request",
            openai_error("The rest of the request's body did not come within 0.05 s."),
        )


async def test_a_client_may_ask_whether_to_send_its_body() -> None:
    body = json.dumps(REQUESTS["chat"]).encode()
    lines = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
    async with before("chat", HELLO) as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))
        writer.write(lines.encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()


async def test_names_that_no_header_can_hold_do_no_harm() -> None:
    async with before("chat", HELLO) as (proxy, backend):
        for name in ("模型", "a\r\nset-cookie: x=1", "\x00", "\ud800", "m" * 2000):
            status, headers, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "model": name})
            assert (status, "set-cookie" in headers) == (200, False)
            assert headers["dragoman-upstream-model"].isprintable()
    assert len(backend.asked) == 5


async def test_a_bug_of_ours_is_an_error_in_the_clients_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a bug, with sk-abcdefgh12345678 in its text")

    async with before("chat", HELLO) as (proxy, _):
        with monkeypatch.context() as patched:
            patched.setattr("proxy.translation.pair.peek", broken)
            status, headers, raw = await proxy.post(PATHS["messages"], REQUESTS["messages"])
            record = await proxy.record()
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"]))[0] == 200
    wire = json.loads(raw)
    assert wire.pop("request_id") == headers["request-id"] == record["request_id"]
    assert (record["status"], record["outcome"], record["reason"]) == (500, "proxy_error", "internal")
    assert (status, headers["dragoman-reason"], wire) == (
        500,
        "internal",
        {"type": "error", "error": {"type": "api_error", "message": "The proxy failed to handle this request."}},
    )
