"""Reasoning that a Chat client drops is found again for the backend, while its tool loop runs (mapping.md 8.9)."""

import json

import pytest

from proxy.canonical.target import Dialect, Target
from proxy.server import reasoning_cache
from proxy.server.reasoning_cache import ReasoningCache
from proxy.translation import pair
from proxy.translation.envelope import Scope
from proxy.translation.prepared import Prepared
from proxy.translation.recall import Remembered
from tests.harness.wire import Json
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes
from tests.server.serving import PATHS, serving, upstream
from tests.upstream.scripted import Scripted, reply

ORIGIN = "0123456789ab"
SCRIPT = Script((Part("reasoning", ("Look it up.",), 0), Part("call", ('{"a":"b"}',), 1)), "tool")
ASKED: dict[str, Json] = {
    "model": "m",
    "messages": [{"role": "user", "content": "go"}],
    "tools": [{"type": "function", "function": {"name": "tool_1", "parameters": {"type": "object"}}}],
}
DROPPED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_001", "type": "function", "function": {"name": "tool_1", "arguments": '{"a":"b"}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_001", "content": "done"}
THINKING = {"type": "thinking", "thinking": "Look it up.", "signature": "sig-0"}


def prepared(request: dict[str, Json], cache: ReasoningCache) -> Prepared:
    raw = json.dumps(request).encode()
    options = pair.Options(scope=Scope(ORIGIN), remembered=lambda call_id: cache.find(ORIGIN, call_id))
    return pair.prepare(pair.peek("chat", raw), Target("messages", "m", Dialect()), options)


def after_a_reply(*, streamed: bool) -> ReasoningCache:
    cache = ReasoningCache()
    first = prepared({**ASKED, "stream": streamed}, cache)
    if streamed:
        translation = first.translation()
        for event in event_bytes("messages", SCRIPT):
            translation.feed(event)
        translation.end()
    else:
        first.reply(whole_bytes("messages", SCRIPT))
    cache.keep(ORIGIN, first.remembered)
    return cache


@pytest.mark.parametrize("streamed", [True, False])
def test_it_comes_back_within_the_loop(streamed: bool) -> None:
    cache = after_a_reply(streamed=streamed)
    again = prepared({**ASKED, "messages": [*ASKED["messages"], DROPPED, RESULT]}, cache)
    assert json.loads(again.body)["messages"][1]["content"][0] == THINKING


def test_it_stays_away_once_the_user_has_spoken_again() -> None:
    cache = after_a_reply(streamed=False)
    messages = [*ASKED["messages"], DROPPED, RESULT, {"role": "user", "content": "and now?"}]
    again = prepared({**ASKED, "messages": messages}, cache)
    assert [block["type"] for block in json.loads(again.body)["messages"][1]["content"]] == ["tool_use"]


def test_what_the_client_sends_itself_is_not_added_to() -> None:
    cache = after_a_reply(streamed=False)
    entries = cache.find(ORIGIN, "call_001")
    assert entries is not None
    echoed = {**DROPPED, "reasoning_details": list(entries)}
    again = prepared({**ASKED, "messages": [*ASKED["messages"], echoed, RESULT]}, cache)
    content = json.loads(again.body)["messages"][1]["content"]
    assert [block["type"] for block in content] == ["thinking", "tool_use"]


def test_it_belongs_to_its_backend() -> None:
    cache = after_a_reply(streamed=False)
    assert cache.find("ba9876543210", "call_001") is None


def test_it_is_bounded_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ReasoningCache()
    entry: Json = {"type": "reasoning.encrypted", "data": "x" * 100}
    monkeypatch.setattr(reasoning_cache, "MOST_BYTES", 1000)
    for number in range(50):
        cache.keep(ORIGIN, Remembered([f"call_{number}"], [entry]))
    kept = [number for number in range(50) if cache.find(ORIGIN, f"call_{number}")]
    assert kept == list(range(50 - len(kept), 50))
    assert 0 < len(kept) < 10
    monkeypatch.setattr(reasoning_cache, "KEPT_FOR", -1.0)
    cache.keep(ORIGIN, Remembered(["call_late"], [entry]))
    assert cache.find(ORIGIN, "call_late") is None


@pytest.mark.parametrize("kept", [True, False])
async def test_the_setting_is_heeded(kept: bool) -> None:
    answer = reply(200, whole_bytes("messages", SCRIPT))
    async with Scripted(answer, answer) as backend:
        async with serving(upstream("messages", backend.base_url), reasoning_cache=kept) as proxy:
            await proxy.post(PATHS["chat"], ASKED)
            await proxy.post(PATHS["chat"], {**ASKED, "messages": [*ASKED["messages"], DROPPED, RESULT]})
        content = json.loads(backend.asked[1].body)["messages"][1]["content"]
    assert (content[0] == THINKING) is kept
