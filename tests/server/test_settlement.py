"""However a request ends, what it held is given back once and what it used is charged (operations.md 9.2, 9.3)."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil

import aiohttp
import pytest
from pydantic import SecretBytes

from proxy.server import spending
from proxy.settings import ProtocolName, Timeouts
from proxy.settings.tenants import Budget, Price, TenantLimits
from proxy.tenancy.estimates import UNSAID_OUTPUT, input_tokens
from proxy.tenancy.limits import Lease
from proxy.tenancy.memory import MemoryLimiter
from proxy.upstream.pool import Pool
from tests.server.serving import EVENTS, PATHS, REPLIES, REQUESTS, Proxy, begins, route, says_hello, serving, upstream
from tests.server.tenancy import PEPPER, bearer, tenant
from tests.upstream.scripted import CUT, HOLD, Scripted, Step, chunk, head, reply

PAIRS: list[tuple[str, ProtocolName]] = [
    ("chat", "chat"),
    ("responses", "responses"),
    ("messages", "messages"),
    ("chat", "messages"),
    ("messages", "responses"),
    ("responses", "chat"),
]
PRICES = (Price("*", 1_000_000, 10_000_000, 0, 0, 0, 10_000_000),)  # 1 micro-dollar a token of input, 10 of output
WHO = tenant(limits=TenantLimits(tpd=10**6, budget=Budget(10**6), concurrency=5, streams=5))
IMPATIENT = Timeouts(first_event_stream=0.05, first_event_whole=0.05, idle=0.05, total_whole=5, total_stream=5)
UP_TO_HEL = {"chat": 2, "responses": 4, "messages": 3}  # events of a stream

pairs = pytest.mark.parametrize(("client", "protocol"), PAIRS)
anyhow = pytest.mark.parametrize("stream", [False, True])


@dataclass
class Settled:
    """What the tenant was charged, and how often: tokens, micro-dollars, and what the log says of the source."""

    times: int
    tokens: object
    cost: object
    source: object


@dataclass
class Desk:
    """A proxy whose settlements are watched."""

    proxy: Proxy
    backend: Scripted
    settlements: list[tuple[int, int]]

    async def settled(self) -> Settled:
        """Once the one request is over. Nothing may be left of it."""
        record = await self.proxy.record()
        limiter = self.proxy.runtime.limiter
        assert isinstance(limiter, MemoryLimiter)
        used = {standing.dimension: standing.used for standing in await limiter.standings(WHO)}
        assert (limiter.reserved_tokens, limiter.expired) == (0, 0)
        assert (used["concurrency"], used["streams"], self.proxy.runtime.open) == (0, 0, set())
        assert self.settlements == [(used["tpd"], used["budget"])]
        return Settled(len(self.settlements), used["tpd"], used["budget"], record.get("usage_source"))


@asynccontextmanager
async def desk(
    protocol: ProtocolName,
    *scripts: Sequence[Step] | bytes,
    timeouts: Timeouts | None = None,
    fan_out: int = 1,
    prices: Sequence[Price] = PRICES,
) -> AsyncIterator[Desk]:
    """A tenant that is limited in every way, before a backend that says this."""
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url, timeouts=timeouts or Timeouts())
        models = [replace(route("*", to), fan_out=fan_out)]
        pepper = SecretBytes(PEPPER)
        async with serving(to, models=models, tenants=[WHO], prices=prices, key_pepper=pepper) as proxy:
            settlements: list[tuple[int, int]] = []
            settle: Callable[[Lease, int, int], None] = proxy.runtime.limiter.settle

            def watched(lease: Lease, tokens: int, cost: int) -> None:
                settlements.append((tokens, cost))
                settle(lease, tokens, cost)

            proxy.runtime.limiter.settle = watched  # type: ignore[method-assign]
            yield Desk(proxy, backend, settlements)


def request_of(client: str, *, stream: bool) -> bytes:
    return json.dumps({**REQUESTS[client], "stream": stream}).encode()


def guess(client: str, *, stream: bool) -> int:
    """Tokens of the prompt, where nobody told."""
    raw = request_of(client, stream=stream)
    return input_tokens(raw, json.loads(raw))


def nothing() -> Settled:
    return Settled(1, 0, 0, "none")


def guessed(prompt: int, output: int) -> Settled:
    return Settled(1, prompt + output, prompt + 10 * output, "estimated")


TOLD = Settled(1, 4, 13, "reported")


@pairs
@anyhow
async def test_a_success_costs_what_the_backend_told(client: str, protocol: ProtocolName, stream: bool) -> None:
    async with desk(protocol, says_hello(protocol, streamed=stream)) as at:
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer())
        assert (status, await at.settled()) == (200, TOLD)


@pairs
async def test_a_client_that_leaves_a_stream_pays_for_what_it_got(client: str, protocol: ProtocolName) -> None:
    script = [*begins(protocol, UP_TO_HEL[protocol]), HOLD]
    async with desk(protocol, script) as at:
        url = at.proxy.url + PATHS[client]
        raw = request_of(client, stream=True)
        async with at.proxy.session.post(url, data=raw, headers=bearer()) as response:
            while b"Hel" not in await response.content.readany():
                pass
            response.close()
        prompt = 3 if protocol == "messages" else guess(client, stream=True)
        assert await at.settled() == guessed(prompt, 1)
        await at.backend.asked[0].left.wait()


@pairs
@anyhow
async def test_a_client_that_leaves_before_the_answer_pays_for_its_prompt(
    client: str, protocol: ProtocolName, stream: bool
) -> None:
    async with desk(protocol, [HOLD]) as at:
        asking = asyncio.create_task(at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer()))
        await at.backend.got_one.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert await at.settled() == guessed(guess(client, stream=stream), 0)


@pairs
@anyhow
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_an_error_of_the_backend_costs_nothing(
    client: str, protocol: ProtocolName, stream: bool, status: int
) -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "No.", "code": None, "param": None}}
    async with desk(protocol, reply(status, json.dumps(error))) as at:
        told, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer())
        assert told >= 400
        assert await at.settled() == nothing()


@pairs
@anyhow
async def test_a_backend_that_hangs_up_costs_nothing(client: str, protocol: ProtocolName, stream: bool) -> None:
    async with desk(protocol, [CUT]) as at:
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer())
        assert (status, await at.settled()) == (502, nothing())


@pairs
async def test_a_backend_that_can_not_be_reached_costs_nothing(client: str, protocol: ProtocolName) -> None:
    async with desk(protocol, [CUT]) as at:
        await at.backend.__aexit__()
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=False), bearer())
        assert (status, await at.settled()) == (502, nothing())


@pairs
async def test_a_stream_that_is_cut_costs_what_came(client: str, protocol: ProtocolName) -> None:
    script = [head(), *map(chunk, EVENTS[protocol][: UP_TO_HEL[protocol]]), CUT]
    async with desk(protocol, script) as at:
        status, _, body = await at.proxy.post(PATHS[client], request_of(client, stream=True), bearer())
        assert (status, b"Hel" in body) == (200, True)
        prompt = 3 if protocol == "messages" else guess(client, stream=True)
        assert await at.settled() == guessed(prompt, 1)


@pairs
async def test_a_whole_answer_that_is_cut_costs_the_prompt(client: str, protocol: ProtocolName) -> None:
    whole = reply(200, json.dumps(REPLIES[protocol]))
    async with desk(protocol, [whole[:-20], CUT]) as at:
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=False), bearer())
        assert (status, await at.settled()) == (502, guessed(guess(client, stream=False), 0))


@pairs
@anyhow
async def test_a_backend_that_does_not_begin_in_time_costs_the_prompt(
    client: str, protocol: ProtocolName, stream: bool
) -> None:
    async with desk(protocol, [HOLD], timeouts=IMPATIENT) as at:
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer())
        assert (status, await at.settled()) == (504, guessed(guess(client, stream=stream), 0))


@pairs
async def test_a_stream_that_stops_costs_what_came(client: str, protocol: ProtocolName) -> None:
    script = [*begins(protocol, UP_TO_HEL[protocol]), HOLD]
    async with desk(protocol, script, timeouts=IMPATIENT) as at:
        status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=True), bearer())
        prompt = 3 if protocol == "messages" else guess(client, stream=True)
        assert (status, await at.settled()) == (200, guessed(prompt, 1))


@anyhow
async def test_a_translation_that_is_refused_costs_nothing(stream: bool) -> None:
    async with desk("chat", b"") as at:
        raw = json.dumps({**REQUESTS["messages"], "top_k": 5, "stream": stream}).encode()
        status, told, _ = await at.proxy.post(PATHS["messages"], raw, {**bearer(), "dragoman-strict": "1"})
        assert (status, told["dragoman-reason"], await at.settled()) == (400, "loss_refused", nothing())


@anyhow
async def test_several_choices_cost_as_many_answers(stream: bool) -> None:
    async with desk("messages", says_hello("messages", streamed=stream), fan_out=2) as at:
        raw = json.dumps({**REQUESTS["chat"], "n": 2, "stream": stream}).encode()
        status, _, _ = await at.proxy.post(PATHS["chat"], raw, bearer())
        assert (status, await at.settled()) == (200, Settled(1, 8, 26, "reported"))
        learnt = at.proxy.runtime.estimates.of(WHO.name, "m")
        assert learnt.expect(100, None) == (100, UNSAID_OUTPUT), "the sum says nothing of one request"


@pytest.mark.parametrize(("limit", "each"), [({}, UNSAID_OUTPUT), ({"max_completion_tokens": 50}, 50)])
async def test_as_much_is_held_for_several_choices_as_for_so_many_requests(limit: dict[str, int], each: int) -> None:
    wire = {**REQUESTS["chat"], "n": 2, **limit}
    async with desk("messages", [HOLD], [HOLD], fan_out=2) as at:
        limiter = at.proxy.runtime.limiter
        assert isinstance(limiter, MemoryLimiter)
        asking = asyncio.create_task(at.proxy.post(PATHS["chat"], wire, bearer()))
        await at.backend.got_one.wait()
        assert limiter.reserved_tokens == 2 * (input_tokens(json.dumps(wire).encode(), wire) + each)
        asking.cancel()
        await asyncio.wait([asking])
        await at.settled()


@pairs
@anyhow
async def test_a_bug_of_ours_leaves_nothing_open(
    client: str, protocol: ProtocolName, stream: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_given: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Pool, "start", fail)
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        async with desk(protocol, b"") as at:
            status, _, _ = await at.proxy.post(PATHS[client], request_of(client, stream=stream), bearer())
            settled = await at.settled()
    assert (status, settled.times) == (500, 1)


@anyhow
async def test_a_bug_in_the_reckoning_costs_what_was_reserved(
    stream: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(spending, "used", fail)
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        async with desk("chat", says_hello("chat", streamed=stream)) as at:
            with suppress(aiohttp.ClientError):
                await at.proxy.post(PATHS["chat"], request_of("chat", stream=stream), bearer())
            settled = await at.settled()
    assert (settled.times, settled.tokens) == (1, guess("chat", stream=stream) + 1024)


@pytest.mark.parametrize(
    ("others", "charged"),
    [
        ({"models": ["m", "dear"]}, 4000),
        ({"fallbacks": [{"model": "dear"}]}, 4000),
        ({"fallbacks": "default"}, None),
        ({"models": ["unpriced"]}, None),
    ],
)
async def test_models_to_fall_back_to_cost_as_much_as_the_dearest(
    others: dict[str, object], charged: int | None
) -> None:
    """Nobody says which of them it was that answered. Where one has no price, a hard budget lets none answer."""
    prices = (Price("m", 1, 1, 1, 1, 1, 1), Price("dear", *[1_000_000_000] * 6))
    async with desk("chat", says_hello("chat", streamed=False), prices=prices) as at:
        raw = json.dumps({**REQUESTS["chat"], **others, "max_tokens": 1}).encode()
        status, told, _ = await at.proxy.post(PATHS["chat"], raw, bearer())
        if charged is None:
            assert (status, told["dragoman-reason"], at.backend.asked) == (429, "budget", [])
        else:
            assert (await at.settled()).cost == charged


@pytest.mark.parametrize("client", ["messages", "chat"])
async def test_a_compaction_and_an_advisor_cost_beside_the_answer(client: str) -> None:
    iterations = [
        {"type": "compaction", "input_tokens": 100, "output_tokens": 10},
        {"type": "message", "input_tokens": 3, "output_tokens": 1},
        {"type": "advisor_message", "model": "wise", "input_tokens": 20, "output_tokens": 2},
    ]
    usage = {"input_tokens": 3, "output_tokens": 1, "iterations": iterations}
    answer = [reply(200, json.dumps({**REPLIES["messages"], "usage": usage}))]
    prices = (Price("wise", *[3_000_000] * 6), *PRICES)
    async with desk("messages", answer, prices=prices) as at:
        await at.proxy.post(PATHS[client], request_of(client, stream=False), bearer())
        assert await at.settled() == Settled(1, 4 + 110 + 22, 13 + 200 + 66, "reported")


# ---- an endpoint that nobody translates

EMBEDDING = b'{"model": "m", "input": "Say hello."}'
EMBEDDED = json.dumps({"object": "list", "data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}})
PROMPT = ceil(len(EMBEDDING) / 3.6)
ENDS: dict[str, tuple[list[Step], int, Settled]] = {
    "success": ([reply(200, EMBEDDED)], 200, Settled(1, 3, 3, "reported")),
    "no usage": ([reply(200, "{}")], 200, guessed(PROMPT, 0)),
    "refused": ([reply(400, '{"error": {"message": "No."}}')], 400, nothing()),
    "failed": ([reply(500, "")], 500, nothing()),
    "hung up": ([CUT], 502, nothing()),
    "did not begin": ([HOLD], 504, guessed(PROMPT, 0)),
}


@pytest.mark.parametrize("name", ENDS)
async def test_what_passes_is_settled_too(name: str) -> None:
    script, status, expected = ENDS[name]
    async with desk("chat", script, timeouts=IMPATIENT) as at:
        told, _, _ = await at.proxy.post("/v1/embeddings", EMBEDDING, bearer())
        assert (told, await at.settled()) == (status, expected)


async def test_a_compaction_of_what_was_cached_costs_as_little_as_an_answer_to_it() -> None:
    usage = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 900}, "output_tokens": 10}
    compacted = [reply(200, json.dumps({"object": "response.compaction", "output": [], "usage": usage}))]
    async with desk("responses", compacted) as at:
        await at.proxy.post("/v1/responses/compact", {"model": "m", "input": "Say hello."}, bearer())
        assert await at.settled() == Settled(1, 1010, 100 + 100, "reported")


async def test_what_passes_is_over_before_what_it_holds() -> None:
    limits = Timeouts(total_stream=0.05)
    async with desk("responses", [reply(200, EMBEDDED)[:-10], HOLD], timeouts=limits) as at:
        with pytest.raises(aiohttp.ClientError):
            await at.proxy.post("/v1/embeddings", EMBEDDING, bearer())
        assert (await at.settled()).times == 1


@pytest.mark.parametrize("end", [CUT, HOLD])
async def test_what_passes_and_is_cut_costs_the_prompt(end: Step) -> None:
    async with desk("chat", [reply(200, EMBEDDED)[:-10], end], timeouts=IMPATIENT) as at:
        with pytest.raises(aiohttp.ClientError):
            await at.proxy.post("/v1/embeddings", EMBEDDING, bearer())
        assert await at.settled() == guessed(PROMPT, 0)


@pytest.mark.parametrize("begun", [False, True])
async def test_who_leaves_what_passes_pays_for_the_prompt(begun: bool) -> None:
    script: list[Step] = [reply(200, EMBEDDED)[:-10], HOLD] if begun else [HOLD]
    async with desk("chat", script) as at:
        url = at.proxy.url + "/v1/embeddings"
        asking = asyncio.create_task(at.proxy.session.post(url, data=EMBEDDING, headers=bearer()).__aenter__())
        await at.backend.got_one.wait()
        if begun:
            (await asking).close()
        else:
            asking.cancel()
            await asyncio.wait([asking])
        assert await at.settled() == guessed(PROMPT, 0)


async def test_a_count_of_tokens_uses_none() -> None:
    async with desk("messages", reply(200, '{"input_tokens": 3}')) as at:
        status, _, _ = await at.proxy.post("/v1/messages/count_tokens", REQUESTS["messages"], bearer())
        assert (status, await at.settled()) == (200, Settled(1, 0, 0, None))
