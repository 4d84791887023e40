"""A proxy that makes several choices of as many answers, and what a backend of one answers a request says."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from proxy.settings import ProtocolName, Timeouts
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes
from tests.server.serving import REQUESTS, Proxy, route, serving, upstream
from tests.upstream.scripted import Scripted, Step, reply, stream

BACKENDS: tuple[ProtocolName, ...] = ("messages", "responses")
WORDS = ("One.", "Two.", "Three.")


def wish(n: int = 2, client: str = "chat", **fields: object) -> dict[str, object]:
    """A request for `n` choices."""
    return {**REQUESTS[client], "n": n, **fields}


def script(words: str, number: int = 0) -> Script:
    """Answer `number` from 0, of 10 tokens more a prompt each."""
    parts = (Part("text", (words[:2], words[2:]), number),)
    return Script(parts, "end", fresh=10 * (number + 1), read=2, write=3, output=7, reasoning=4)


def events(protocol: ProtocolName, words: str, number: int = 0) -> list[bytes]:
    return event_bytes(protocol, script(words, number))


def says(protocol: ProtocolName, *words: str, streamed: bool, meet: bool = True) -> list[list[Step]]:
    """An answer with each of these words. `meet`: none before all have been asked for."""
    start: list[Step] = [asyncio.Barrier(len(words))] if meet else []
    if streamed:
        return [[*start, *stream(*events(protocol, text, number))] for number, text in enumerate(words)]
    return [[*start, reply(200, whole_bytes(protocol, script(text, number)))] for number, text in enumerate(words)]


@asynccontextmanager
async def fanning(
    protocol: ProtocolName,
    *scripts: Sequence[Step] | bytes,
    most: int = 3,
    timeouts: Timeouts | None = None,
    reasoning_cache: bool = False,
    **settings: object,
) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """A proxy that asks this backend at most so many times for one request."""
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url, timeouts=timeouts or Timeouts(), **settings)
        models = [replace(route("*", to), fan_out=most)]
        async with serving(to, models=models, timeouts=timeouts, reasoning_cache=reasoning_cache) as proxy:
            yield proxy, backend


async def all_left(backend: Scripted, *numbers: int) -> None:
    """Wait until the proxy has closed the connections of these requests."""
    async with asyncio.timeout(5):
        for number in numbers:
            await backend.asked[number].left.wait()


def contents(body: bytes) -> list[str]:
    """What the choices of a whole reply say, in their order."""
    choices = json.loads(body)["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    return [choice["message"]["content"] if "message" in choice else choice["text"] for choice in choices]
