"""Requests between any two protocols: the same bytes every time, growing histories grow at the end, calls paired.

Invariants I1, I2, I5 and I13 of mapping.md section 20.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.conversations import HISTORIES, REQUEST, CallMade, Round
from tests.properties.scripts import WORDS

PAIRS = [(client, backend) for client in PROTOCOLS for backend in PROTOCOLS if client != backend]
EXAMPLES = settings(max_examples=30, deadline=None)


def translated(client: Protocol, backend: Protocol, request: Json) -> Json:
    return json.loads(sent(client, backend, json.dumps(request).encode()))


def sent(client: Protocol, backend: Protocol, raw: bytes) -> bytes:
    target = Target(backend, "m", Dialect())
    return pair.prepare(pair.peek(client, raw), target, pair.Options()).body


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(history=HISTORIES, last=WORDS)
def test_translation_is_deterministic(client: Protocol, backend: Protocol, history: list[Round], last: str) -> None:
    raw = json.dumps(REQUEST[client](history, last)).encode()
    assert sent(client, backend, raw) == sent(client, backend, raw)


def test_two_processes_give_the_same_bytes() -> None:
    """Hash seeds differ between processes; nothing that is sent may depend on them."""
    calls = (CallMade("call_1", "tool_0", '{"a":"b"}', "done", False), CallMade("x|y", "tool_1", "{}", "no", True))
    history = [Round("look", "I will", calls, (1, 0), "go on"), Round("and", "done", (), (), "")]
    script = (
        "import sys\n"
        "from tests.properties.test_requests import PAIRS, sent\n"
        "import json\n"
        "requests = json.load(sys.stdin)\n"
        "for client, backend in PAIRS:\n"
        "    raw = json.dumps(requests[client]).encode()\n"
        "    sys.stdout.buffer.write(sent(client, backend, raw))\n"
    )
    requests = json.dumps({client: REQUEST[client](history, "go") for client in PROTOCOLS})
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=requests.encode(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs != {b""}


def blocks(backend: Protocol, body: Json) -> list[Json]:
    """The conversation block by block, since runs of one role merge."""
    if backend == "responses":
        return [block for item in body["input"] for block in _split(item)]
    return [block for message in body["messages"] for block in _split(message)]


def _split(message: Json) -> list[Json]:
    content = message.get("content")
    if not isinstance(content, list):
        return [message]
    return [{**message, "content": [block]} for block in content]


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(history=HISTORIES, extension=HISTORIES, last=WORDS, reply=WORDS)
def test_a_longer_history_extends_the_shorter_one(
    client: Protocol, backend: Protocol, history: list[Round], extension: list[Round], last: str, reply: str
) -> None:
    shorter = blocks(backend, translated(client, backend, REQUEST[client](history, last)))
    grown = [*history, Round(last, reply, (), (), ""), *extension]
    longer = blocks(backend, translated(client, backend, REQUEST[client](grown, "and?")))
    assert longer[: len(shorter)] == shorter


# Servers of OpenAI's protocols have their own ideas of an id, and want theirs back.
ANY_ID = re.compile(r".{1,64}", re.DOTALL)
ID_PATTERN = {"chat": ANY_ID, "responses": ANY_ID, "messages": re.compile(r"[a-zA-Z0-9_-]{1,64}")}


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(history=HISTORIES, last=WORDS, data=st.data())
def test_every_call_has_exactly_one_result_behind_it(
    client: Protocol, backend: Protocol, history: list[Round], last: str, data: st.DataObject
) -> None:
    request = REQUEST[client](history, last)
    # A client may lose a message: the pairing must survive that.
    turns = request["input" if client == "responses" else "messages"]
    if len(turns) > 2 and data.draw(st.booleans()):
        del turns[data.draw(st.integers(1, len(turns) - 2))]
    calls_and_results = flow(backend, translated(client, backend, request))
    waiting: list[str] = []
    seen: set[str] = set()
    for kind, call_id in calls_and_results:
        if kind == "call":
            assert ID_PATTERN[backend].fullmatch(call_id)
            assert call_id not in seen
            seen.add(call_id)
            waiting.append(call_id)
        elif kind == "result":
            assert waiting, f"a result for {call_id} without an open call"
            assert waiting.pop(0) == call_id
        else:
            assert waiting == [], "something stands between calls and their results"
    assert waiting == []


def flow(backend: Protocol, body: Json) -> list[tuple[str, str]]:
    """("call" | "result" | "other", call id) in order; assistant text beside calls counts as part of the calls."""
    found: list[tuple[str, str]] = []
    if backend == "responses":
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "function_call":
                found.append(("call", item["call_id"]))
            elif kind == "function_call_output":
                found.append(("result", item["call_id"]))
            elif item.get("role") != "assistant":
                found.append(("other", ""))
        return found
    for message in body["messages"]:
        if backend == "chat":
            found += [("call", call["id"]) for call in message.get("tool_calls", ())]
            if message["role"] == "tool":
                found.append(("result", message["tool_call_id"]))
            elif message["role"] == "user":
                found.append(("other", ""))
            continue
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                found.append(("call", block["id"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"]))
            elif message["role"] == "user":
                found.append(("other", ""))
    return found
