"""The checks of Open Responses' compliance suite (responses.md 19), on backends that speak another
protocol."""

import json
from base64 import b64encode
from typing import Any

import pytest

from tests.harness.wire import Protocol
from tests.server.modelled import modelled
from tests.server.serving import Proxy

# Keys of a response: those that hold something, and those that may hold null.
FILLED = {
    *("id", "object", "created_at", "status", "model", "output", "tools", "tool_choice", "truncation", "text"),
    *("parallel_tool_calls", "top_p", "temperature", "presence_penalty", "frequency_penalty", "top_logprobs"),
    *("store", "background", "service_tier"),
}
PRESENT = {
    *("completed_at", "incomplete_details", "previous_response_id", "instructions", "error", "reasoning", "usage"),
    *("max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key", "metadata"),
}
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
IMAGE = f"data:image/png;base64,{b64encode(PNG).decode()}"
CHECKS: dict[str, dict[str, Any]] = {
    "basic text": {"input": [{"type": "message", "role": "user", "content": "Say hello."}]},
    "streaming text": {"input": [{"type": "message", "role": "user", "content": "Count."}], "stream": True},
    "system message": {
        "input": [
            {"type": "message", "role": "system", "content": "Talk like a pirate."},
            {"type": "message", "role": "user", "content": "Say hello."},
        ]
    },
    "tool call": {"input": [{"type": "message", "role": "user", "content": "Weather?"}], "tools": [TOOL]},
    "streamed tool call": {
        "input": [{"type": "message", "role": "user", "content": "Weather?"}],
        "tools": [TOOL],
        "stream": True,
    },
    "image input": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
                ],
            }
        ]
    },
    "multi-turn": {
        "input": [
            {"type": "message", "role": "user", "content": "My name is Alice."},
            {"type": "message", "role": "assistant", "content": "Hello Alice."},
            {"type": "message", "role": "user", "content": "What is my name?"},
        ]
    },
}


async def asked(proxy: Proxy, body: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The response, and the events that led to it."""
    status, headers, told = await proxy.post("/v1/responses", {"model": "m", **body})
    assert status == 200, told
    if not body.get("stream"):
        return json.loads(told), []
    assert headers["content-type"].startswith("text/event-stream")
    events = []
    blocks = told.decode().split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    for block in blocks[:-2]:
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events[-1]["response"], events


@pytest.mark.parametrize("protocol", ["chat", "messages"])
@pytest.mark.parametrize("check", CHECKS)
async def test_a_check_passes(protocol: Protocol, check: str) -> None:
    async with modelled(protocol, responses_done=True) as (proxy, _):
        response, events = await asked(proxy, CHECKS[check])
    assert {name for name in FILLED if response.get(name) is None} == set()
    assert PRESENT - response.keys() == set()
    assert (response["object"], response["status"]) == ("response", "completed")
    assert response["output"]
    assert all({"id", "type"} <= item.keys() for item in response["output"])
    types = [event["type"] for event in events]
    if "tool" in check:
        assert [item["name"] for item in response["output"] if item["type"] == "function_call"] == ["get_weather"]
    if check == "streaming text":
        assert "response.output_text.delta" in types
    if check == "streamed tool call":
        assert {
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        } <= set(types)
