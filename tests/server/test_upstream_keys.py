"""With whose key a backend is asked, and what a client learns when the backend does not take it (operations.md 8.2)."""

import json

import pytest
from pydantic import SecretBytes, SecretStr

from proxy.settings import ProtocolName
from proxy.settings.tenants import UpstreamKeys
from tests.server.serving import PATHS, REQUESTS, route, serving, upstream
from tests.server.tenancy import KEY, PEPPER, bearer, let_in, tenant
from tests.upstream.scripted import Scripted, reply

OWN = "own-key-0123456789"
MAP = UpstreamKeys("map", {"backend": SecretStr(OWN)})
BYOK = UpstreamKeys("byok", byok_upstreams=frozenset({"backend"}))
SENT = {"shared": (UpstreamKeys(), bearer()), "map": (MAP, bearer())}
SENT["byok"] = (BYOK, {"x-api-key": KEY, "authorization": f"Bearer {OWN}"})
PAIRS: list[tuple[str, ProtocolName]] = [("chat", "chat"), ("messages", "messages"), ("messages", "chat")]
pairs = pytest.mark.parametrize(("client", "protocol"), PAIRS)


def error(protocol: str, status: int, message: str) -> bytes:
    told: dict[str, object] = {"type": "invalid_request_error", "message": message, "param": None, "code": None}
    if protocol == "messages":
        told = {"type": "authentication_error" if status == 401 else "invalid_request_error", "message": message}
    return reply(status, json.dumps({"type": "error", "error": told}))


@pairs
@pytest.mark.parametrize("mode", SENT)
@pytest.mark.parametrize("stream", [False, True])
async def test_only_who_brought_a_key_is_told_that_it_is_wrong(
    client: str, protocol: ProtocolName, mode: str, stream: bool
) -> None:
    keys, headers = SENT[mode]
    says = error(protocol, 401, "Your key is wrong.")
    async with let_in(protocol, says, tenants=[tenant(upstream=keys)]) as (proxy, _):
        status, told, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream}, headers)
    if mode == "byok":
        assert (status, told.get("dragoman-reason")) == (401, None)
        assert b"Your key is wrong." in body
    else:
        assert (status, told["dragoman-reason"]) == (502, "upstream_auth")
        assert b"Your key is wrong." not in body


@pairs
@pytest.mark.parametrize("mode", ["shared", "map"])
async def test_no_client_reads_a_key_that_is_not_its_own(client: str, protocol: ProtocolName, mode: str) -> None:
    keys, headers = SENT[mode]
    key = {"shared": "proxy-key-1", "map": OWN}[mode]
    says = error(protocol, 400, f"Nobody may do this with {key}.")
    async with let_in(protocol, says, tenants=[tenant(upstream=keys)]) as (proxy, backend):
        status, told, body = await proxy.post(PATHS[client], REQUESTS[client], headers)
        assert key not in json.dumps(proxy.access.records)
    assert key in str(backend.asked[0].headers)
    assert (status, key in body.decode() + str(told)) == (400, False)
    assert b"Nobody may do this with " in body


async def test_a_tenants_key_goes_to_no_other_backend() -> None:
    """Those that the map does not name are asked with the shared key; no key is ever asked twice in another's place."""
    async with Scripted(reply(401, "{}")) as first, Scripted(reply(401, "{}")) as second:
        tos = [
            upstream("chat", first.base_url, name="backend", key="shared-1"),
            upstream("responses", second.base_url, name="second", key="shared-2"),
        ]
        who = tenant(upstream=MAP)
        models = [route("m", tos[0]), route("n", tos[1])]
        async with serving(*tos, models=models, tenants=[who], key_pepper=SecretBytes(PEPPER)) as proxy:
            for model in ("m", "n"):
                await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "model": model}, bearer())
            await proxy.ask("GET", "/v1/models", bearer())
    for backend, key in ((first, OWN), (second, "shared-2")):
        assert {asked.headers["authorization"] for asked in backend.asked} == {f"Bearer {key}"}
