"""What the vendors' SDKs do with our refusals, by themselves: they wait as they are told, or stop at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from proxy.settings.tenants import ModelRules, NameRules, TenantLimits, ToolRules
from proxy.tenancy.memory import MemoryLimiter
from tests.server.policy_rules import EVERYTHING, PRICES, RULES, USING_UP
from tests.server.routes import Site, site
from tests.server.tenancy import KEY, OTHER_KEY, bearer, tenant

Ask = Callable[..., Coroutine[None, None, object]]

MESSAGES: list[Any] = [{"role": "user", "content": "Say hello."}]
RETRIES = 2  # both SDKs' default


@dataclass
class Sdks:
    """The SDKs as a user of the proxy makes them."""

    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic

    async def chat(self, **more: Any) -> object:
        return await self.openai.chat.completions.create(**{"model": "on-messages", "messages": MESSAGES, **more})

    async def responses(self, **more: Any) -> object:
        return await self.openai.responses.create(**{"model": "on-chat", "input": "Say hello.", **more})

    async def messages(self, **more: Any) -> object:
        told = {"model": "on-chat", "max_tokens": 9, "messages": MESSAGES, **more}
        return await self.anthropic.messages.create(**told)


CLIENTS: dict[str, Ask] = {"chat": Sdks.chat, "responses": Sdks.responses, "messages": Sdks.messages}
everyone = pytest.mark.parametrize("client", CLIENTS)
anyhow = pytest.mark.parametrize("stream", [False, True])


@asynccontextmanager
async def asking(fields: dict[str, object], key: str = KEY) -> AsyncIterator[tuple[Site, Sdks]]:
    """Both SDKs before a proxy with one tenant."""
    who = tenant(**{"endpoints": EVERYTHING, **fields})
    async with AsyncExitStack() as stack:
        proxy_site = await stack.enter_async_context(site(who, prices=PRICES))
        url = proxy_site.proxy.url
        by_openai = openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=RETRIES)
        by_anthropic = anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=RETRIES)
        sdks = Sdks(await stack.enter_async_context(by_openai), await stack.enter_async_context(by_anthropic))
        yield proxy_site, sdks


def arrivals(proxy_site: Site) -> list[tuple[object, object]]:
    """(status, reason) of all requests that came."""
    return [(record["status"], record["reason"]) for record in proxy_site.proxy.access.records]


@everyone
@anyhow
async def test_sdks_wait_as_told_and_succeed(client: str, stream: bool) -> None:
    """A burst of 50 is used up, after which there is room for one more every 200 ms."""
    clock = [0.0]
    async with asking({"limits": TenantLimits(rpm=300)}) as (proxy_site, sdks):
        proxy_site.proxy.runtime.limiter = MemoryLimiter(clock=lambda: clock[0])
        while (await proxy_site.proxy.ask("GET", "/v1/models", bearer()))[0] == 200:
            pass
        access = proxy_site.proxy.access
        access.records.clear()
        access.written.clear()
        asking_once = asyncio.create_task(CLIENTS[client](sdks, stream=stream))
        await access.written.wait()
        clock[0] += 0.2  # what the SDK is told to wait
        assert await asking_once is not None
        await proxy_site.all_over()
        assert arrivals(proxy_site) == [(429, "rpm"), (200, None)]


STOPS: dict[str, tuple[type[Exception], type[Exception]]] = {
    "budget": (openai.RateLimitError, anthropic.PaymentRequiredError),
    "rpd": (openai.RateLimitError, anthropic.RateLimitError),
    "tpd": (openai.RateLimitError, anthropic.RateLimitError),
}


@everyone
@anyhow
@pytest.mark.parametrize("name", STOPS)
async def test_sdks_stop_at_once_where_waiting_is_no_use(client: str, stream: bool, name: str) -> None:
    async with asking(RULES[name].fields) as (proxy_site, sdks):
        await proxy_site.proxy.post("/v1/messages", USING_UP, bearer())
        proxy_site.proxy.access.records.clear()
        with pytest.raises(STOPS[name][client == "messages"]) as raised:
            await CLIENTS[client](sdks, stream=stream)
        came = arrivals(proxy_site)
    expected = 402 if (name, client) == ("budget", "messages") else 429
    assert came == [(expected, name)]
    if client != "messages":
        code = "insufficient_quota" if name == "budget" else "rate_limit_exceeded"
        assert getattr(raised.value, "code", None) == code


ONE_TOOL = {
    "chat": {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "f", "parameters": {"type": "object"}},
    "messages": {"name": "f", "input_schema": {"type": "object"}},
}
DENIALS: dict[str, tuple[str, dict[str, object], str]] = {
    "models": ("NotFoundError", {"models": ModelRules(NameRules(()))}, "model_denied"),
    "tools": ("PermissionDeniedError", {"tools": ToolRules(functions=NameRules(()))}, "tool_denied"),
    "protocols": ("PermissionDeniedError", {"protocols": frozenset()}, "protocol_denied"),
    "keys": ("AuthenticationError", {"keys": ()}, "auth_unknown"),
    "expired": ("AuthenticationError", {"expires_at": 1.0}, "auth_expired"),
}


@everyone
@pytest.mark.parametrize("name", DENIALS)
async def test_sdks_raise_what_their_users_expect(client: str, name: str) -> None:
    error, fields, reason = DENIALS[name]
    async with asking(fields) as (proxy_site, sdks):
        with pytest.raises(getattr(anthropic if client == "messages" else openai, error)):
            await CLIENTS[client](sdks, tools=[ONE_TOOL[client]])
        came = arrivals(proxy_site)
    assert [told for _, told in came] == [reason]


BAD_KEYS = {
    "foreign": "sk-proj-of-somebody-else",
    "malformed": "drg_mistyped",
    "mistyped": KEY[:-1] + ("A" if KEY[-1] != "A" else "B"),
    "unknown": OTHER_KEY,
}


@everyone
@pytest.mark.parametrize("key", BAD_KEYS)
async def test_sdks_do_not_try_a_bad_key_again(client: str, key: str) -> None:
    async with asking({}, BAD_KEYS[key]) as (proxy_site, sdks):
        with pytest.raises((openai.AuthenticationError, anthropic.AuthenticationError)):
            await CLIENTS[client](sdks)
        assert len(arrivals(proxy_site)) == 1
        assert proxy_site.asked == 0


@everyone
async def test_a_body_that_is_too_large_is_not_sent_again(client: str) -> None:
    async with asking({"limits": TenantLimits(max_body_bytes=20)}) as (proxy_site, sdks):
        with pytest.raises((openai.APIStatusError, anthropic.ContentTooLargeError)) as raised:
            await CLIENTS[client](sdks)
        assert arrivals(proxy_site) == [(413, "body_too_large")]
    assert getattr(raised.value, "status_code", None) == 413
