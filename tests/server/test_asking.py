"""A backend that refuses one field is asked again without it, and the next time at once (mapping.md 17.3)."""

import json

import pytest
from pydantic import SecretStr

from proxy.settings import LossPolicy, ProtocolName
from proxy.settings.tenants import UpstreamKeys
from proxy.upstream.account import SHARED
from tests.server.serving import PATHS, REQUESTS, Proxy, before, says_hello
from tests.server.tenancy import KEY, OTHER_ENTRY, OTHER_KEY, bearer, let_in, tenant
from tests.upstream.scripted import reply

# (client, backend, what the client sets, the backend's name of it, the backend's complaint, the loss)
REFUSALS: list[tuple[str, ProtocolName, dict[str, object], str, str, str]] = [
    ("chat", "messages", {"top_p": 0.5}, "top_p", "top_p: Extra inputs are not permitted", "top-p;drop"),
    ("responses", "messages", {"top_p": 0.5}, "top_p", "top_p: Extra inputs are not permitted", "top-p;drop"),
    ("chat", "responses", {"top_p": 0.5}, "top_p", "Unknown parameter: 'top_p'.", "top-p;drop"),
    ("messages", "responses", {"top_p": 0.5}, "top_p", "Unknown parameter: 'top_p'.", "top-p;drop"),
    ("responses", "chat", {"top_p": 0.5}, "top_p", "Unknown parameter: 'top_p'.", "top-p;drop"),
    ("messages", "chat", {"top_k": 5}, "top_k", "Unknown parameter: 'top_k'.", "top-k;drop"),
    ("completions", "chat", {"seed": 5}, "seed", "Unknown parameter: 'seed'.", "seed;drop"),
]


def complaint(protocol: str, message: str) -> bytes:
    error: dict[str, object] = {"type": "invalid_request_error", "message": message}
    wire = {"type": "error", "error": error} if protocol == "messages" else {"error": {**error, "param": None}}
    return reply(400, json.dumps(wire))


def left_out(proxy: Proxy, model: str) -> frozenset[str]:
    """What the backend is not told any more."""
    origin = proxy.gateway.served["backend"].backend.origin_of(SHARED)
    return proxy.gateway.refused_fields.fields("backend", origin, model)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "protocol", "fields", "name", "message", "loss"), REFUSALS)
async def test_one_field_is_left_out_and_stays_out(
    client: str, protocol: ProtocolName, fields: dict[str, object], name: str, message: str, loss: str, stream: bool
) -> None:
    hello = says_hello(protocol, streamed=stream)
    dialect = "vllm" if protocol == "chat" else None
    async with before(protocol, complaint(protocol, message), hello, dialect=dialect) as (proxy, backend):
        for _ in range(2):
            status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], **fields, "stream": stream})
            assert (status, b"Hel" in body) == (200, True)
            assert loss in headers["dragoman-loss"].split(", ")
        assert left_out(proxy, "m") == {name}
    assert [name in json.loads(asked.body) for asked in backend.asked] == [True, False, False]


async def test_it_stays_out_for_who_shares_the_account() -> None:
    """A vendor may give one account what it does not give another."""
    refused, hello = complaint("responses", "Unknown parameter: 'top_p'."), says_hello("responses", streamed=False)
    own = UpstreamKeys("map", {"backend": SecretStr("sk-of-team-b")})
    teams = [tenant(), tenant("team-b", keys=(OTHER_ENTRY,), upstream=own)]
    async with let_in("responses", refused, hello, hello, hello, tenants=teams) as (proxy, backend):
        for key in (KEY, KEY, OTHER_KEY):
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "top_p": 0.5}, bearer(key))
    assert ["top_p" in json.loads(asked.body) for asked in backend.asked] == [True, False, False, True]


async def test_what_is_asked_in_its_place_is_another_request() -> None:
    """A vendor that has seen the idempotency key would answer as it did, or refuse the changed body."""
    refused, hello = complaint("responses", "Unknown parameter: 'top_p'."), says_hello("responses", streamed=False)
    async with before("responses", refused, hello, dialect="openai") as (proxy, backend):
        status, _, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "top_p": 0.5}, {"idempotency-key": "one"})
    assert (status, [asked.headers.get("idempotency-key") for asked in backend.asked]) == (200, ["one", None])


@pytest.mark.parametrize("stream", [True, False])
async def test_a_second_refusal_is_the_clients(stream: bool) -> None:
    first = complaint("messages", "top_p: Extra inputs are not permitted")
    second = complaint("messages", "temperature: Extra inputs are not permitted")
    async with before("messages", first, second) as (proxy, backend):
        asked = {**REQUESTS["chat"], "temperature": 0.5, "top_p": 0.5, "stream": stream}
        status, _, body = await proxy.post(PATHS["chat"], asked)
        assert left_out(proxy, "m") == frozenset()
    assert (status, json.loads(body)["error"]["message"]) == (400, "temperature: Extra inputs are not permitted")
    assert len(backend.asked) == 2


async def test_what_passes_through_is_not_touched() -> None:
    async with before("chat", complaint("chat", "Unknown parameter: 'top_p'.")) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "top_p": 0.5})
    assert (status, len(backend.asked)) == (400, 1)


async def test_a_strict_client_gets_the_refusal() -> None:
    strict = [("*", None, LossPolicy(strict=True))]
    async with before("messages", complaint("messages", "top_p: not permitted"), models=strict) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "top_p": 0.5})
    assert (status, len(backend.asked)) == (400, 1)
