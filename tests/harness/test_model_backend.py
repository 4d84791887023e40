"""The model backend keeps the rules of the real APIs, and the user programs of the end-to-end tests meet them."""

from copy import deepcopy

import pytest

from tests.e2e.sdk_clients import CLIENTS, SDKS
from tests.harness.grammar import check_stream
from tests.harness.model_backend import ModelBackend
from tests.harness.model_replies import render, sign, write_stream
from tests.harness.model_rules import check_request
from tests.harness.request_types import Refused
from tests.harness.samples import ANSWER
from tests.harness.wire import PROTOCOLS, Json, Protocol

KEY = "key"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_its_streams_are_legal(protocol: Protocol) -> None:
    assert check_stream(protocol, render(protocol, write_stream(protocol, ANSWER))) == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_user_program_runs_to_its_end_without_a_proxy(protocol: Protocol, stream: bool) -> None:
    backend = ModelBackend(protocol, KEY)
    await backend.start()
    client = CLIENTS[protocol](backend.url, KEY)
    run = await client.run("How warm? [[parallel]] [[think]]", tools=True, stream=stream)
    assert run.text == "Results: Lima has 21 degrees; Oslo has 21 degrees"
    assert run.reasoning == "Let me think." * 2
    assert len(backend.requests) == 2
    for directive, error in [
        ("[[status=429]]", "RateLimitError"),
        ("[[overloaded]]", "InternalServerError"),
        ("[[context]]", "BadRequestError"),
        *([("[[error]]", "APIError")] if stream else []),
    ]:
        with pytest.raises(getattr(SDKS[protocol], error)):
            await client.run(f"Hi {directive}", stream=stream)
    await client.close()
    await backend.stop()


ARGUMENTS = '{"city": "Lima"}'
LEGAL: dict[Protocol, Json] = {
    "chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "r"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "tool_choice": "auto",
    },
    "responses": {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "t"}],
                "encrypted_content": sign("t"),
            },
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ARGUMENTS},
            {"type": "function_call_output", "call_id": "call_1", "output": "r"},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
        ],
    },
    "messages": {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "u"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": sign("t")},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"},
                    {"type": "text", "text": "u"},
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
}

# (protocol, dotted path, value to set there; None deletes)
ILLEGAL: list[tuple[Protocol, str, Json]] = [
    ("chat", "messages.0.role", "tutor"),
    ("chat", "messages.0.cache_control", {"type": "ephemeral"}),
    ("chat", "messages.1.content", []),
    ("chat", "messages.1.content.0.type", "input_text"),
    ("chat", "messages.2.tool_calls", []),
    ("chat", "messages.2.tool_calls.0.id", "x" * 41),
    ("chat", "messages.2.tool_calls.0.index", 0),
    ("chat", "messages.2.tool_calls.0.function.name", "a tool"),
    ("chat", "messages.2.tool_calls.0.function.arguments", "{"),
    ("chat", "messages.3.tool_call_id", "call_2"),
    ("chat", "messages.3.role", "user"),
    ("chat", "messages.3", None),
    ("chat", "messages", None),
    ("chat", "tools", None),
    ("chat", "tools.0.function.parameters.type", "string"),
    ("chat", "stream_options", {"include_usage": True}),
    ("chat", "thinking", {}),
    ("chat", "messages.1.content.0.detail", "low"),
    ("chat", "messages.2.tool_calls.0.function.arguments", "[]"),
    ("chat", "messages.3.tool_call_id", None),
    ("chat", "tools.0.function.parameters.properties", None),
    ("chat", "tools.0.function.strict", True),
    ("chat", "tool_choice", {"type": "function", "function": {"name": "g"}}),
    ("chat", "response_format", {"type": "json_object"}),
    ("chat", "safety_identifier", "u" * 65),
    ("chat", "stop", ["a"] * 5),
    ("chat", "temperature", "warm"),
    ("responses", "messages", []),
    ("responses", "input.0.content.0.cache_control", {"type": "ephemeral"}),
    ("responses", "input.1.thinking", "t"),
    ("responses", "input.2.arguments", {}),
    ("responses", "input.3.type", "custom_tool_call_output"),
    ("responses", "input.3.output", [{"type": "input_text"}]),
    ("responses", "reasoning", {"effort": "huge"}),
    ("responses", "text", {"format": {"type": "json_schema", "schema": {}}}),
    ("responses", "input", []),
    ("responses", "max_output_tokens", 1),
    ("responses", "input.0.content.0.type", "text"),
    ("responses", "input.0.role", "tool"),
    ("responses", "input.1.encrypted_content", "forged"),
    ("responses", "input.2.id", "call_1"),
    ("responses", "input.2.call_id", "x" * 65),
    ("responses", "input.2.arguments", "{"),
    ("responses", "input.2.type", "tool_use"),
    ("responses", "input.3.output", [{"type": "output_text", "text": "r"}]),
    ("responses", "input.3", None),
    ("responses", "input.2", None),
    ("responses", "tools.0.strict", None),
    ("responses", "tools.0.function", {}),
    ("messages", "max_tokens", None),
    ("messages", "thinking", {"type": "adaptive", "budget_tokens": 1024}),
    ("messages", "messages.2.content.0.is_error", "no"),
    ("messages", "output_config", {"format": {"type": "json_schema", "schema": {"type": "object"}}}),
    ("messages", "tools.0.input_schema.anyOf", []),
    ("messages", "tools.0.parameters", {}),
    ("messages", "tool_choice", {"type": "tool", "name": "g"}),
    ("messages", "temperature", 1.5),
    ("messages", "stop_sequences", [" "]),
    ("messages", "system", [{"type": "text", "text": ""}]),
    ("messages", "messages.0.role", "assistant"),
    ("messages", "messages.0.content", " "),
    ("messages", "messages.0.name", "n"),
    ("messages", "messages.1.content.0.signature", "forged"),
    ("messages", "messages.1.content.1.id", "call|1"),
    ("messages", "messages.1.content.1.input", "{}"),
    ("messages", "messages.1.content.1", None),
    ("messages", "messages.2.content.0", None),
    ("messages", "messages.2.content", [{"type": "text", "text": "u"}]),
    ("messages", "messages.2.content.1", {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}),
    ("messages", "messages.2.content.1", {"type": "thinking", "thinking": "t", "signature": sign("t")}),
    ("messages", "messages.2", None),
    ("messages", "tools.0.input_schema", None),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_legal_request_is_accepted(protocol: Protocol) -> None:
    check_request(protocol, LEGAL[protocol])


@pytest.mark.parametrize(("protocol", "path", "value"), ILLEGAL)
def test_a_mistake_is_refused(protocol: Protocol, path: str, value: Json) -> None:
    body = deepcopy(LEGAL[protocol])
    node = body
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        node = node[step]
    if value is None:
        del node[last]
    else:
        node[last] = value
    with pytest.raises(Refused):
        check_request(protocol, body)


def test_results_come_first() -> None:
    body = deepcopy(LEGAL["messages"])
    body["messages"][2]["content"].reverse()
    with pytest.raises(Refused):
        check_request("messages", body)


BARE: dict[Protocol, Json] = {
    "chat": {"messages": [{"role": "user", "content": "u"}]},
    "responses": {"input": "u"},
    "messages": {"max_tokens": 4096, "messages": [{"role": "user", "content": "u"}]},
}
TOOL_OF_CHAT: Json = {"type": "function", "function": {"name": "f"}}
TOOL_OF_MESSAGES: Json = {"name": "f", "input_schema": {"type": "object"}}
ADAPTIVE: Json = {"type": "adaptive"}
BUDGET: Json = {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(
    ("protocol", "model", "fields", "accepted"),
    [
        ("responses", "gpt-5.4", {"temperature": 0}, False),
        ("responses", "gpt-5.4", {"temperature": 0, "reasoning": {"effort": "none"}}, True),
        ("responses", "o3", {"top_p": 0.5}, False),
        ("responses", "gpt-4.1", {"temperature": 0}, True),
        ("responses", "gpt-4.1", {"reasoning": {"effort": "low"}}, False),
        ("responses", "gpt-4.1", {"include": ["reasoning.encrypted_content"]}, False),
        ("chat", "gpt-5.5", {"max_tokens": 5}, False),
        ("chat", "gpt-5.5", {"stop": ["a"]}, False),
        ("chat", "gpt-5.5", {"tools": [TOOL_OF_CHAT]}, False),
        ("chat", "gpt-5.5", {"tools": [TOOL_OF_CHAT], "reasoning_effort": "none"}, True),
        ("messages", "claude-sonnet-4-5", {"temperature": 0.5}, True),
        ("messages", "claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.5}, False),
        ("messages", "claude-sonnet-4-5", {"thinking": ADAPTIVE}, False),
        ("messages", "claude-sonnet-4-5", {"thinking": BUDGET}, True),
        ("messages", "claude-sonnet-4-5", {"thinking": BUDGET, "temperature": 0.5}, False),
        ("messages", "claude-sonnet-4-5", {"thinking": BUDGET, "max_tokens": 2048}, False),
        ("messages", "claude-sonnet-4-5", {"tools": [TOOL_OF_MESSAGES], "tool_choice": {"type": "any"}}, True),
        ("messages", "claude-opus-5-5", {"tools": [TOOL_OF_MESSAGES], "tool_choice": {"type": "any"}}, False),
        ("messages", "claude-opus-5-5", {"temperature": 0.5}, False),
        ("messages", "claude-opus-5-5", {"thinking": BUDGET}, False),
        ("messages", "claude-sonnet-5-5", {"thinking": {"type": "disabled"}}, False),
    ],
)
def test_what_a_model_refuses(protocol: Protocol, model: str, fields: Json, accepted: bool) -> None:
    body = {"model": model, **BARE[protocol], **fields}
    if accepted:
        check_request(protocol, body)
        return
    with pytest.raises(Refused):
        check_request(protocol, body)
