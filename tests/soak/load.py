"""Clients of all protocols that ask as often as they are told, look at what they get, and leave now and then."""

import asyncio
import json
from collections import Counter
from itertools import product
from random import Random

import aiohttp

from tests.harness.wire import PROTOCOLS, Protocol
from tests.server.serving import PATHS, REQUESTS

MOST_OPEN = 400
_LEAVE = 0.05  # share of those that do not wait for the end
_TOOLS = {
    "chat": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "messages": [{"name": "look", "input_schema": {"type": "object"}}],
}
_ENDS = {
    "chat": b"data: [DONE]\n\n",
    "completions": b"data: [DONE]\n\n",
    "responses": b"",  # looked for by name
    "messages": b'{"type":"message_stop"}\n\n',
}


Kind = tuple[str, Protocol, bool]  # client, backend, streamed


class Load:
    """`rate`: requests a second. `got`: what came of them; `odd`: what was neither an answer nor an error."""

    def __init__(self, port: int, seed: int, rate: float) -> None:
        self.rate = rate
        self.got: Counter[str] = Counter()
        self.odd: list[str] = []
        self._url = f"http://127.0.0.1:{port}"
        self._random = Random(seed)
        self._open: set[asyncio.Task[None]] = set()
        self._kinds = list(product(PATHS, PROTOCOLS, (False, True, True)))
        self._bodies = {kind: _body(*kind) for kind in self._kinds}

    async def run(self, until: float) -> None:
        """Until the loop's clock says so; then until all have ended."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            while loop.time() < until:
                due = max(due + 1 / self.rate, loop.time() - 0.1)
                await asyncio.sleep(due - loop.time())
                if len(self._open) < MOST_OPEN:
                    task = asyncio.create_task(self._one(session, self._random.choice(self._kinds)))
                    self._open.add(task)
                    task.add_done_callback(self._open.discard)
            while self._open:
                await asyncio.wait(self._open)

    async def _one(self, session: aiohttp.ClientSession, kind: Kind) -> None:
        client, _, streamed = kind
        leaves = self._random.random() < _LEAVE
        try:
            async with session.post(self._url + PATHS[client], data=self._bodies[kind]) as response:
                if leaves:
                    await response.content.readany()
                    response.close()
                    self.got["left"] += 1
                    return
                body = await response.read()
        except aiohttp.ClientError as error:
            self._note_odd(kind, repr(error))
            return
        if response.status >= 400:
            self.got["error"] += 1
        elif not streamed or _ended(client, body):
            self.got["right"] += 1
        elif b'"error"' in body[-4000:]:
            self.got["error in a stream"] += 1
        else:
            self._note_odd(kind, repr(body[-200:]))

    def _note_odd(self, kind: Kind, what: str) -> None:
        self.got["odd"] += 1
        if len(self.odd) < 20:
            self.odd.append(f"{kind}: {what}")


def _body(client: str, backend: str, streamed: bool) -> bytes:
    wire = {**REQUESTS[client], "model": backend, "stream": streamed}
    if client in _TOOLS:
        wire["tools"] = _TOOLS[client]
    return json.dumps(wire).encode()


def _ended(client: str, body: bytes) -> bool:
    if client == "responses":
        return b"event: response.completed\n" in body[-20_000:]
    return body.endswith(_ENDS[client]) or (client == "messages" and b"event: message_stop\n" in body[-100:])
