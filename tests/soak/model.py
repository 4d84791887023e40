"""Backends of all protocols at one address, which take their time, refuse now and then, and break off now and then."""

import asyncio
import json
from itertools import count
from random import Random

from tests.faults.faulty import reset
from tests.harness.http_wire import body_pieces, read_head
from tests.harness.model_replies import Answer, Call, render, write_stream, write_whole
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Protocol
from tests.upstream.listening import Listening
from tests.upstream.scripted import LAST, chunk, head, reply

WORDS = 150  # of an answer, each an event of its stream
_PARTS = 4  # in which a stream comes
_PAUSE = 0.2  # seconds at most between two of them
_REFUSED, _BROKEN = 0.03, 0.02  # shares of requests
_PROTOCOL_OF = {path: protocol for protocol, path in ENDPOINTS.items()}


class Model(Listening):
    """Enter it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)
        self._numbers = count()
        answers = [
            Answer("m-1", " ".join(f"word{word}" for word in range(WORDS)), reasoning=why) for why in ("", "Hm.")
        ]
        answers.append(Answer("m-1", "Let me look.", (Call("call_1", "look", {"at": "it"}),)))
        self._whole = {protocol: [_whole(protocol, answer) for answer in answers] for protocol in PROTOCOLS}
        self._streams = {protocol: [_parts(protocol, answer) for answer in answers] for protocol in PROTOCOLS}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        asked = await read_head(reader)
        body = b"".join([piece async for piece in body_pieces(reader, asked, to_end=False)])
        protocol = _PROTOCOL_OF[asked.line.split(" ")[1]]
        chance, which = self._random.random(), next(self._numbers)
        if chance < _REFUSED:
            error = {"type": "error", "error": {"type": "api_error", "message": "No.", "code": None, "param": None}}
            writer.write(reply(self._random.choice((400, 429, 500, 529)), json.dumps(error)))
            return True
        if not json.loads(body).get("stream"):
            whole = self._whole[protocol]
            writer.write(whole[which % len(whole)])
            return True
        streams = self._streams[protocol]
        return await self._stream(writer, streams[which % len(streams)], broken=chance < _REFUSED + _BROKEN)

    async def _stream(self, writer: asyncio.StreamWriter, parts: list[bytes], *, broken: bool) -> bool:
        writer.write(head())
        for part in parts[: _PARTS // 2] if broken else parts:
            if writer.is_closing():
                return False
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(self._random.random() * _PAUSE)
        if broken and not writer.is_closing():
            reset(writer)
        return not broken


def _whole(protocol: Protocol, answer: Answer) -> bytes:
    return reply(200, json.dumps(write_whole(protocol, answer)))


def _parts(protocol: Protocol, answer: Answer) -> list[bytes]:
    chunks = [chunk(render(protocol, [event])) for event in write_stream(protocol, answer)]
    size = -(-len(chunks) // _PARTS)
    return [*(b"".join(chunks[start : start + size]) for start in range(0, len(chunks), size)), LAST]
