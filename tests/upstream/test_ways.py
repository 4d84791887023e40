"""How backends are reached: through proxies, by names that come to mean something else, and never but where the
configuration says."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest
from pydantic import SecretStr

from proxy.settings import ProtocolName
from proxy.upstream import connector
from tests.harness.client import post
from tests.harness.http_wire import read_head
from tests.server.serving import PATHS, REPLIES, REQUESTS, Proxy, before, says_hello, serving, upstream
from tests.server.test_settings_in_force import CERTIFICATE, encrypted
from tests.upstream.listening import Listening
from tests.upstream.scripted import Scripted

HELLO = says_hello("chat", streamed=False)
PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "responses", "messages")


class Between(Listening):
    """An HTTP proxy. `seen`: the first lines of requests, and what they say of who asks."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []
        self._refuses = refuses

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = await read_head(reader)
        self.seen.append((head.line, head.header("proxy-authorization")))
        if self._refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return False
        method, target, _ = head.line.split(" ")
        host, _, port = target.removeprefix("http://").partition("/")[0].partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [f"{name}: {value}" for name, value in head.headers if not name.lower().startswith("proxy-")]
            lines = [f"{method} /{target.split('/', 3)[3]} HTTP/1.1", *kept]
            back.write("\r\n".join([*lines, "", ""]).encode())
        await asyncio.wait(
            {asyncio.create_task(_pass_on(reader, back)), asyncio.create_task(_pass_on(there, writer))},
            return_when=asyncio.FIRST_COMPLETED,
        )
        back.close()
        return False


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)


@asynccontextmanager
async def through(between: Between, base_url: str, **more: object) -> AsyncIterator[Proxy]:
    way = between.base_url.removesuffix("/v1").replace("http://", "http://me:p%40ss@")
    async with serving(upstream("chat", base_url, proxy=SecretStr(way), **more)) as proxy:  # type: ignore[arg-type]
        yield proxy


async def test_a_backend_is_asked_through_a_proxy() -> None:
    async with Scripted(HELLO) as backend, Between() as between, through(between, backend.base_url) as proxy:
        base_url = backend.base_url
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    who = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert (status, between.seen) == (200, [(f"POST {base_url}/chat/completions HTTP/1.1", who)])
    assert "proxy-authorization" not in backend.asked[0].headers


async def test_and_one_behind_tls_by_a_tunnel() -> None:
    async with (
        encrypted(asks_for_certificate=False) as base_url,
        Between() as between,
        through(between, base_url, ca_file=CERTIFICATE) as proxy,
    ):
        status, _, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    host = base_url.removeprefix("https://").removesuffix("/v1")
    assert (status, json.loads(body)["choices"]) == (200, REPLIES["chat"]["choices"])
    assert [line for line, _ in between.seen] == [f"CONNECT {host} HTTP/1.1"]


@pytest.mark.parametrize(
    ("refuses", "why"),
    [(True, "the proxy on the way to it refused"), (False, "the proxy on the way to it can't be reached")],
)
async def test_a_way_that_is_closed_is_told(refuses: bool, why: str) -> None:
    """And not where it leads through, nor with which password."""
    async with (
        encrypted(asks_for_certificate=False) as base_url,
        Between(refuses=True) as between,
        through(between, base_url, ca_file=CERTIFICATE) as proxy,
    ):
        if not refuses:
            await between.__aexit__()
        status, headers, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    message = json.loads(body)["error"]["message"]
    assert (status, headers["dragoman-reason"]) == (502, "upstream_unreachable")
    assert message == f"The backend 'backend' can't be reached: {why}."


async def test_what_the_environment_says_of_proxies_is_not_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Between() as between, before("chat", HELLO) as (proxy, backend):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, between.base_url)
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, between.seen, len(backend.asked)) == (200, [], 1)


async def test_a_name_that_moves_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are always in use would else lead to where it was before for ever."""
    monkeypatch.setattr(connector, "MOST_AGE", 0.05)
    monkeypatch.setattr(connector, "DNS_KEPT", 0)
    async with Scripted(HELLO) as old, Scripted(HELLO) as new:
        ports = [int(backend.base_url.removesuffix("/v1").rpartition(":")[2]) for backend in (old, new)]
        leads_to = ports[0]

        def look_up(host: str, _port: int, *_more: object, **_named: object) -> list[tuple[object, ...]]:
            assert host == "moving.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", leads_to))]

        async with serving(upstream("chat", "http://moving.example/v1")) as proxy:
            port = int(proxy.url.rpartition(":")[2])
            with monkeypatch.context() as patched:
                patched.setattr(socket, "getaddrinfo", look_up)
                asked = [await _ask_at(port) for _ in range(3)]
                leads_to = ports[1]
                async with asyncio.timeout(5):
                    while not new.asked:
                        asked.append(await _ask_at(port))
    assert set(asked) == {200}
    assert old.connections < len(old.asked), "connections are kept"


async def _ask_at(port: int) -> int | None:
    reply = await post(port, PATHS["chat"], {"content-type": "application/json"}, json.dumps(REQUESTS["chat"]).encode())
    return reply.status


# ---- what clients name


def _naming(client: str, url: str) -> dict[str, object]:
    """A request that names an address wherever its protocol lets it."""
    image = {"type": "image_url", "image_url": {"url": url}}
    match client:
        case "chat":
            content = [
                {"type": "text", "text": "Look."},
                image,
                {"type": "file", "file": {"file_id": url, "file_data": url}},
            ]
            return {"messages": [{"role": "user", "content": content}], "webhook": url, "metadata": {"url": url}}
        case "responses":
            content = [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": url},
                {"type": "input_file", "file_url": url},
            ]
            return {
                "input": [{"role": "user", "content": content}],
                "tools": [{"type": "mcp", "server_label": "there", "server_url": url, "require_approval": "never"}],
            }
        case "messages":
            content = [
                {"type": "image", "source": {"type": "url", "url": url}},
                {"type": "document", "source": {"type": "url", "url": url}},
                {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": url}]}},
                {"type": "text", "text": "Look."},
            ]
            return {
                "messages": [{"role": "user", "content": content}],
                "mcp_servers": [{"type": "url", "name": "there", "url": url}],
                "tools": [{"type": "mcp_toolset", "mcp_server_name": "there"}],
            }
    return {"prompt": url}


class Trap(Listening):
    """Whoever comes here has been led astray."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        return False


COUNTS = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("client", "protocol"), list(product(PATHS, PROTOCOLS)))
async def test_no_address_that_a_client_names_is_asked(client: str, protocol: ProtocolName, stream: bool) -> None:
    """Images, documents, files and MCP servers are fetched by backends, or not at all."""
    async with Trap() as trap, before(protocol, says_hello(protocol, streamed=stream)) as (proxy, backend):
        url = trap.base_url
        led = {"x-forwarded-host": url, "forwarded": f"host={url}", "origin": url, "referer": url}
        kinds = _parts_one_by_one({**REQUESTS[client], **_naming(client, url)})
        for wire in kinds:
            await proxy.post(PATHS[client], {**wire, "stream": stream}, led)
            if not stream and client in COUNTS:
                await proxy.post(COUNTS[client], wire, led)
        assert backend.asked, "some of it goes on"
        assert trap.connections == 0


def _parts_one_by_one(wire: dict[str, object]) -> list[dict[str, object]]:
    """The request, and the same with each of its parts alone: one that is refused must not hide the others."""
    found = [wire]
    for name in ("messages", "input"):
        turns = wire.get(name)
        if isinstance(turns, list) and isinstance(turns[0]["content"], list):
            plain = {key: value for key, value in wire.items() if key not in ("tools", "mcp_servers")}
            found += [{**plain, name: [{**turns[0], "content": [part]}]} for part in turns[0]["content"]]
    return found
