"""A scripted backend of one protocol: a canned answer for each phase, written in a single call, or event by event.

It is a bare asyncio protocol so that it is never the slowest process of the three. It still reads what it
was sent: the size of every request, and of every fiftieth all of its content, because a proxy that loses a
tool or a turn is not to be timed. What is wrong is answered with 400, and the load generator stops there.
"""

import argparse
import asyncio
import re
from collections import Counter
from dataclasses import replace
from typing import cast, get_args

import orjson
import uvloop

from tests.bench.content import SECONDS_BETWEEN_DELTAS, STREAMED, Digest, Phase, Wire, digest_of
from tests.bench.conversations import CARRIERS, ROUNDS, ROUNDS_IN_THE_FIRST_TASK, conversation, replies_of_turns, reply
from tests.bench.wires import WIRES

REQUEST_LINE = re.compile(rb"(POST|GET) (\S+) HTTP/1\.1\r\n")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"bench-(' + "|".join(get_args(Phase)).encode() + rb')"')
READ_WHOLLY_ONE_IN = 50
SMALLEST_SHARE = 0.8  # of the size the same conversation has when the benchmark itself writes it
PACED_TOGETHER = 20  # streams that begin together take turns within the time between two events
# Reasoning that a backend gets back: all of it, but Chat servers want it only within the task that is going on.
LEAST_THOUGHTS = {"chat": min(CARRIERS, ROUNDS - ROUNDS_IN_THE_FIRST_TASK)}


def whole_answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def streamed_answer(events: list[bytes]) -> bytes:
    """One HTTP chunk an event, as model servers write them, though all leave in one burst."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


def canned(wire: Wire, phase: Phase) -> bytes:
    if phase in STREAMED:
        return streamed_answer(wire.write_stream(reply(phase)))
    return whole_answer(orjson.dumps(wire.write_reply(reply(phase))))


def pieces_of(answer: bytes) -> list[bytes]:
    """A streamed answer in the writes of a model that makes a token at a time: an event each."""
    head, _, chunks = answer.partition(b"\r\n\r\n")
    first, *others, last, end = re.split(rb"(?<=\n\n\r\n)", chunks)
    return [head + b"\r\n\r\n" + first, *others, last + end]


class Script:
    """The answers, what each request has to contain, and how many requests came."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        phases: tuple[Phase, ...] = get_args(Phase)
        self.answers = {phase: canned(wire, phase) for phase in phases}
        self.turns = [whole_answer(orjson.dumps(wire.write_reply(each))) for each in replies_of_turns()]
        self.digests: dict[Phase, Digest] = {phase: digest_of(conversation(phase)) for phase in phases}
        self.smallest = {
            phase: SMALLEST_SHARE * len(orjson.dumps(wire.write_request(conversation(phase)))) for phase in phases
        }
        self.seen: Counter[Phase] = Counter()

    def answer(self, path: str, body: bytes) -> bytes | list[bytes]:
        """Bytes to write at once, or one write after the other."""
        model = MODEL.search(body)
        if path != self.wire.path or model is None:
            return self.refusal(f"no answer at {path} for a body of {len(body)} bytes: {body[:200]!r}")
        phase = cast(Phase, model[1].decode())
        if phase == "turn":
            return self.turns[self.wire.digest_request(orjson.loads(body)).results]
        if len(body) < self.smallest[phase]:
            return self.refusal(f"{phase}: a body of {len(body)} bytes, not of at least {self.smallest[phase]:.0f}")
        if self.seen[phase] % READ_WHOLLY_ONE_IN == 0:
            found = self.wire.digest_request(orjson.loads(body))
            if wrong := self.wrong_in(phase, found):
                return self.refusal(wrong)
        self.seen[phase] += 1
        answer = self.answers[phase]
        if phase == "paced":
            return pieces_of(answer)
        return b"".join(pieces_of(answer)[:6]) if phase == "held" else answer

    def wrong_in(self, phase: Phase, found: Digest) -> str | None:
        least = LEAST_THOUGHTS.get(self.wire.name, CARRIERS) if phase == "carriers" else 0
        if replace(found, thoughts=0) != self.digests[phase] or found.thoughts < least:
            return f"{phase}: the request has {found}, not {self.digests[phase]} and at least {least} thoughts"
        return None

    def refusal(self, message: str) -> bytes:
        message = f"the {self.wire.name} backend of the benchmark: {message}"
        error = {"type": "invalid_request_error", "message": message, "code": None, "param": None}
        return whole_answer(orjson.dumps({"type": "error", "error": error}), "400 Bad Request")


class Backend(asyncio.Protocol):
    def __init__(self, script: Script) -> None:
        self.script = script
        self.buffer = b""
        self.next_write: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.next_write is not None:
            self.next_write.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        line, length = REQUEST_LINE.match(head), CONTENT_LENGTH.search(head + b"\r\n")
        if line is not None and line[1] == b"GET":
            self.respond(whole_answer(b"{}"))
        elif line is None or length is None:
            self.respond(self.script.refusal(f"cannot read a request that begins with {head[:300]!r}"))
        elif len(rest) >= int(length[1]):
            self.respond(self.script.answer(line[2].decode(), rest))

    def respond(self, answer: bytes | list[bytes]) -> None:
        self.buffer = b""
        if isinstance(answer, bytes):
            self.transport.write(answer)
        else:
            turn = self.script.seen["paced"] % PACED_TOGETHER / PACED_TOGETHER
            self.write_paced(answer, 0, asyncio.get_running_loop().time() + turn * SECONDS_BETWEEN_DELTAS)

    def write_paced(self, pieces: list[bytes], number: int, due: float) -> None:
        self.transport.write(pieces[number])
        if number + 1 < len(pieces):
            due += SECONDS_BETWEEN_DELTAS
            self.next_write = asyncio.get_running_loop().call_at(due, self.write_paced, pieces, number + 1, due)


async def serve(port: int, wire: Wire) -> None:
    script = Script(wire)
    server = await asyncio.get_running_loop().create_server(lambda: Backend(script), "127.0.0.1", port, backlog=256)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", choices=WIRES, required=True)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.port, WIRES[arguments.protocol]))
