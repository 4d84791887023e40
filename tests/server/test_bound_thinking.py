"""Thinking that its model refuses, since what stood before it has changed (mapping.md 8.7, prefix-bound models)."""

import json

import pytest

from proxy.settings import LossPolicy
from tests.harness.wire import Json
from tests.server.serving import PATHS, before, says_hello
from tests.server.test_asking import complaint, left_out

REFUSED = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
SIGNED = {"type": "reasoning.text", "text": "hm", "signature": "EqQB", "format": "anthropic-claude-v1", "index": 0}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED: Json = {
    "model": "claude-opus-5-5",
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hm.", "reasoning_details": [SIGNED]},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": None, "reasoning_details": [SIGNED], "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
    ],
}


def thoughts(body: bytes) -> list[str]:
    messages = json.loads(body)["messages"]
    blocks = [block for message in messages for block in message["content"]]
    return [block["type"] for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


@pytest.mark.parametrize("stream", [True, False])
async def test_it_is_left_out_and_told(stream: bool) -> None:
    hello = says_hello("messages", streamed=stream)
    async with before("messages", complaint("messages", REFUSED), hello) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS["chat"], {**ASKED, "stream": stream})
        assert left_out(proxy, "claude-opus-5-5") == frozenset()
    assert (status, b"Hel" in body) == (200, True)
    assert "foreign-reasoning;drop" in headers["dragoman-loss"].split(", ")
    assert [thoughts(asked.body) for asked in backend.asked] == [["thinking", "thinking"], []]


async def test_a_strict_client_gets_the_refusal() -> None:
    strict = [("*", None, LossPolicy(strict=True))]
    async with before("messages", complaint("messages", REFUSED), models=strict) as (proxy, backend):
        status, _, body = await proxy.post(PATHS["chat"], ASKED)
    assert (status, json.loads(body)["error"]["message"]) == (400, REFUSED)
    assert len(backend.asked) == 1


async def test_the_vendor_itself_is_told_to_leave_it_out() -> None:
    hello = says_hello("messages", streamed=False)
    async with before("messages", hello, dialect="anthropic") as (proxy, backend):
        await proxy.post(PATHS["chat"], ASKED)
    asked = backend.asked[0]
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert json.loads(asked.body)["thinking"] == binding
    assert asked.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
