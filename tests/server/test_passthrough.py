"""Endpoints that nobody translates: to whom they go, and that nothing changes on the way."""

import gzip
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from openai import AsyncOpenAI
from yarl import URL

from proxy.settings import LossPolicy, ProtocolName
from tests.server.serving import before, route, serving, upstream
from tests.upstream.scripted import CUT, Scripted, reply, stream

EMBEDDING = {"model": "m", "input": "hello"}
MADE = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


async def test_an_embedding_comes_back_as_it_was_made() -> None:
    async with (
        before("chat", reply(200, json.dumps(MADE)), models=[("m", "local-m", LossPolicy())]) as (
            proxy,
            backend,
        ),
        AsyncOpenAI(base_url=proxy.url + "/v1", api_key="client-key") as openai,
    ):
        made = await openai.embeddings.create(model="m", input="hello", encoding_format="float")
    assert made.data[0].embedding == [0.5, 0.25]
    asked = backend.asked[0]
    assert (asked.line, asked.headers["authorization"]) == ("POST /v1/embeddings HTTP/1.1", "Bearer proxy-key-1")
    assert json.loads(asked.body)["model"] == "local-m"


async def test_a_body_that_names_no_other_model_passes_byte_by_byte() -> None:
    raw = b'{ "model":"m",  "input": "\\u00e9", "dimensions": 1.0 }'
    async with before("chat", reply(200, "{}")) as (proxy, backend):
        await proxy.post("/v1/embeddings?x=1&y=a%26b", raw)
    assert (backend.asked[0].line, backend.asked[0].body) == ("POST /v1/embeddings?x=1&y=a%26b HTTP/1.1", raw)


async def test_a_form_with_a_file_is_streamed_on() -> None:
    form = aiohttp.FormData()
    form.add_field("model", "whisper-1")
    form.add_field("file", b"RIFF" + bytes(300_000), filename="speech.wav", content_type="audio/wav")
    async with before("responses", reply(200, '{"text":"hello"}')) as (proxy, backend):
        status, _, body = await proxy.ask("POST", "/v1/audio/transcriptions", body=form)
    asked = backend.asked[0]
    assert (status, body) == (200, b'{"text":"hello"}')
    assert asked.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert asked.headers["content-type"].partition("boundary=")[2].encode() in asked.body
    assert len(asked.body) > 300_000


async def test_a_client_may_ask_whether_to_send_its_form() -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"RIFF", filename="speech.wav", content_type="audio/wav")
    async with before("chat", reply(200, "{}")) as (proxy, backend):
        url = proxy.url + "/v1/files"
        async with proxy.session.post(url, data=form, expect100=True) as response:
            assert response.status == 200
    assert b"RIFF" in backend.asked[0].body


async def test_a_form_that_does_not_tell_its_size_is_stopped_at_the_limit() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1000)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    async with before("chat", reply(200, "{}"), max_body=10_000) as (proxy, _):
        status, got, _ = await proxy.ask("POST", "/v1/files", headers, endless())
    assert (status, got["dragoman-reason"]) == (413, "body_too_large")


async def test_bytes_come_back_as_they_are() -> None:
    sound = bytes(range(256)) * 1000
    script = reply(200, sound, "audio/mpeg", content_disposition="attachment", set_cookie="a=b")
    async with before("chat", script) as (proxy, _):
        _, headers, body = await proxy.post("/v1/audio/speech", {"model": "m", "input": "hi", "voice": "a"})
    assert (body, headers["content-type"], headers["content-disposition"]) == (sound, "audio/mpeg", "attachment")
    assert "set-cookie" not in headers


async def test_a_stream_comes_back_as_one() -> None:
    async with before("responses", stream("event: a\ndata: 1\n\n", "event: b\ndata: 2\n\n")) as (proxy, _):
        _, headers, body = await proxy.ask("GET", "/v1/responses/resp_1?stream=true")
    assert (body, headers["content-type"]) == (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", "text/event-stream")


@pytest.mark.parametrize(
    ("method", "path", "headers", "owner"),
    [
        ("GET", "/v1/files", {}, "chat"),
        ("DELETE", "/v1/files/file-1", {}, "chat"),
        ("GET", "/v1/files/file-1/content", {"anthropic-version": "2023-06-01"}, "messages"),
        ("GET", "/v1/responses/resp_1/input_items", {}, "responses"),
        ("POST", "/v1/responses/resp_1/cancel", {}, "responses"),
        ("POST", "/v1/conversations", {}, "responses"),
        ("GET", "/v1/chat/completions/chatcmpl-1", {}, "chat"),
        ("GET", "/v1/messages/batches", {"anthropic-version": "2023-06-01"}, "messages"),
        ("POST", "/v1/moderations", {}, "chat"),
        ("POST", "/images/generations", {}, "chat"),
    ],
)
async def test_without_a_model_it_goes_to_the_first_backend_of_its_protocol(
    method: str, path: str, headers: dict[str, str], owner: ProtocolName
) -> None:
    async with (
        Scripted(reply(200, "{}")) as messages,
        Scripted(reply(200, "{}")) as chat,
        Scripted(reply(200, "{}")) as responses,
    ):
        backends = {"messages": messages, "chat": chat, "responses": responses}
        upstreams = [upstream(name, backend.base_url, name=name) for name, backend in backends.items()]  # type: ignore[arg-type]
        async with serving(*upstreams) as proxy:
            _, got, _ = await proxy.ask(method, path, headers)
    asked = {name: len(backend.asked) for name, backend in backends.items()}
    assert (got["dragoman-upstream"], asked) == (owner, {**dict.fromkeys(backends, 0), owner: 1})


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/files", "/v1/responses/resp_1", "/v1/audio/speech"])
async def test_without_such_a_backend_there_is_no_such_endpoint(path: str) -> None:
    async with before("messages", []) as (proxy, backend):
        status, _, body = await proxy.post(path, {"model": "m"})
    assert (status, backend.asked, json.loads(body)["error"]["message"]) == (
        404,
        [],
        f"POST {path} is not translated, and no backend here has it.",
    )


@pytest.mark.parametrize(
    "path",
    ["/v1/files/%2e%2e/organization/admin_keys", "/v1/files/..%2Forganization", "/v1/filesystem", "/v1/organization"],
)
async def test_nothing_else_can_be_reached_that_way(path: str) -> None:
    async with before("chat", reply(200, "{}")) as (proxy, backend):
        port = int(proxy.url.rsplit(":", 1)[1])
        async with aiohttp.ClientSession() as session:
            url = URL(f"http://127.0.0.1:{port}{path}", encoded=True)
            async with session.get(url) as response:
                status = response.status
    assert (status, backend.asked) == (404, [])


async def test_a_model_that_goes_elsewhere_takes_the_request_with_it() -> None:
    async with Scripted(reply(200, "{}")) as chat, Scripted([]) as messages:
        upstreams = upstream("messages", messages.base_url, name="m"), upstream("chat", chat.base_url, name="c")
        routes = [route("claude-*", upstreams[0]), route("*", upstreams[1])]
        async with serving(*upstreams, models=routes) as proxy:
            statuses = [
                (await proxy.post("/v1/embeddings", {"model": name, "input": "x"}))[0] for name in ("e", "claude-x")
            ]
    assert statuses == [200, 404]


async def test_a_compressed_request_goes_where_its_model_goes() -> None:
    body = gzip.compress(json.dumps(EMBEDDING).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    async with Scripted([]) as first, Scripted(reply(200, "{}")) as second:
        upstreams = upstream("chat", first.base_url, name="first"), upstream("chat", second.base_url, name="second")
        async with serving(*upstreams, models=[route("*", upstreams[1], "renamed")]) as proxy:
            status, _, _ = await proxy.post("/v1/embeddings", body, headers)
    assert (status, json.loads(second.asked[0].body)) == (200, {**EMBEDDING, "model": "renamed"})
    assert "content-encoding" not in second.asked[0].headers


async def test_errors_of_the_backend_are_passed_on_without_its_secrets() -> None:
    async with before("chat", reply(422, '{"error":{"message":"no, proxy-key-1","future":1}}')) as (proxy, _):
        status, _, body = await proxy.post("/v1/embeddings", EMBEDDING)
    assert (status, json.loads(body)) == (422, {"error": {"message": "no, [secret]", "future": 1}})


async def test_a_refusal_of_our_key_is_not_the_clients_fault() -> None:
    async with before("chat", reply(401, "{}")) as (proxy, _):
        status, headers, _ = await proxy.post("/v1/embeddings", EMBEDDING)
    assert (status, headers["dragoman-reason"]) == (502, "upstream_auth")


async def test_a_body_that_breaks_off_is_seen_to_break_off() -> None:
    async with before("chat", [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", CUT]) as (proxy, _):
        with pytest.raises(aiohttp.ClientPayloadError):
            await proxy.post("/v1/embeddings", EMBEDDING)
        record = await proxy.record()
    assert (record["status"], record["outcome"]) == (200, "incomplete")
