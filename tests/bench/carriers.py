"""The agent's request with sealed carriers in its history, made as an agent makes it: by talking with one.

The proxy itself seals what each reply brings; the client keeps it and sends it back with the next request. At the end
the whole history is one request of the benchmark.
"""

import dataclasses

import orjson

from tests.bench.content import Assistant, Conversation, Turn, Wire
from tests.bench.conversations import CARRIERS, conversation
from tests.bench.load import ReplyError, body_of, open_connections, request_bytes, send
from tests.bench.targets import Target

ENVELOPE = b'"drg1.'  # what a sealed carrier begins with


async def history(wire: Wire, target: Target) -> Conversation:
    """The conversation of `carriers` as a client of `target` has it after its thirteen rounds.

    Raises ReplyError unless so many carriers were sealed as the phase is about.
    """
    said: list[Turn] = []
    [connection] = await open_connections(target.port, 1)
    for turn in conversation("turn").turns:
        if not (isinstance(turn, Assistant) and turn.call):
            said.append(turn)
            continue
        talk = dataclasses.replace(conversation("turn"), turns=tuple(said))
        [whole] = await send([connection], request_bytes(wire, "turn", target.port, talk), 1)
        said.append(wire.keep(orjson.loads(body_of(whole))))
    connection.transport.abort()
    talk = dataclasses.replace(conversation("carriers"), turns=tuple(said))
    sealed = orjson.dumps(wire.write_request(talk)).count(ENVELOPE)
    if sealed != CARRIERS:
        raise ReplyError(f"{wire.name} before {target.name}: {sealed} sealed carriers, not {CARRIERS}")
    return talk
