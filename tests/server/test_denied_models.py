"""Ways to a model that a tenant may not use, and to tools that it may not use, tried over HTTP by each client."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from proxy.settings import ProtocolName
from proxy.settings.tenants import ModelRules, NameRules, TenantLimits, ToolRules
from tests.server.policy_rules import EVERYTHING
from tests.server.serving import PATHS, REQUESTS, Proxy, says_hello
from tests.server.tenancy import bearer, let_in, tenant
from tests.upstream.scripted import Scripted, reply

RULES = ModelRules(NameRules(("good-*", "Dear"), ("good-dear", "good-d?arer", "dear")))
BACKENDS: dict[str, ProtocolName] = {
    "chat": "chat",
    "responses": "responses",
    "messages": "messages",
    "completions": "chat",
}


def raw_with(client: str, members: str) -> bytes:
    """A request of the client, with these members instead of its model."""
    rest = json.dumps({name: value for name, value in REQUESTS[client].items() if name != "model"})
    return ("{" + members + ", " + rest[1:]).encode()


NAMES = [
    "dear",
    "Dear",  # allowed as it is written, but `deny` holds in any case
    "GOOD-DEAR",
    "good-DEAR",
    "good-dear",
    "good-dear ",
    " good-dear",
    "good-dear\\t",
    "good-dear\\n",
    "good-dear\\r\\n",
    "good-dear\\u0000",
    "good-dear\\u00a0",
    "good-dear\\u200b",
    "good-dear\\ufeff",
    "good-\\u202edear",
    "good-de\\u0061r",
    "\\u0067ood-dear",
    "good-\\uff44ear",
    "good-dear\\u0301",
    "good-x\\ud800",
    "good-dearer",
    "good-" + "x" * 300,
    "",
    " ",
    "other",
    "Good-x",
]


def ruled(protocol: ProtocolName) -> AbstractAsyncContextManager[tuple[Proxy, Scripted]]:
    """A tenant with `RULES`, before a backend that answers."""
    return let_in(protocol, says_hello(protocol, streamed=False), tenants=[tenant(models=RULES)])


@pytest.mark.parametrize("client", PATHS)
async def test_no_spelling_of_a_name_leads_to_a_denied_model(client: str) -> None:
    async with ruled(BACKENDS[client]) as (proxy, backend):
        for name in NAMES:
            status, _, answered = await proxy.post(PATHS[client], raw_with(client, f'"model": "{name}"'), bearer())
            assert (status in (400, 404), backend.asked) == (True, []), (name, answered)
        assert (await proxy.post(PATHS[client], raw_with(client, '"model": "good-x"'), bearer()))[0] == 200


# Their bodies reach the backend as they are. Others are written anew, from what was looked at.
PASSED_ON = [client for client, protocol in BACKENDS.items() if client == protocol]

MEMBERS = [
    '"model": "good-x", "model": "dear"',
    '"model": "dear", "model": "good-x"',
    '"mod\\u0065l": "dear", "model": "good-x"',
    '"model": "good-x", "Model": "dear"',
    '"MODEL": "dear", "model": "good-x"',
    '"model": "good-x", "mo_del": "dear"',
    '"model": ["dear"]',
    '"model": {"id": "dear"}',
    '"model": null',
    '"model": 7',
    '"model": "good-x", "models": ["dear"]',
    '"model": "good-x", "models": ["good-x", {"model": "dear"}]',
    '"model": "good-x", "fallbacks": ["dear"]',
    '"model": "good-x", "fallbacks": [{"model": "dear"}]',
    '"model": "good-x", "fallbacks": "default"',
    '"model": "good-x", "fallback_model": "dear"',
    '"model": "good-x", "extra_body": {"model": "dear"}',
    '"model": "good-x", "extra_body": {"models": ["dear"]}',
    '"model": "good-x", "moderation": {"model": "dear"}',
    '"model": "good-x", "preset": "mine"',
    '"model": "good-x", "tools": [{"type": "advisor_20260301", "name": "advisor", "model": "dear"}]',
]


@pytest.mark.parametrize("client", PATHS)
async def test_no_other_member_leads_to_a_denied_model(client: str) -> None:
    async with ruled(BACKENDS[client]) as (proxy, backend):
        for members in MEMBERS:
            status, _, answered = await proxy.post(PATHS[client], raw_with(client, members), bearer())
            if client in PASSED_ON:
                assert (status in (400, 403, 404), backend.asked) == (True, []), (members, answered)
            assert all(b"dear" not in asked.body for asked in backend.asked), members


WRAPPED = {
    "a byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "UTF-16": lambda raw: raw.decode().encode("utf-16"),
    "UTF-16 without a mark": lambda raw: raw.decode().encode("utf-16-le"),
    "UTF-32": lambda raw: raw.decode().encode("utf-32"),
    "two values": lambda raw: raw + raw.replace(b"good-x", b"dear"),
    "an array": lambda raw: b"[" + raw + b"]",
    "a text": lambda raw: json.dumps(raw.decode()).encode(),
    "a comment": lambda raw: b'/*"model":"dear"*/' + raw,
    "a NUL": lambda raw: b"\0" + raw,
}


@pytest.mark.parametrize("wrapping", WRAPPED)
@pytest.mark.parametrize("client", PASSED_ON)
async def test_a_body_that_servers_read_differently_is_not_passed_on(client: str, wrapping: str) -> None:
    body = WRAPPED[wrapping](raw_with(client, '"model": "good-x"'))
    async with let_in(BACKENDS[client], reply(200, "{}"), tenants=[tenant(models=RULES)]) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS[client], body, bearer())
    assert (status, backend.asked) == (400, [])


@pytest.mark.parametrize("name", ["dear", "Dear", "GOOD-DEAR", "good-dear%20", "%20good-dear", "good-de%61r", "other"])
async def test_a_denied_model_does_not_exist(name: str) -> None:
    """The same answer, byte by byte, as of one that nobody has."""
    async with let_in("chat", reply(200, '{"data": []}'), tenants=[tenant(models=RULES)]) as (proxy, backend):
        status, _, denied = await proxy.ask("GET", f"/v1/models/{name}", bearer())
        assert (status, backend.asked) == (404, [])
        _, _, unknown = await proxy.ask("GET", "/v1/models/nobodys", bearer())
    shown = json.loads(denied)["error"]["message"].split("'")[1]
    assert denied.replace(shown.encode(), b"nobodys") == unknown


# ---- tools

NO_HOSTED = tenant(tools=ToolRules(hosted=NameRules(()), mcp_servers=NameRules(())))
TOOLS: list[tuple[str, str]] = [
    ("chat", '"web_search_options": {}'),
    ("chat", '"tools": [{"type": "web_search"}]'),
    ("chat", '"tools": [{"google_search": {}}]'),
    ("chat", '"plugins": [{"id": "web"}]'),
    ("chat", '"extra_body": {"google": {"tools": [{"code_execution": {}}]}}'),
    ("chat", '"tools": [], "tools": [{"type": "web_search"}]'),
    ("chat", '"Tools": [{"type": "web_search"}]'),
    ("chat", '"tools": [{"type": "function", "Type": "web_search", "function": {"name": "f"}}]'),
    ("responses", '"tools": [{"type": "web_search_preview_2025_03_11"}]'),
    ("responses", '"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]'),
    ("responses", '"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://mcp.example.org/"}]'),
    ("responses", '"tools": [{"type": "mcp", "server_label": "a", "connector_id": "connector_gmail"}]'),
    ("responses", '"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "shell"}]}]'),
    ("responses", '"tool_choice": {"type": "file_search"}'),
    ("responses", '"prompt": {"id": "pmpt_1"}'),
    ("messages", '"tools": [{"type": "web_search_20250305", "name": "web_search"}]'),
    ("messages", '"tools": [{"type": "computer_20250124", "name": "computer"}]'),
    ("messages", '"tools": [{"type": "WEB_SEARCH_20250305", "name": "web_search"}]'),
    ("messages", '"mcp_servers": [{"type": "url", "url": "https://mcp.example.org/", "name": "a"}]'),
    ("messages", '"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}'),
    ("completions", '"tools": [{"type": "web_search"}]'),
]


@pytest.mark.parametrize(("client", "members"), TOOLS)
@pytest.mark.parametrize("translated", [False, True])
async def test_no_spelling_leads_to_a_hosted_tool(client: str, members: str, translated: bool) -> None:
    protocol: ProtocolName = BACKENDS[client] if not translated else "messages" if client != "messages" else "chat"
    raw = raw_with(client, f'"model": "m", {members}')
    async with let_in(protocol, reply(200, "{}"), tenants=[NO_HOSTED]) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS[client], raw, bearer())
    if not translated:
        assert (status in (400, 403), backend.asked) == (True, [])
    assert all(b"web_search" not in asked.body for asked in backend.asked)
    assert status in (400, 403) or backend.asked


# ---- bodies that are too large

SMALL = tenant(endpoints=EVERYTHING, limits=TenantLimits(max_body_bytes=1000))


async def endless() -> AsyncIterator[bytes]:
    """As long as anyone reads."""
    while True:
        yield b" " * 500


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/v1/chat/completions", "application/json"),
        ("/v1/embeddings", "application/json"),
        ("/v1/files", "multipart/form-data; boundary=x"),
        ("/v1/audio/transcriptions", "multipart/form-data; boundary=x"),
        ("/v1/uploads/upload_1/parts", "application/octet-stream"),
    ],
)
async def test_a_body_that_does_not_end_is_stopped_at_the_tenants_limit(path: str, content_type: str) -> None:
    headers = {**bearer(), "content-type": content_type}
    async with let_in("chat", reply(200, "{}"), tenants=[SMALL]) as (proxy, backend):
        status, told, _ = await proxy.ask("POST", path, headers, endless())
        record = await proxy.record()
    assert (status, told["dragoman-reason"], record["reason"]) == (413, "body_too_large", "body_too_large")
    assert backend.asked == []  # none has come to its end


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/embeddings", "/v1/messages/count_tokens"])
async def test_a_small_body_that_unfolds_to_a_large_one_is_too_large(path: str) -> None:
    body = gzip.compress(json.dumps({"model": "m", "input": "x" * 100_000}).encode())
    assert len(body) < 1000
    headers = {**bearer(), "content-type": "application/json", "content-encoding": "gzip"}
    async with let_in("chat", reply(200, "{}"), tenants=[SMALL]) as (proxy, backend):
        status, told, _ = await proxy.ask("POST", path, headers, body)
    assert (status, told["dragoman-reason"], backend.asked) == (413, "body_too_large", [])


async def test_what_is_announced_as_too_large_is_not_invited() -> None:
    headers = {**bearer(), "content-type": "application/json", "expect": "100-continue", "content-length": "5000"}
    async with let_in("chat", reply(200, "{}"), tenants=[SMALL]) as (proxy, backend):
        assert await _first_line(proxy, headers) == b"HTTP/1.1 413 Request Entity Too Large\r\n"
    assert backend.asked == []


async def _first_line(proxy: Proxy, headers: dict[str, str]) -> bytes:
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line
