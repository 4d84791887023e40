"""Traffic as a proxy has it: the vendors' SDKs in all protocols, whole and streamed, of tenants that may and may not,
before backends that answer, fail and break off."""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from tests.harness.model_backend import ModelBackend
from tests.harness.otlp import Receiver
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol
from tests.limits.replicas import PEPPER, PRICES, Tenants

UPSTREAM_KEY = "the-right-key"
CARRIER_KEY = "0f" * 32
WORKERS = 6
# How long a model thinks before each event of its stream, at most.
SLOWEST_S: dict[Protocol, float] = {"chat": 0.02, "responses": 0.01, "messages": 0.03}

LIMITS: dict[str, Any] = {
    "search": {"rpm": 60_000, "tpm": 100_000_000, "budget": {"usd": 1, "period": "day"}},
    "support": {"rpm": 6_000, "budget": {"usd": 0.2, "period": "day"}},
    "trial": {"rpm": 30, "concurrency": 2},
}
WEIGHTS = {"search": 6, "support": 3, "trial": 1}
PROMPTS = {
    "Say hello in a few words, please.": 20,
    "[[think]] What is a dragoman?": 4,
    "[[status=429]] busy": 1,
    "[[status=500]] broken": 1,
    "[[overloaded]] busy": 1,
    "[[error]] in the middle of a stream": 1,
    "[[cut]] in the middle of a stream": 1,
}

Ask = Callable[[str, str, str, bool], Awaitable[object]]


@dataclass
class Scene:
    """A running proxy; `play` sends it traffic."""

    proxy: ProxyProcess
    keys: dict[str, str]
    receiver: Receiver

    async def play(self, seconds: float) -> None:
        """Several clients at once, more of them in the middle than at the ends. What fails is meant to."""
        until = time.monotonic() + seconds
        url, chance = self.proxy.url, random.Random(7)
        async with AsyncExitStack() as stack:
            by_openai = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
            by_anthropic = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
            await stack.enter_async_context(by_openai)
            await stack.enter_async_context(by_anthropic)
            asks = {protocol: ASKS[protocol](by_openai, by_anthropic) for protocol in PROTOCOLS}

            async def work(number: int) -> None:
                while (left := until - time.monotonic()) > 0:
                    wave = math.sin(math.pi * left / seconds) * WORKERS
                    await asyncio.sleep(0.02 if number <= wave else 0.1)
                    await one(asks, self.keys, chance)

            await asyncio.gather(*(work(number) for number in range(WORKERS)))


async def one(asks: dict[Protocol, Ask], keys: dict[str, str], chance: random.Random) -> None:
    """One request of somebody."""
    tenant = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    key = keys[tenant] if chance.random() < 0.95 else "nobody's key"
    prompt = chance.choices(list(PROMPTS), list(PROMPTS.values()))[0]
    backend = chance.choice(PROTOCOLS) if chance.random() < 0.97 else "revoked"
    with suppress(openai.OpenAIError, anthropic.AnthropicError):
        await asks[chance.choice(PROTOCOLS)](key, f"{backend}-model", prompt, chance.random() < 0.6)


def _chat(by_openai: openai.AsyncOpenAI, _: anthropic.AsyncAnthropic) -> Ask:
    async def ask(key: str, model: str, prompt: str, stream: bool) -> object:
        strict = {"dragoman-strict": "1"} if random.random() < 0.15 else {}
        answer: Any = await by_openai.with_options(api_key=key).chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            stream=stream,
            seed=1,
            extra_headers=strict,
        )
        return await _read(answer) if stream else answer

    return ask


def _responses(by_openai: openai.AsyncOpenAI, _: anthropic.AsyncAnthropic) -> Ask:
    async def ask(key: str, model: str, prompt: str, stream: bool) -> object:
        answer: Any = await by_openai.with_options(api_key=key).responses.create(
            model=model,
            input=prompt,
            stream=stream,
            store=False,
            extra_body={"unheard_of": True} if random.random() < 0.1 else {},
        )
        return await _read(answer) if stream else answer

    return ask


def _messages(_: openai.AsyncOpenAI, by_anthropic: anthropic.AsyncAnthropic) -> Ask:
    async def ask(key: str, model: str, prompt: str, stream: bool) -> object:
        answer: Any = await by_anthropic.with_options(api_key=key).messages.create(
            model=model,
            max_tokens=1000,
            messages=[{"role": "user", "content": prompt}],
            stream=stream,
            extra_body={"top_k": 5} if random.random() < 0.3 else {},
        )
        return await _read(answer) if stream else answer

    return ask


ASKS: dict[Protocol, Callable[[openai.AsyncOpenAI, anthropic.AsyncAnthropic], Ask]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
}


async def _read(stream: Any) -> object:
    """To its end; one client in ten leaves before."""
    leaves = random.random() < 0.1
    async with stream:
        async for event in stream:
            if leaves:
                return event
    return None


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """A proxy before a backend of each protocol, and before one that no longer takes its key."""
    async with AsyncExitStack() as stack:
        backends = {}
        for protocol in PROTOCOLS:
            slowest = SLOWEST_S[protocol]
            backends[protocol] = ModelBackend(protocol, UPSTREAM_KEY, lambda slowest=slowest: random.random() * slowest)
            await backends[protocol].start()
            stack.push_async_callback(backends[protocol].stop)
        upstreams: list[dict[str, Any]] = [
            {"name": protocol, "protocol": protocol, "base_url": backend.url, "api_key": UPSTREAM_KEY}
            for protocol, backend in backends.items()
        ]
        upstreams.append({**upstreams[0], "name": "revoked", "api_key": "an old key"})
        tenants = Tenants(LIMITS)
        receiver = await stack.enter_async_context(Receiver())
        proxy = ProxyProcess(
            "chat",
            backends["chat"].url,
            more={
                "upstreams": upstreams,
                "models": [{"match": f"{each['name']}-model", "upstream": each["name"]} for each in upstreams],
                "key_pepper": PEPPER,
                "prices": PRICES,
                "tenants": tenants.entries,
                "state": {"carrier_keys": [CARRIER_KEY]},
                "telemetry": {"traces": {"endpoint": receiver.url, "sample": 1}},
            },
        )
        stack.push_async_callback(proxy.stop)
        await proxy.start()
        yield Scene(proxy, tenants.keys, receiver)
