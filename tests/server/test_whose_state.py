"""Whose state is used where a backend has its own: ids are never mixed, and what can't be had is refused."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from proxy.settings.snapshot import StateSettings
from tests.server.serving import REPLIES, Proxy, route, says_hello, serving, upstream
from tests.upstream.scripted import Scripted, reply

HELLO: dict[str, Any] = {"input": "Hi"}


def vendor_says(response_id: str) -> bytes:
    return reply(200, json.dumps({**REPLIES["responses"], "id": response_id}))


@asynccontextmanager
async def between(*vendors: Scripted, **more: Any) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """Models `v0`, `v1`, … at vendors that keep their own state, and `chat` at a backend that keeps none."""
    async with Scripted(says_hello("chat", streamed=False)) as chat:
        native = [upstream("responses", vendor.base_url, name=f"v{number}") for number, vendor in enumerate(vendors)]
        plain = upstream("chat", chat.base_url, name="chat")
        routes = [route(one.name, one) for one in (*native, plain)]
        state = StateSettings(SecretStr("memory:"), 3600.0)
        async with serving(*native, plain, models=routes, state=state, **more) as proxy:
            yield proxy, chat


async def ask(proxy: Proxy, model: str, **more: Any) -> tuple[int, Any]:
    status, _, told = await proxy.post("/v1/responses", {"model": model, **HELLO, **more})
    return status, json.loads(told)


async def test_a_vendors_id_goes_to_the_vendor_that_has_it() -> None:
    async with (
        Scripted(vendor_says("resp_a")) as one,
        Scripted(vendor_says("resp_b")) as two,
        between(one, two) as (proxy, chat),
    ):
        assert (await ask(proxy, "v0"))[1]["id"] == "resp_a"
        assert (await ask(proxy, "v1"))[1]["id"] == "resp_b"
        for response_id, vendor in (("resp_a", one), ("resp_b", two)):
            status, _, _ = await proxy.ask("GET", f"/v1/responses/{response_id}/input_items?limit=2")
            assert status == 200
            assert vendor.asked[-1].line == f"GET /v1/responses/{response_id}/input_items?limit=2 HTTP/1.1"
        assert (await ask(proxy, "v0", previous_response_id="resp_a"))[0] == 200
        assert json.loads(one.asked[-1].body)["previous_response_id"] == "resp_a"
        for model in ("v1", "chat"):
            status, told = await ask(proxy, model, previous_response_id="resp_a")
            assert (status, told["error"]["code"]) == (400, "dragoman_state_not_portable")
        assert (await proxy.ask("GET", "/v1/responses/resp_none"))[0] == 404
        assert (len(one.asked), len(two.asked), len(chat.asked)) == (3, 2, 0)


async def test_what_the_proxy_keeps_goes_on_at_a_vendor_as_plain_history() -> None:
    async with Scripted(vendor_says("resp_a")) as vendor, between(vendor) as (proxy, chat):
        _, kept = await ask(proxy, "chat")
        status, told = await ask(proxy, "v0", previous_response_id=kept["id"], input="And?")
        assert status == 200
        sent = json.loads(vendor.asked[0].body)
        assert "previous_response_id" not in sent
        assert sent["store"] is False
        texts = [
            item["content"] if isinstance(item["content"], str) else item["content"][0]["text"]
            for item in sent["input"]
        ]
        assert texts[:2] == ["Hi", "Hello"]
        assert not any("id" in item for item in sent["input"])
        # It is the proxy's own then, and goes on anywhere.
        assert told["id"] not in ("resp_a", kept["id"])
        assert (told["store"], told["previous_response_id"]) == (True, kept["id"])
        status, _ = await ask(proxy, "chat", previous_response_id=told["id"], input="Once more")
        assert (status, len(json.loads(chat.asked[-1].body)["messages"])) == (200, 5)


async def test_an_only_vendor_is_asked_for_what_the_store_does_not_know() -> None:
    async with Scripted(vendor_says("resp_old")) as vendor, between(vendor) as (proxy, _):
        status, _, told = await proxy.ask("GET", "/v1/responses/resp_old")
        assert (status, json.loads(told)["id"]) == (200, "resp_old")
        assert (await ask(proxy, "v0", previous_response_id="resp_old"))[0] == 200
        status, refused = await ask(proxy, "chat", previous_response_id="resp_old")
        assert (status, refused["error"]["code"]) == (400, "previous_response_not_found")


async def test_a_vendor_can_not_take_the_place_of_what_is_kept() -> None:
    async with Scripted(vendor_says("resp_a")) as one, Scripted(b"") as two, between(one, two) as (proxy, _):
        _, kept = await ask(proxy, "chat")
        one._scripts[:] = [[vendor_says(kept["id"])]]
        assert (await ask(proxy, "v0"))[0] == 200
        status, _, told = await proxy.ask("GET", f"/v1/responses/{kept['id']}")
        assert (status, json.loads(told)["model"]) == (200, kept["model"])


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/chat/completions?limit=1"])
async def test_where_all_keep_their_own_nothing_is_kept_here(path: str) -> None:
    async with Scripted(reply(200, '{"id": "conv_theirs", "object": "conversation"}')) as vendor:
        protocol = "responses" if "conv" in path else "chat"
        to = upstream(protocol, vendor.base_url, state="backend")  # type: ignore[arg-type]
        async with serving(to, state=StateSettings(SecretStr("memory:"), 3600.0)) as proxy:
            method = "POST" if "conv" in path else "GET"
            status, _, told = await proxy.ask(method, path, {"content-type": "application/json"}, b"{}")
            assert (status, json.loads(told)["id"]) == (200, "conv_theirs")
            assert vendor.asked[0].line.startswith(f"{method} {path}")
