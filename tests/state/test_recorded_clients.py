"""Clients that lean on what the server remembers: their recorded requests, with the ids that this server gave out."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.wire import Protocol
from tests.server.modelled import modelled
from tests.server.serving import Proxy

RECORDINGS = Path(__file__).parents[1] / "recordings"
# A turn that calls tools, and the one that brings their results.
LOOPS = [
    ("openai-agents-0.24.0", "10-responses-tools", "11-responses-tools-results1"),
    ("openai-agents-0.24.0", "12-responses-stream-tools", "13-responses-stream-tools-results2"),
    ("openai-agents-0.24.0", "17-responses-tools", "18-responses-results1"),
    ("langchain-openai-1.7.4", "12-responses-tools-thinking", "13-responses-tools-results1-thinking"),
    ("langchain-openai-1.7.4", "14-responses-stream-tools-thinking", "15-responses-stream-tools-results2-thinking"),
    ("langchain-openai-1.7.4", "21-responses-tools-thinking", "22-responses-tools-results1-thinking"),
    ("llama-index-llms-openai-0.8.3", "17-responses-tools", "18-responses-tools-results1"),
    ("agent-framework-1.23.0", "01-responses-tools", "02-responses-tools-results1-previous"),
    ("agent-framework-1.23.0", "03-responses-stream-tools", "04-responses-stream-tools-results2-previous"),
]


def recorded(client: str, name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((RECORDINGS / client / f"{name}.json").read_text("utf-8"))["body"]
    return {**body, "model": "m"}


def directed(body: dict[str, Any], words: str) -> dict[str, Any]:
    """With words for the model in front of what the user says."""
    changed = copy.deepcopy(body)
    if isinstance(changed["input"], str):
        changed["input"] = f"{words} {changed['input']}"
        return changed
    user = [item for item in changed["input"] if item.get("role") == "user"][-1]
    if isinstance(user["content"], str):
        user["content"] = f"{words} {user['content']}"
    else:
        user["content"][0]["text"] = f"{words} {user['content'][0]['text']}"
    return changed


def answered(body: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The next request, as its client would have made it of this response."""
    changed = copy.deepcopy(body)
    if "previous_response_id" in changed and changed["previous_response_id"] is not None:
        changed["previous_response_id"] = told["id"]
    calls = iter([item for item in told["output"] if item["type"] == "function_call"])
    reasoning = [item for item in told["output"] if item["type"] == "reasoning"]
    results = iter([item["call_id"] for item in told["output"] if item["type"] == "function_call"])
    for item in changed["input"]:
        match item.get("type"):
            case "function_call":
                call = next(calls)
                item |= {name: call[name] for name in ("id", "call_id", "name", "arguments") if name in item}
            case "function_call_output":
                item["call_id"] = next(results)
            case "reasoning":
                item |= {name: reasoning[0][name] for name in ("id", "summary", "encrypted_content") if name in item}
    return changed


async def ask(proxy: Proxy, body: dict[str, Any]) -> dict[str, Any]:
    status, _, told = await proxy.post("/v1/responses", body)
    assert status == 200, told
    if not body.get("stream"):
        whole: dict[str, Any] = json.loads(told)
        return whole
    last: dict[str, Any] = json.loads(told.rstrip().rpartition(b"data: ")[2])
    assert last["type"] == "response.completed"
    response: dict[str, Any] = last["response"]
    return response


@pytest.mark.parametrize("protocol", ["chat", "messages"])
@pytest.mark.parametrize(("client", "first", "second"), LOOPS, ids=lambda name: str(name)[:24])
async def test_a_recorded_tool_loop_is_finished(protocol: Protocol, client: str, first: str, second: str) -> None:
    answer = recorded(client, second)
    count = sum(item.get("type") == "function_call_output" for item in answer["input"])
    thinks = "[[think]] " if any(item.get("type") == "reasoning" for item in answer["input"]) else ""
    words = f"{thinks}{'[[parallel]]' if count > 1 else ''}"
    async with modelled(protocol) as (proxy, backend):
        told = await ask(proxy, directed(recorded(client, first), words))
        assert [item["type"] for item in told["output"]].count("function_call") == count
        sent = answered(answer, told)
        if sent.get("previous_response_id") is None:
            sent = directed(sent, words)
        ended = await ask(proxy, sent)
        assert ended["output"][-1]["content"][0]["text"].startswith("Results: ")
        if thinks:
            # What the backend had thought came back to it, though its client may have named no more than an id.
            thought = "signature" if protocol == "messages" else "Let me think."
            assert thought in json.dumps(backend.requests[-1])
