"""kill -9 at random moments: what was acknowledged is there, whole, and nothing is in progress for ever.

A short form by default; `DRAGOMAN_KILL_TURNS=500` for the long one.
"""

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness.model_backend import ModelBackend
from tests.harness.proxy_process import ProxyProcess

TURNS = int(os.environ.get("DRAGOMAN_KILL_TURNS", "40"))
KILL_EVERY = 15  # turns
CLIENTS = 6
KEY = "upstream-key"
ENDED = {"completed", "failed"}
LEASE_IS_OVER_WITHIN_S = 20

pytestmark = pytest.mark.timeout(60 + TURNS)


class Clients:
    """Several at once, each of which goes on with its own last response. `kept`: what they were told that is kept."""

    def __init__(self, proxies: list[ProxyProcess]) -> None:
        self.proxies = proxies
        self.kept: dict[str, str] = {}
        self.background: list[str] = []
        self.begun = 0
        self.lost = 0

    @property
    def acknowledged(self) -> int:
        return len(self.kept) + len(self.background)

    async def talk(self, session: aiohttp.ClientSession, number: int) -> None:
        previous: str | None = None
        while self.acknowledged < TURNS:
            self.begun += 1
            said = f"turn {self.begun} of {number}"
            url = self.proxies[self.begun % len(self.proxies)].url + "/v1/responses"
            body: dict[str, Any] = {"model": "m", "input": said, "stream": self.begun % 2 == 0}
            if self.begun % 5 == 0:
                body |= {"background": True, "stream": False}
            elif previous is not None:
                body["previous_response_id"] = previous
            try:
                async with session.post(url, json=body) as reply:
                    told = await reply.read()
                    assert reply.status in (200, 400, 503), told
                    response = _response(told, streamed=body["stream"])
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                self.lost += 1
                await asyncio.sleep(0.05)  # until it is there again, or another is
                continue
            if reply.status != 200 or response is None:
                self.lost += 1
            elif body.get("background"):
                self.background.append(response["id"])
            else:
                previous = response["id"]
                self.kept[previous] = said


def _response(told: bytes, *, streamed: bool) -> dict[str, Any] | None:
    """The response, if its client was told all of it."""
    if not streamed or told.startswith(b"{"):
        wire: dict[str, Any] = json.loads(told)
        return wire
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith(b"data: {")]
    last = events[-1] if events and told.endswith(b"\n\n") else {}
    return last["response"] if last.get("type") == "response.completed" else None


async def kill(proxies: list[ProxyProcess], clients: Clients, chance: random.Random) -> int:
    kills = 0
    while clients.acknowledged < TURNS:
        await asyncio.sleep(chance.uniform(0, 0.02))
        if clients.acknowledged >= (kills + 1) * KILL_EVERY:
            proxy = proxies[kills % len(proxies)]
            kills += 1
            await proxy.end(signal.SIGKILL)
            await proxy.start()
    return kills


async def check(clients: Clients, session: aiohttp.ClientSession) -> None:
    for proxy in clients.proxies:
        for response_id, said in clients.kept.items():
            async with session.get(f"{proxy.url}/v1/responses/{response_id}") as reply:
                wire = await reply.json()
            assert (reply.status, wire["status"]) == (200, "completed"), wire
            assert wire["output"][0]["content"][0]["text"] == f"You said: {said}"
            async with session.get(f"{proxy.url}/v1/responses/{response_id}/input_items") as reply:
                assert (await reply.json())["data"][0]["content"][0]["text"] == said
    async with asyncio.timeout(LEASE_IS_OVER_WITHIN_S):
        for response_id in clients.background:
            status = "queued"
            while status not in ENDED:
                async with session.get(f"{clients.proxies[0].url}/v1/responses/{response_id}") as reply:
                    status = (await reply.json())["status"]
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_nothing_that_was_acknowledged_is_lost(
    store: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(7)
    url = f"sqlite://{tmp_path}/state.db" if store == "sqlite" else request.getfixturevalue("postgres_url")
    backend = ModelBackend("chat", KEY, pause=lambda: chance.uniform(0, 0.03))
    async with AsyncExitStack() as stack:
        await backend.start()
        stack.push_async_callback(backend.stop)
        proxies = [
            ProxyProcess("chat", backend.url, more={"state": {"url": url}}) for _ in range(1 + (store != "sqlite"))
        ]
        for proxy in proxies:
            stack.push_async_callback(proxy.stop)
            await proxy.start()
        clients = Clients(proxies)
        timeout = aiohttp.ClientTimeout(total=20)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        async with asyncio.TaskGroup() as group:
            killing = group.create_task(kill(proxies, clients, chance))
            for number in range(CLIENTS):
                group.create_task(clients.talk(session, number))
        assert killing.result() >= 1
        assert len(clients.kept) > TURNS // 2
        await check(clients, session)
        record_property(
            "shown",
            f"{store}: {clients.acknowledged} acknowledged, {killing.result()} kills, {clients.lost} broken off",
        )
