"""A worker that is killed under load, seen by the vendors' SDKs: its own streams break, each so that its user is told,
and nobody else notices."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import anthropic
import httpx2
import openai

from tests.e2e.sdk_clients import CLIENTS, SdkClient
from tests.harness.model_backend import ModelBackend
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.test_workers import in_flight, ready

KEY = "the-right-key"
EACH = 6  # clients of a protocol
ROUNDS = 3  # of asking, each
PAUSE = 0.05  # seconds before each event of a stream
WORDS = "one two three four five six seven eight"
# How an SDK tells that an answer broke off.
TOLD = (openai.APIError, anthropic.AnthropicError, httpx2.HTTPError)

Show = Callable[[str, object], None]


@dataclass
class Seen:
    """`broken`: by the client, how often it was told that an answer broke."""

    right: int = 0
    broken: Counter[int] = field(default_factory=Counter)


@asynccontextmanager
async def _two_workers(backend: Protocol) -> AsyncIterator[ProxyProcess]:
    model = ModelBackend(backend, KEY, pause=lambda: PAUSE)
    await model.start()
    proxy = ProxyProcess(backend, model.url, key=None, more={"workers": 2})
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
        await model.stop()


def _workers_of(proxy: ProxyProcess) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()]


async def _ask_on(number: int, client: SdkClient, seen: Seen) -> None:
    for _ in range(ROUNDS):
        try:
            run = await client.run(f"{WORDS} {number}", stream=True)
        except TOLD:
            seen.broken[number] += 1
        else:
            assert run.text == f"You said: {WORDS} {number}", "an answer that is not whole looks as if it were"
            seen.right += 1


async def test_only_the_streams_of_a_worker_that_is_killed_break(record_property: Show) -> None:
    async with _two_workers("messages") as proxy, AsyncExitStack() as stack:
        admins = [f"http://127.0.0.1:{proxy.admin_port + number}" for number in range(2)]
        for admin in admins:
            await ready(admin)
        clients = [CLIENTS[protocol](proxy.url, KEY) for protocol in PROTOCOLS for _ in range(EACH)]
        for client in clients:
            stack.push_async_callback(client.close)
        seen = Seen()
        asking = asyncio.gather(*(_ask_on(number, client, seen) for number, client in enumerate(clients)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with asyncio.timeout(20):
            while (its_own := await in_flight(session, admins[0])) < 2 or not await in_flight(session, admins[1]):
                pass
        killed, other = _workers_of(proxy)
        os.kill(killed, signal.SIGKILL)
        await asyncio.wait_for(asking, 60)
        await ready(admins[0])
        assert other in _workers_of(proxy)
    broken = seen.broken.total()
    record_property(
        "shown", f"{its_own} streams on the worker that was killed: {broken} answers broke, {seen.right} were right"
    )
    assert 0 < broken <= len(clients), "one at most of each client"
    assert max(seen.broken.values()) == 1
    assert seen.right == len(clients) * ROUNDS - broken
