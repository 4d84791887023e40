"""A backend that answers before it has read a large request: what it says reaches the client, whatever it does next."""

import asyncio
import json
from io import BytesIO

import pytest

from tests.faults.faulty import reset
from tests.harness.http_wire import READ_SIZE, read_head
from tests.server.serving import PATHS, REPLIES, REQUESTS, serving, upstream
from tests.upstream.listening import Listening
from tests.upstream.scripted import reply

LARGE = "x" * 6_000_000
ERROR = {"error": {"message": "It is too much.", "type": "invalid_request_error", "param": None, "code": None}}


class Early(Listening):
    """`then`: what it does once it has answered."""

    def __init__(self, status: int, then: str) -> None:
        super().__init__()
        self._answer = reply(status, json.dumps(REPLIES["chat"] if status == 200 else ERROR))
        self._then = then

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        await read_head(reader)
        writer.write(self._answer)
        await writer.drain()
        match self._then:
            case "read on":
                while await reader.read(READ_SIZE):
                    pass
            case "end":
                writer.write_eof()
                await asyncio.Event().wait()
            case "hold":
                await asyncio.Event().wait()
            case "reset":
                reset(writer)
        return False


@pytest.mark.parametrize("then", ["read on", "end", "hold", "reset", "close"])
@pytest.mark.parametrize("status", [200, 413])
@pytest.mark.parametrize("client", ["chat", "messages"])
async def test_what_it_says_is_told(client: str, status: int, then: str) -> None:
    async with Early(status, then) as backend, serving(upstream("chat", backend.base_url)) as proxy:
        wire = {**REQUESTS[client], "messages": [{"role": "user", "content": LARGE}]}
        raw = BytesIO(json.dumps(wire).encode())
        got, _, body = await proxy.ask("POST", PATHS[client], {"content-type": "application/json"}, raw)
    assert (got, b"It is too much." in body) == (status, status == 413)
    assert backend.connections == 1
