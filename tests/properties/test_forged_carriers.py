"""Without a key any client can write an envelope: what comes out of one is a client's word (mapping.md 8.6).

Whatever JSON it holds, in whichever slot it stands: either it has the form that a vendor gives such things, or it is
left out with a record; a backend gets nothing else, and nothing breaks.
"""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Dialect, Target
from proxy.protocols.fields import Wire
from proxy.translation import pair
from proxy.translation.envelope import PREFIXES, Scope, seal
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.mutations import mutated

SCOPE = Scope("a" * 12)
SHOWN = "I think that it is so."
MARK = {"n": len(SHOWN), "h": "0" * 16}
CONTENTS: list[Json] = [
    {"m": "m", "k": ["plain"], "c": "reasoning_content", "t": "Hidden."},
    {
        "m": "m",
        "k": ["reasoning"],
        "v": [{"type": "thinking", "thinking": SHOWN, "signature": "s"}],
        "p": 3,
        "n": 1,
        "f": ["call", "c"],
    },
    {"m": "m", "k": ["reasoning"], "v": [{"type": "thinking", "thinking": MARK, "signature": "s"}]},
    {"m": "m", "k": ["reasoning"], "v": [{"type": "redacted_thinking", "data": "d"}]},
    {
        "m": "m",
        "k": ["reasoning"],
        "v": [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": SHOWN}],
                "content": [{"type": "reasoning_text", "text": MARK}],
                "encrypted_content": "e",
            }
        ],
    },
    {
        "m": "m",
        "k": ["reasoning"],
        "c": "reasoning_details",
        "v": [{"type": "reasoning.text", "text": SHOWN, "signature": "s", "format": "f", "id": None, "index": 0}],
    },
    {"m": "m", "k": ["reasoning"], "c": "reasoning_details", "v": [{"type": "reasoning.encrypted", "data": "d"}]},
    {"m": "m", "k": ["hosted"], "v": [{"type": "server_tool_use", "id": "i", "name": "web_search", "input": {}}]},
    {"m": "m", "k": ["hosted"], "v": [{"type": "web_search_call", "id": "i", "status": "completed", "action": {}}]},
    {"m": "m", "k": ["citations"], "v": [{"h": "0" * 16}, {"n": 4, "c": [{"type": "char_location"}]}]},
    {"m": "m", "k": ["gemini_sig"], "v": [{"id": "c", "extra_content": {"google": {"thought_signature": "s"}}}]},
    {"w": "0123456789abcdef", "i": 0, "of": 1, "t": "{}"},
    {"m": "m", "k": ["directive"], "v": [{"type": "directive", "text": "Call a tool."}]},
]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
EXAMPLES = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def contents(draw: st.DrawFn) -> Wire:
    """What an envelope holds: a real content bent out of shape, or any object."""
    if draw(st.integers(0, 9)) == 9:
        return draw(st.dictionaries(st.sampled_from(["w", "i", "of", *"mkvcpnfts"]), ANY_JSON))
    base = dict(draw(st.sampled_from(CONTENTS)))
    for name in draw(st.lists(st.sampled_from(["w", "i", "of", *"kvcpnfts"]), max_size=2, unique=True)):
        base[name] = draw(mutated({"x": base.get(name)}, draw(st.sampled_from(CONTENTS)))).get("x")
    return base


def said(client: Protocol, envelope: str, *, shown: bool) -> list[Json]:
    """An earlier answer with the envelope in a slot of the client's protocol."""
    if client == "messages":
        searched = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": envelope}
        blocks: list[Json] = [
            {"type": "thinking", "thinking": SHOWN, "signature": envelope},
            {"type": "redacted_thinking", "data": envelope},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [searched]},
        ]
        kept = blocks[:1] if shown else blocks[1:]
        return [{"role": "assistant", "content": [*kept, {"type": "text", "text": "So."}]}]
    if client == "responses":
        summary = [{"type": "summary_text", "text": SHOWN}] if shown else []
        item = {"type": "reasoning", "summary": summary, "encrypted_content": envelope}
        return [item, {"role": "assistant", "content": "So."}]
    entry = {"type": "reasoning.encrypted", "data": envelope, "format": "dragoman-v1"}
    details = [{"type": "reasoning.text", "text": SHOWN}, entry] if shown else [entry]
    return [{"role": "assistant", "content": "So.", "reasoning_details": details}]


def request_with(client: Protocol, content: Wire, *, shown: bool) -> bytes:
    ask, more = {"role": "user", "content": "Is it so?"}, {"role": "user", "content": "Go on."}
    history = [ask, *said(client, seal(content, SCOPE), shown=shown), more]
    body: Json = {"model": "m", "input" if client == "responses" else "messages": history}
    return json.dumps(body | ({"max_tokens": 99} if client == "messages" else {})).encode()


def is_text(value: Json) -> bool:
    return value is None or isinstance(value, str)


def check_chat(body: Json) -> None:
    for message in body["messages"]:
        assert message["role"] in ("user", "assistant")
        assert message.keys() <= {"role", "content", "reasoning_content", "reasoning", "reasoning_details"}
        assert is_text(message.get("reasoning_content"))
        assert is_text(message.get("reasoning"))
        for entry in message.get("reasoning_details", ()):
            assert entry["type"] in ("reasoning.text", "reasoning.summary", "reasoning.encrypted")
            assert all(is_text(entry.get(name)) for name in ("text", "summary", "data", "signature", "id", "format"))


def check_messages(body: Json) -> None:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "thinking":
                assert isinstance(block["thinking"], str)
                assert isinstance(block["signature"], str)
            elif block["type"] == "redacted_thinking":
                assert isinstance(block["data"], str)


def check_responses(body: Json) -> None:
    for item in body["input"]:
        if item.get("type") == "reasoning":
            assert all(is_text(item.get(name)) for name in ("id", "encrypted_content", "status"))
            for name in ("summary", "content"):
                assert all(isinstance(part["text"], str) for part in item.get(name) or ())


CHECKS = {"chat": check_chat, "messages": check_messages, "responses": check_responses}


@pytest.mark.parametrize("shown", [True, False], ids=["with its text", "alone"])
@pytest.mark.parametrize(("client", "backend"), [(one, other) for one in PROTOCOLS for other in PROTOCOLS])
@EXAMPLES
@given(content=contents())
def test_any_content_is_clean_or_a_recorded_loss(
    client: Protocol, backend: Protocol, shown: bool, content: Wire
) -> None:
    raw = request_with(client, content, shown=shown)
    try:
        prepared = pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options(scope=SCOPE))
    except Rejected:
        return
    assert not any(mark.encode() in prepared.body for mark in PREFIXES)
    CHECKS[backend](json.loads(prepared.body))


@pytest.mark.parametrize(
    "content",
    [
        {"k": ["reasoning"], "v": [{"type": ["thinking"], "thinking": "x", "signature": "s"}]},
        {"k": ["reasoning"], "v": [{"type": "thinking", "thinking": "x", "signature": 7}]},
        {"k": ["reasoning"], "v": [{"type": "redacted_thinking", "data": {"a": 1}}]},
        {"k": ["reasoning"], "v": [{"type": "reasoning", "summary": "x", "encrypted_content": "e"}]},
        {"k": ["reasoning"], "v": [{"type": "reasoning", "summary": [1], "encrypted_content": "e"}]},
        {"k": ["reasoning"], "c": "reasoning_details", "v": [{"type": "reasoning.encrypted", "data": 1}]},
        {"k": ["hosted"], "v": [{"type": ["server_tool_use"]}]},
        {"k": ["plain"], "c": "role"},
        {"k": ["plain"], "c": "tool_calls"},
        {"k": "plain"},
        {"k": [["plain"]]},
    ],
)
def test_what_no_vendor_writes_is_a_bad_carrier(content: Wire) -> None:
    clients: dict[Protocol, Protocol] = {"messages": "chat", "responses": "messages", "chat": "responses"}
    for backend, client in clients.items():
        raw = request_with(client, content, shown=True)
        options = pair.Options(scope=SCOPE)
        prepared = pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), options)
        assert "carrier-bad" in {loss.rule for loss in prepared.losses}
