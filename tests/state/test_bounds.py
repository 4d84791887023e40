"""Ids that lead nowhere, or to what is another's, and chains that are too long, on every store."""

import json
import time
from pathlib import Path
from typing import Any

from pydantic import SecretBytes

from proxy.canonical.jsontext import dumps, loads
from proxy.server.recalling import MOST_TURNS
from proxy.state import Key, Put
from tests.server.modelled import modelled
from tests.server.serving import Proxy
from tests.server.tenancy import KEY, OTHER_ENTRY, OTHER_KEY, PEPPER, tenant

HELLO = {"model": "m", "input": "Hi", "store": True}
TENANTS = {
    "tenants": [tenant("one"), tenant("other", keys=(OTHER_ENTRY,))],
    "key_pepper": SecretBytes(PEPPER),
}


async def ask(proxy: Proxy, method: str, path: str, key: str = KEY, body: Any = None) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    raw = None if body is None else json.dumps(body).encode()
    status, _, told = await proxy.ask(method, path, headers, raw)
    return status, json.loads(told)


def without_ids(told: Any, *ids: str) -> str:
    text = json.dumps(told)
    for one in ids:
        text = text.replace(one, "ID")
    return text


async def test_another_tenants_ids_look_exactly_like_unknown_ones(url: str) -> None:
    async with modelled("chat", url, **TENANTS) as (proxy, backend):
        _, told = await ask(proxy, "POST", "/v1/responses", KEY, HELLO)
        _, conversation = await ask(
            proxy, "POST", "/v1/conversations", KEY, {"items": [{"role": "user", "content": "a"}]}
        )
        chat = {"model": "m", "messages": [{"role": "user", "content": "x"}], "store": True}
        _, completion = await ask(proxy, "POST", "/v1/chat/completions", KEY, chat)
        asked = len(backend.requests)
        item = told["output"][0]["id"]
        calls: list[tuple[str, str, Any]] = [
            ("GET", "/v1/responses/{response}", None),
            ("DELETE", "/v1/responses/{response}", None),
            ("POST", "/v1/responses/{response}/cancel", {}),
            ("GET", "/v1/responses/{response}/input_items", None),
            ("POST", "/v1/responses", {**HELLO, "previous_response_id": "{response}"}),
            ("POST", "/v1/responses", {**HELLO, "conversation": "{conversation}"}),
            ("POST", "/v1/responses", {**HELLO, "input": [{"type": "item_reference", "id": "{item}"}]}),
            ("GET", "/v1/conversations/{conversation}", None),
            ("POST", "/v1/conversations/{conversation}", {"metadata": {}}),
            ("GET", "/v1/conversations/{conversation}/items", None),
            ("POST", "/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "b"}]}),
            ("DELETE", "/v1/conversations/{conversation}", None),
            ("GET", "/v1/chat/completions/{completion}", None),
            ("GET", "/v1/chat/completions/{completion}/messages", None),
            ("DELETE", "/v1/chat/completions/{completion}", None),
        ]
        theirs = {
            "response": told["id"], "conversation": conversation["id"], "completion": completion["id"], "item": item,
        }  # fmt: skip
        nobodys = {name: one[:-8] + "00000000" for name, one in theirs.items()}
        for method, path, body in calls:
            answers = []
            for ids in (theirs, nobodys):
                spelled = json.dumps(body)
                for name, one in ids.items():
                    spelled = spelled.replace("{" + name + "}", one)
                status, answer = await ask(proxy, method, path.format(**ids), OTHER_KEY, json.loads(spelled))
                assert status in (400, 404), (path, answer)
                answers.append((status, without_ids(answer, *ids.values())))
            assert answers[0] == answers[1]
        assert len(backend.requests) == asked
        assert (await ask(proxy, "GET", f"/v1/responses/{told['id']}"))[0] == 200
        status, listed = await ask(proxy, "GET", "/v1/chat/completions", OTHER_KEY)
        assert (status, listed["data"]) == (200, [])


async def test_what_has_expired_is_not_there(url: str) -> None:
    async with modelled("chat", url) as (proxy, _):
        _, told = await ask(proxy, "POST", "/v1/responses", body=HELLO)
        keeping = proxy.runtime.keeping
        assert keeping is not None
        key = Key("", "response", told["id"])
        record = (await keeping.store.get(*key[:2], [key.id]))[key.id]
        await keeping.store.commit(Put(key, record.value, time.time() - 1))
        assert (await ask(proxy, "GET", f"/v1/responses/{told['id']}"))[0] == 404
        status, refused = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "previous_response_id": told["id"]})
        assert (status, refused["error"]["code"]) == (400, "previous_response_not_found")


async def test_a_chain_has_an_end_and_a_gap_in_it_is_told(url: str) -> None:
    async with modelled("chat", url) as (proxy, backend):
        _, first = await ask(proxy, "POST", "/v1/responses", body=HELLO)
        _, second = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "previous_response_id": first["id"]})
        on = {**HELLO, "previous_response_id": second["id"]}
        keeping = proxy.runtime.keeping
        assert keeping is not None
        key = Key("", "response", second["id"])
        record = (await keeping.store.get(*key[:2], [key.id]))[key.id]
        wire: Any = loads(record.value)
        # What nobody can write through the proxy: a chain that leads back to its own end.
        wire["chain"] = [second["id"]] * (MOST_TURNS - 1)
        await keeping.store.commit(Put(key, dumps(wire), record.expires))
        status, _ = await ask(proxy, "POST", "/v1/responses", body=on)
        assert status == 200
        wire["chain"] = [second["id"]] * MOST_TURNS
        await keeping.store.commit(Put(key, dumps(wire), record.expires))
        status, told = await ask(proxy, "POST", "/v1/responses", body=on)
        assert (status, told["error"]["param"]) == (400, "previous_response_id")
        await keeping.store.commit(Put(key, record.value, record.expires))
        await ask(proxy, "DELETE", f"/v1/responses/{first['id']}")
        status, told = await ask(proxy, "POST", "/v1/responses", body=on)
        assert (status, told["error"]["code"]) == (400, "previous_response_not_found")
        assert first["id"] in told["error"]["message"]
        assert len(backend.requests) == 3


async def test_what_is_deleted_or_sealed_is_nowhere_in_the_file(tmp_path: Path) -> None:
    url, secret = f"sqlite://{tmp_path}/state.db", "a very particular secret"

    def on_disk() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    async with modelled("chat", url) as (proxy, _):
        _, told = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "input": secret})
        assert secret.encode() in on_disk()
        await ask(proxy, "DELETE", f"/v1/responses/{told['id']}")
        assert secret.encode() not in on_disk()
    async with modelled("chat", url, keys=(b"k" * 32,)) as (proxy, _):
        _, told = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "input": secret})
        assert secret.encode() not in on_disk()
        assert (await ask(proxy, "GET", f"/v1/responses/{told['id']}"))[0] == 200
    async with modelled("chat", url, keys=(b"n" * 32, b"k" * 32)) as (proxy, _):
        assert (await ask(proxy, "GET", f"/v1/responses/{told['id']}"))[0] == 200
    async with modelled("chat", url, keys=(b"n" * 32,)) as (proxy, _):
        assert (await ask(proxy, "GET", f"/v1/responses/{told['id']}"))[0] == 503


async def test_a_stored_item_stands_in_for_its_reference(url: str) -> None:
    async with modelled("chat", url) as (proxy, backend):
        _, told = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "input": "One."})
        item = told["output"][0]["id"]
        sent = [
            {"role": "user", "content": "One."},
            {"type": "item_reference", "id": item},
            {"role": "user", "content": "Two."},
        ]
        status, _ = await ask(proxy, "POST", "/v1/responses", body={**HELLO, "input": sent})
        assert status == 200
        assert [m["content"] for m in backend.requests[-1]["messages"]] == ["One.", "You said: One.", "Two."]
