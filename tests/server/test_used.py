"""What an exchange used is known by its end, whatever the backend and the client did (operations.md 9.2)."""

import json
from dataclasses import replace
from functools import partial

import pytest

from proxy.canonical.target import Target
from proxy.canonical.usage import Usage
from proxy.settings import ProtocolName
from proxy.translation import pair
from proxy.translation.pair import Options, Peek
from proxy.translation.prepared import Prepared
from proxy.translation.spent import used
from tests.server.serving import PATHS, REQUESTS, before, begins, says_hello
from tests.server.test_asking import complaint
from tests.upstream.scripted import reply

PAIRS: list[tuple[str, ProtocolName]] = [
    *(("chat", "chat"), ("responses", "responses"), ("messages", "messages")),
    *(("chat", "messages"), ("messages", "responses"), ("responses", "chat"), ("completions", "chat")),
]
GUESS = 50


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Prepared]:
    """The ways of all requests, whose use is counted."""
    made: list[Prepared] = []
    prepare = pair.prepare

    def counting(seen: Peek, target: Target, options: Options) -> Prepared:
        made.append(prepare(seen, target, replace(options, count_usage=True)))
        return made[-1]

    monkeypatch.setattr(pair, "prepare", counting)
    return made


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "protocol"), PAIRS)
async def test_what_was_told(counted: list[Prepared], client: str, protocol: ProtocolName, stream: bool) -> None:
    async with before(protocol, says_hello(protocol, streamed=stream)) as (proxy, _):
        status, _, _ = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
        record = await proxy.record()
    (one,) = counted
    assert (status, used(one, GUESS)) == (200, Usage(3, output=1))
    assert record["tokens"] == {"input": 3, "output": 1, "cache_read": 0, "cache_write": 0, "reasoning": 0}
    assert record["finish_reason"] == "end"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "refusal", [complaint("chat", "No."), reply(503, b""), reply(200, b'{"error":{"message":"x"}}')]
)
@pytest.mark.parametrize("client", ["chat", "messages"])
async def test_a_refusal_costs_nothing(counted: list[Prepared], client: str, refusal: bytes, stream: bool) -> None:
    async with before("chat", *[refusal] * 5) as (proxy, backend):
        status, _, _ = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    assert status >= 400
    assert backend.asked
    assert all(used(one, GUESS) == Usage() for one in counted)
    assert counted


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_is_mended_is_paid_once(counted: list[Prepared], stream: bool) -> None:
    hello = says_hello("chat", streamed=stream)
    async with before("chat", complaint("chat", "Unknown parameter: 'top_p'."), hello, dialect="vllm") as (proxy, _):
        status, _, _ = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "top_p": 0.5, "stream": stream})
    assert (status, [used(one, GUESS) for one in counted]) == (200, [Usage(3, output=1)])


@pytest.mark.parametrize(("client", "protocol"), PAIRS)
async def test_a_client_that_leaves_pays_for_what_it_got(
    counted: list[Prepared], client: str, protocol: ProtocolName
) -> None:
    count = {"chat": 2, "responses": 4, "messages": 3}[protocol]  # up to "Hel"
    async with before(protocol, begins(protocol, count)) as (proxy, _):
        post = partial(proxy.session.post, proxy.url + PATHS[client], json={**REQUESTS[client], "stream": True})
        async with post() as response:
            while b"Hel" not in await response.content.readany():
                pass
            response.close()
        assert (await proxy.record())["outcome"] == "cancelled"
    (one,) = counted
    prompt = 3 if protocol == "messages" else GUESS
    assert used(one, GUESS) == Usage(prompt, output=1, estimated=True)


async def test_a_backend_that_will_not_be_asked_for_usage_gets_what_the_client_sent(counted: list[Prepared]) -> None:
    refused = complaint("chat", "Extra inputs are not permitted: 'stream_options'")
    hello = says_hello("chat", streamed=True)
    asked = {**REQUESTS["chat"], "stream": True}
    async with before("chat", refused, hello) as (proxy, backend):
        for _ in range(2):
            status, _, body = await proxy.post(PATHS["chat"], asked, {"idempotency-key": "one"})
            assert (status, b"Hel" in body) == (200, True)
    assert ["stream_options" in json.loads(request.body) for request in backend.asked] == [True, False, False]
    assert [json.loads(request.body) for request in backend.asked[1:]] == [asked, asked]
    assert [request.headers.get("idempotency-key") for request in backend.asked] == ["one", None, "one"]
    assert [used(one, GUESS) for one in counted] == [Usage(3, output=1)] * 2


@pytest.mark.parametrize("message", ["Unknown parameter: 'stream'.", "No.", "Unknown parameter: 'stream_optionz'."])
async def test_other_refusals_are_the_clients(counted: list[Prepared], message: str) -> None:
    async with before("chat", complaint("chat", message)) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": True})
    assert (status, json.loads(body)["error"]["message"], len(backend.asked)) == (400, message, 1)
    assert [used(one, GUESS) for one in counted] == [Usage()]
