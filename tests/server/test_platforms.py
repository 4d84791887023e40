"""Claude at Google Cloud: the address names the model, the body the version (messages.md 4.5)."""

import json

import pytest

from tests.server.serving import PATHS, REQUESTS, before, says_hello
from tests.upstream.scripted import reply


@pytest.mark.parametrize("client", ["messages", "chat", "responses"])
@pytest.mark.parametrize(("stream", "way"), [(True, "streamRawPredict"), (False, "rawPredict")])
async def test_a_request(client: str, stream: bool, way: str) -> None:
    hello = says_hello("messages", streamed=stream)
    async with before("messages", hello, dialect="vertex") as (proxy, backend):
        status, _, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    assert (status, b"Hel" in body) == (200, True)
    [asked] = backend.asked
    assert asked.line == f"POST /v1/models/m:{way} HTTP/1.1"
    assert asked.headers["authorization"].startswith("Bearer ")
    wire = json.loads(asked.body)
    assert ("model" in wire, wire["anthropic_version"], len(wire["messages"])) == (False, "vertex-2023-10-16", 1)


@pytest.mark.parametrize(("client", "path"), [("messages", "/v1/messages/count_tokens")])
async def test_a_count(client: str, path: str) -> None:
    async with before("messages", reply(200, '{"input_tokens":5}'), dialect="vertex") as (proxy, backend):
        _, _, body = await proxy.post(path, REQUESTS[client])
    assert json.loads(body) == {"input_tokens": 5}
    [asked] = backend.asked
    assert asked.line == "POST /v1/models/count-tokens:rawPredict HTTP/1.1"
    assert json.loads(asked.body) == {**REQUESTS[client], "anthropic_version": "vertex-2023-10-16"}
