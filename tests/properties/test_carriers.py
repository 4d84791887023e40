"""A tool loop of ten turns through any client: the backend sees its own reasoning byte for byte (mapping.md I4, 8.6).

Each turn the backend thinks and calls a tool; the client sends back what its protocol let it keep, as its SDK would.
"""

import json
import re
from dataclasses import replace

import pytest

from proxy.canonical.loss import Rule
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.envelope import PREFIXES, Scope
from proxy.translation.prepared import Prepared
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import PROTOCOLS, Json, Protocol, read_events
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes

PAIRS = [(client, backend) for client in PROTOCOLS for backend in PROTOCOLS if client != backend]
TURNS = 10
ENVELOPE = re.compile(r"drg\d\.[0-9a-f]{12}\.[\w.-]+")
THOUGHT = "I should look at the next city, which is somewhere far away, and then decide what to do about it. "
SCOPES = [Scope("0123456789ab"), Scope("0123456789ab", (bytes(range(32)),), "team-a")]
TOOL = {"type": "object", "properties": {"a": {"type": "string"}}}


def script(turn: int) -> Script:
    """Thinking, then a call; number and text differ in each turn, and some thoughts are too short to be hashed."""
    thought = (THOUGHT * 2 if turn % 3 else "Short.", f" Turn {turn}.")
    return Script((Part("reasoning", thought, turn * 2), Part("call", ('{"a":', f'"{turn}"}}'), turn * 2 + 1)), "tool")


def first_request(client: Protocol, *, stream: bool) -> dict[str, Json]:
    common: dict[str, Json] = {"model": "m", "stream": stream}
    if client == "chat":
        tools: Json = [{"type": "function", "function": {"name": "tool_1", "parameters": TOOL}}]
        return {**common, "messages": [{"role": "user", "content": "go"}], "tools": tools}
    if client == "responses":
        tools = [{"type": "function", "name": "tool_1", "parameters": TOOL, "strict": False}]
        reasoning = {"summary": "auto"}
        return {**common, "input": [{"role": "user", "content": "go"}], "tools": tools, "reasoning": reasoning}
    tools = [{"name": "tool_1", "input_schema": TOOL}]
    return {**common, "max_tokens": 900, "messages": [{"role": "user", "content": "go"}], "tools": tools}


def with_answer(client: Protocol, request: dict[str, Json], reply: Json) -> dict[str, Json]:
    """The next request: the reply as the client keeps it, and the result of its call."""
    if client == "chat":
        message = reply["choices"][0]["message"]
        kept = {name: value for name, value in message.items() if name in ("role", "content", "tool_calls")}
        kept["reasoning_details"] = message["reasoning_details"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message["tool_calls"]]
        return {**request, "messages": [*request["messages"], kept, *results]}
    if client == "responses":
        items = [{k: v for k, v in item.items() if k != "status"} for item in reply["output"]]
        results = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
            for item in items
            if item["type"] == "function_call"
        ]
        return {**request, "input": [*request["input"], *items, *results]}
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "done"}
        for block in reply["content"]
        if block["type"] == "tool_use"
    ]
    turns = [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": results}]
    return {**request, "messages": [*request["messages"], *turns]}


def own_reasoning(backend: Protocol, body: Json) -> list[Json]:
    """What the backend gets back of its reasoning, in order."""
    if backend == "chat":
        return [message["reasoning_content"] for message in body["messages"] if "reasoning_content" in message]
    if backend == "responses":
        return [item for item in body["input"] if item.get("type") == "reasoning"]
    return [
        block
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] in ("thinking", "redacted_thinking")
    ]


def texts_of(backend: Protocol, body: Json) -> list[str]:
    """What the assistant has said in words."""
    said: list[str] = []
    for message in body["input" if backend == "responses" else "messages"]:
        if message.get("role") == "assistant" and (content := message["content"]):
            blocks = [content] if isinstance(content, str) else [block.get("text") or "" for block in content]
            said += blocks
    return said


def said_reasoning(backend: Protocol, turn: int) -> Json:
    """The same as the backend said it."""
    part = script(turn).parts[0]
    if backend == "chat":
        return part.whole
    if backend == "responses":
        summary = [{"type": "summary_text", "text": part.whole}]
        return {"id": f"rs_{part.number}", "type": "reasoning", "summary": summary, "encrypted_content": "enc"}
    return {"type": "thinking", "thinking": part.whole, "signature": f"sig-{part.number}"}


@pytest.mark.parametrize("scope", SCOPES, ids=["open", "sealed"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_ten_turns(client: Protocol, backend: Protocol, stream: bool, scope: Scope) -> None:
    target = Target(backend, "m", Dialect())
    request = first_request(client, stream=stream)
    prefix: list[Json] = []
    for turn in range(TURNS):
        raw = json.dumps(request).encode()
        prepared = pair.prepare(pair.peek(client, raw), target, pair.Options(scope=scope))
        assert not any(mark.encode() in prepared.body for mark in PREFIXES)
        body = json.loads(prepared.body)
        assert own_reasoning(backend, body) == [said_reasoning(backend, past) for past in range(turn)]
        messages = body["input" if backend == "responses" else "messages"]
        assert messages[: len(prefix)] == prefix
        prefix = messages
        if stream:
            translation = prepared.translation()
            written = b"".join([*map(translation.feed, event_bytes(backend, script(turn))), translation.end()])
            assert check_stream(client, written) == []
            reply = assemble(client, read_events(written.decode()).events)
        else:
            reply = json.loads(prepared.reply(whole_bytes(backend, script(turn))))
        assert "foreign-reasoning" not in {loss.rule for loss in prepared.losses}
        request = with_answer(client, request, reply)


@pytest.mark.parametrize("scope", SCOPES, ids=["open", "sealed"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_a_signature_that_is_made_up_is_none(client: Protocol, stream: bool, scope: Scope) -> None:
    """mapping.md 17.2, vLLM and SGLang: nobody may take their thinking for Anthropic's, and they take it unsigned."""
    request = first_request(client, stream=stream)
    target = Target("messages", "m", Dialect("vllm", "vllm", unsigned_thinking=True))
    prepared = pair.prepare(pair.peek(client, json.dumps(request).encode()), target, pair.Options(scope=scope))
    if stream:
        translation = prepared.translation()
        written = b"".join([*map(translation.feed, event_bytes("messages", script(1))), translation.end()])
        reply = assemble(client, read_events(written.decode()).events)
    else:
        reply = json.loads(prepared.reply(whole_bytes("messages", script(1))))
    assert not any(mark in json.dumps(reply) for mark in ("anthropic-claude", "sig-"))
    raw = json.dumps(with_answer(client, request, reply)).encode()
    back = pair.prepare(pair.peek(client, raw), target, pair.Options(scope=scope))
    thought = {"type": "thinking", "thinking": THOUGHT * 2 + " Turn 1."}
    assert own_reasoning("messages", json.loads(back.body)) == [thought]
    assert "foreign-reasoning" not in {loss.rule for loss in back.losses}
    for origin in (scope.origin, "ba9876543210"):  # a carrier that was copied is no more signed than one that was not
        options = pair.Options(scope=replace(scope, origin=origin))
        elsewhere = pair.prepare(pair.peek(client, raw), Target("messages", "m", Dialect()), options)
        assert own_reasoning("messages", json.loads(elsewhere.body)) == []


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_another_backend_gets_nothing_of_it(client: Protocol, backend: Protocol) -> None:
    prepared = _after_one_turn(client, backend, SCOPES[0], Scope("ba9876543210"))
    assert own_reasoning(backend, json.loads(prepared.body)) == []
    assert "foreign-reasoning" in {loss.rule for loss in prepared.losses}


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_another_backend_gets_its_text_where_that_is_wanted(client: Protocol, backend: Protocol) -> None:
    request = _next_request(client, backend, SCOPES[0])
    for protocol in {backend, client}:
        target = Target(protocol, "m", Dialect(), foreign_reasoning="text")
        options = pair.Options(scope=Scope("ba9876543210"))
        prepared = pair.prepare(pair.peek(client, request), target, options)
        body = json.loads(prepared.body)
        assert not any(mark.encode() in prepared.body for mark in PREFIXES)
        if protocol == client == "chat":
            # What a Chat client shows of the thinking stands beside the carrier, and is its own affair.
            assert [(loss.rule, loss.level) for loss in prepared.losses] == [("foreign-reasoning", "drop")]
            continue
        said = [text for text in texts_of(protocol, body) if text.strip() == script(0).parts[0].whole.strip()]
        assert (len(said), own_reasoning(protocol, body)) == (1, [])
        assert ("foreign-reasoning", "approx") in {(loss.rule, loss.level) for loss in prepared.losses}


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_another_tenant_cannot_use_it(client: Protocol, backend: Protocol) -> None:
    stranger = Scope("0123456789ab", SCOPES[1].keys, "team-b")
    prepared = _after_one_turn(client, backend, SCOPES[1], stranger)
    assert own_reasoning(backend, json.loads(prepared.body)) == []
    assert "carrier-bad" in {loss.rule for loss in prepared.losses}


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_a_backend_of_the_clients_own_protocol_never_sees_an_envelope(client: Protocol, backend: Protocol) -> None:
    raw = _next_request(client, backend, SCOPES[0])
    assert any(mark.encode() in raw for mark in PREFIXES)
    prepared = pair.prepare(pair.peek(client, raw), Target(client, "m", Dialect()), pair.Options())
    assert not any(mark.encode() in prepared.body for mark in PREFIXES)
    assert [loss.rule for loss in prepared.losses] == ["foreign-reasoning"]


def damaged(envelope: str, how: str) -> str:
    version, origin, rest = envelope.split(".", 2)
    match how:
        case "cut":
            return envelope[: len(envelope) // 2]
        case "cut short":
            return f"{version}."
        case "changed":
            return f"{version}.{origin}.{rest[:9]}{'A' if rest[9] != 'A' else 'B'}{rest[10:]}"
        case "of another version":
            return f"drg7.{origin}.{rest}"
        case _:
            return f"{version}.{origin}."


@pytest.mark.parametrize("how", ["cut", "cut short", "changed", "of another version", "emptied"])
@pytest.mark.parametrize("scope", SCOPES, ids=["open", "sealed"])
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_what_is_damaged_never_reaches_a_backend(client: Protocol, backend: Protocol, scope: Scope, how: str) -> None:
    raw = _next_request(client, backend, scope).decode()
    [envelope] = set(ENVELOPE.findall(raw))
    raw = raw.replace(envelope, damaged(envelope, how))
    for protocol in {client, backend}:
        target = Target(protocol, "m", Dialect())
        prepared = pair.prepare(pair.peek(client, raw.encode()), target, pair.Options(scope=scope))
        assert b"drg" not in prepared.body
        assert own_reasoning(protocol, json.loads(prepared.body)) == []
        told = {loss.rule for loss in prepared.losses}
        assert told & {Rule.CARRIER_BAD, Rule.FOREIGN_REASONING}


def _next_request(client: Protocol, backend: Protocol, scope: Scope) -> bytes:
    target = Target(backend, "m", Dialect())
    request = first_request(client, stream=False)
    seen = pair.peek(client, json.dumps(request).encode())
    reply = json.loads(pair.prepare(seen, target, pair.Options(scope=scope)).reply(whole_bytes(backend, script(0))))
    return json.dumps(with_answer(client, request, reply)).encode()


def _after_one_turn(client: Protocol, backend: Protocol, sealed: Scope, opened: Scope) -> Prepared:
    raw = _next_request(client, backend, sealed)
    return pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options(scope=opened))
