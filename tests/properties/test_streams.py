"""Streams between any two protocols: legal, readable, equal to the whole reply, the same however they are cut.

Invariants I6 to I10 and I16 of mapping.md section 20.
"""

import json
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.translation import ids
from proxy.translation.prepared import Prepared
from tests.harness import sdk
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import PROTOCOLS, Json, Protocol, read_events
from tests.properties.scripts import Script, scripts
from tests.properties.spoken import CREATED, USAGE, event_bytes, whole_bytes

PAIRS = [(client, backend) for client in PROTOCOLS for backend in PROTOCOLS if client != backend]
EXAMPLES = settings(max_examples=25, deadline=None)


def prepared(client: Protocol, backend: Protocol, *, stream: bool) -> Prepared:
    context = ReplyContext("req_1", "demo-model", now=CREATED, include_usage=True, summary_requested=True)
    return Prepared(
        client,
        Target(backend, "demo-model", Dialect()),
        b"",
        stream,
        stream,
        context,
        LossReport(),
        Spelling(encode=ids.for_client(client), mint=ids.mint),
    )


def translated(client: Protocol, backend: Protocol, chunks: list[bytes]) -> bytes:
    translation = prepared(client, backend, stream=True).translation()
    return b"".join([*map(translation.feed, chunks), translation.end()])


def folded(client: Protocol, raw: bytes) -> Json:
    return comparable(client, assemble(client, read_events(raw.decode()).events))


def comparable(client: Protocol, reply: Json) -> Json:
    """A reply without what only one of the two forms has."""
    reply = {key: value for key, value in reply.items() if value is not None}
    if client == "messages":
        # The split by lifetime is known too late for a stream, whose last event has no place for it.
        content = [{name: value for name, value in block.items() if value is not None} for block in reply["content"]]
        for block in content:
            if isinstance(block.get("input"), str):  # of a call that was cut, which only a whole reply can wrap
                block["input"] = {"INVALID_JSON": block["input"]}
        return {**reply, "content": content, "usage": {**reply["usage"], "cache_creation": None}}
    if client == "chat":
        choice = reply["choices"][0]
        message = {key: value for key, value in choice["message"].items() if value not in (None, [], "")}
        for entry in message.get("reasoning_details", ()):
            entry.pop("index", None)
        for entry in (*message.get("tool_calls", ()), *message.get("annotations", ())):
            entry.pop("index", None)
        return {**reply, "choices": [{"message": message, "finish_reason": choice["finish_reason"]}]}
    return reply


def any_script(data: st.DataObject, backend: Protocol) -> Script:
    return data.draw(scripts(backend))


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_a_stream_is_legal_and_equals_the_whole_reply(client: Protocol, backend: Protocol, data: st.DataObject) -> None:
    script = any_script(data, backend)
    raw = translated(client, backend, event_bytes(backend, script))
    assert check_stream(client, raw) == []
    whole = prepared(client, backend, stream=False).reply(whole_bytes(backend, script))
    assert folded(client, raw) == comparable(client, json.loads(whole))


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_the_vendors_sdk_reads_it(client: Protocol, backend: Protocol, data: st.DataObject) -> None:
    script = any_script(data, backend)
    # The SDK's helper raises on a cut answer, for the vendor's own streams too.
    assume(script.stop != "length")
    raw = translated(client, backend, event_bytes(backend, script))
    final = sdk.read_stream(client, raw)
    assert said(client, final) == (visible_text(script), expected_calls(script))


def expected_calls(script: Script) -> list[tuple[str, str, Json]]:
    return [(part.call_id, part.name, json.loads(part.whole)) for part in script.calls]


def visible_text(script: Script) -> str:
    """The answer's words without the blanks that a protocol with a single text puts or leaves out between parts."""
    return without_blanks(script.text("text") + script.text("refusal"))


def without_blanks(text: str) -> str:
    return "".join(text.split())


def said(client: Protocol, final: Json) -> tuple[str, list[tuple[str, str, Json]]]:
    if client == "chat":
        message = final["choices"][0]["message"]
        calls = [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ]
        return without_blanks((message["content"] or "") + (message.get("refusal") or "")), calls
    if client == "messages":
        text = "".join(block["text"] for block in final["content"] if block["type"] == "text")
        calls = [(b["id"], b["name"], b["input"]) for b in final["content"] if b["type"] == "tool_use"]
        return without_blanks(text), calls
    parts = [part for item in final["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part.get("text", part.get("refusal")) for part in parts)
    calls = [
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in final["output"]
        if item["type"] == "function_call"
    ]
    return without_blanks(text), calls


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_cuts_of_the_network_change_nothing(client: Protocol, backend: Protocol, data: st.DataObject) -> None:
    events = event_bytes(backend, any_script(data, backend))
    stream = b"".join(events)
    cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=20))
    places = sorted({0, len(stream), *cuts})
    chunks = [stream[start:stop] for start, stop in pairwise(places)]
    assert translated(client, backend, chunks) == translated(client, backend, events)


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_a_stream_cut_at_any_event_never_looks_finished(
    client: Protocol, backend: Protocol, data: st.DataObject
) -> None:
    events = event_bytes(backend, any_script(data, backend))
    kept = data.draw(st.integers(0, len(events) - 1))
    raw = translated(client, backend, events[:kept])
    # A stop that was told ends the answer, even when the end mark is missing (mapping.md 13.6).
    told = b"".join(events[:kept])
    stopped = {
        "chat": b'"finish_reason": "' in told,
        "messages": b'"message_delta"' in told,
        "responses": False,
    }[backend]
    assert check_stream(client, raw, expect_end="clean" if stopped else "error") == []


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_usage_counts_every_token_once(client: Protocol, backend: Protocol, data: st.DataObject) -> None:
    script = any_script(data, backend)
    streamed = assemble(client, read_events(translated(client, backend, event_bytes(backend, script)).decode()).events)
    whole = json.loads(prepared(client, backend, stream=False).reply(whole_bytes(backend, script)))
    wanted = USAGE[client](script)
    for reply in (streamed, whole):
        assert contains(reply["usage"], wanted), reply["usage"]


def contains(found: Json, wanted: Json) -> bool:
    if isinstance(wanted, dict):
        if not any(wanted.values()) and found is None:
            return True  # details that count nothing may be left out
        return isinstance(found, dict) and all(contains(found.get(key), value) for key, value in wanted.items())
    return bool(found == wanted)


@pytest.mark.parametrize("client", [protocol for protocol in PROTOCOLS if protocol != "chat"])
@EXAMPLES
@given(data=st.data())
def test_interleaved_calls_of_a_chat_backend_lose_no_byte(client: Protocol, data: st.DataObject) -> None:
    script = data.draw(scripts("chat"))
    assume(script.stop != "length")
    events = event_bytes("chat", script)
    raw = translated(client, "chat", data.draw(interleavings(events)))
    assert check_stream(client, raw) == []
    final = assemble(client, read_events(raw.decode()).events)
    assert said(client, final)[1] == expected_calls(script)


@st.composite
def interleavings(draw: st.DrawFn, events: list[bytes]) -> list[bytes]:
    """Argument pieces of different calls shuffled into each other; each call keeps its own order."""
    queues: dict[int, list[bytes]] = {}
    head: list[bytes] = []
    tail: list[bytes] = []
    for event in events:
        chunk = None if b"[DONE]" in event else json.loads(event.removeprefix(b"data: "))
        delta = chunk["choices"][0]["delta"] if chunk and chunk["choices"] else {}
        if delta.get("tool_calls"):
            queues.setdefault(delta["tool_calls"][0]["index"], []).append(event)
        elif queues or tail or not delta:
            tail.append(event)
        else:
            head.append(event)
    mixed: list[bytes] = []
    opened = 0
    while any(queues.values()):
        ready = [index for index, queue in queues.items() if queue and index <= opened]
        index = draw(st.sampled_from(ready))
        opened = max(opened, index + 1)
        mixed.append(queues[index].pop(0))
    return [*head, *mixed, *tail]
