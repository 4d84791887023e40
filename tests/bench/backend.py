"""A scripted backend of one protocol: a canned answer for each phase, written in a single call.

It is a bare asyncio protocol so that it is never the slowest process of the three. It still reads what it
was sent: the size of every request, and of every fiftieth all of its content, because a proxy that loses a
tool or a turn is not to be timed. What is wrong is answered with 400, and the load generator stops there.
"""

import argparse
import asyncio
import re
from collections import Counter
from typing import cast

import orjson
import uvloop

from tests.bench.content import PHASES, Digest, Phase, Wire, conversation, digest_of, reply
from tests.bench.wires import WIRES

REQUEST_LINE = re.compile(rb"(POST|GET) (\S+) HTTP/1\.1\r\n")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"bench-(small|agent|burst)"')
READ_WHOLLY_ONE_IN = 50
SMALLEST_SHARE = 0.8  # of the size the same conversation has when the benchmark itself writes it


def whole_answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def streamed_answer(events: list[bytes]) -> bytes:
    """One HTTP chunk an event, as model servers write them, though all leave in one burst."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


def canned(wire: Wire, phase: Phase) -> bytes:
    if phase == "burst":
        return streamed_answer(wire.write_stream(reply(phase)))
    return whole_answer(orjson.dumps(wire.write_reply(reply(phase))))


class Script:
    """The answers, what each request has to contain, and how many requests came."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.answers = {phase: canned(wire, phase) for phase in PHASES}
        self.digests: dict[Phase, Digest] = {phase: digest_of(conversation(phase)) for phase in PHASES}
        self.smallest = {
            phase: SMALLEST_SHARE * len(orjson.dumps(wire.write_request(conversation(phase)))) for phase in PHASES
        }
        self.seen: Counter[Phase] = Counter()

    def answer(self, path: str, body: bytes) -> bytes:
        model = MODEL.search(body)
        if path != self.wire.path or model is None:
            return self.refusal(f"no answer at {path} for a body of {len(body)} bytes: {body[:200]!r}")
        phase = cast(Phase, model[1].decode())
        if len(body) < self.smallest[phase]:
            return self.refusal(f"{phase}: a body of {len(body)} bytes, not of at least {self.smallest[phase]:.0f}")
        if self.seen[phase] % READ_WHOLLY_ONE_IN == 0:
            found = self.wire.digest_request(orjson.loads(body))
            if found != self.digests[phase]:
                return self.refusal(f"{phase}: the request has {found}, not {self.digests[phase]}")
        self.seen[phase] += 1
        return self.answers[phase]

    def refusal(self, message: str) -> bytes:
        message = f"the {self.wire.name} backend of the benchmark: {message}"
        error = {"type": "invalid_request_error", "message": message, "code": None, "param": None}
        return whole_answer(orjson.dumps({"type": "error", "error": error}), "400 Bad Request")


class Backend(asyncio.Protocol):
    def __init__(self, script: Script) -> None:
        self.script = script
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

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

    def respond(self, answer: bytes) -> None:
        self.buffer = b""
        self.transport.write(answer)


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
