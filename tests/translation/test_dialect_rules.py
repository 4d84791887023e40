"""What a server's dialect changes in a request beside fields and names (mapping.md 8.8, 17.2)."""

import json
from typing import Any

import pytest

from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.plain_schemas import plain
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import Json, Protocol


def sent(client: Protocol, request: Json, protocol: Protocol, dialect: str, model: str = "m") -> tuple[Any, list[str]]:
    target = Target(protocol, model, PROFILES[protocol][dialect], profile_of(model))
    prepared = pair.prepare(pair.peek(client, json.dumps(request).encode()), target, pair.Options())
    return json.loads(prepared.body), [f"{loss.rule};{loss.level}" for loss in prepared.losses]


def asking(**fields: object) -> Json:
    return {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **fields}


TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FORCED: Json = {"tools": [TOOL, {**TOOL, "name": "g"}], "tool_choice": {"type": "tool", "name": "g"}}


@pytest.mark.parametrize(
    ("dialect", "field", "value"),
    [
        ("vllm", "chat_template_kwargs", {"enable_thinking": False}),
        ("sglang", "chat_template_kwargs", {"enable_thinking": False}),
        ("llamacpp", "chat_template_kwargs", {"enable_thinking": False}),
        ("ollama", "reasoning_effort", "none"),
        ("groq", "reasoning_effort", "none"),
        ("deepseek", "thinking", {"type": "disabled"}),
        ("moonshot", "thinking", {"type": "disabled"}),
        ("glm", "thinking", {"type": "disabled"}),
        ("minimax", "thinking", {"type": "disabled"}),
        ("qwen", "enable_thinking", False),
        ("openrouter", "reasoning", {"enabled": False}),
    ],
)
def test_thinking_is_switched_off_as_the_server_wants_it(dialect: str, field: str, value: object) -> None:
    body, losses = sent("messages", asking(thinking={"type": "disabled"}), "chat", dialect)
    assert (body[field], losses) == (value, [])
    assert "reasoning_effort" not in body or field == "reasoning_effort"


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp", "ollama", "openrouter", "together"])
def test_servers_that_limit_the_tokens_to_sample_from_are_told(dialect: str) -> None:
    assert sent("messages", asking(top_k=4), "chat", dialect)[0]["top_k"] == 4
    assert sent("messages", asking(top_k=4), "chat", "openai")[1] == ["top-k;drop"]


@pytest.mark.parametrize("asked", [{"thinking": {"type": "adaptive"}}, {"output_config": {"effort": "high"}}])
@pytest.mark.parametrize(
    ("dialect", "field", "value", "takes_effort"),
    [
        ("vllm", "chat_template_kwargs", {"enable_thinking": True}, True),
        ("sglang", "chat_template_kwargs", {"enable_thinking": True}, True),
        ("llamacpp", "chat_template_kwargs", {"enable_thinking": True}, True),
        ("deepseek", "thinking", {"type": "enabled"}, True),
        ("moonshot", "thinking", {"type": "enabled"}, False),
        ("glm", "thinking", {"type": "enabled"}, False),
        ("minimax", "thinking", {"type": "enabled"}, False),
        ("qwen", "enable_thinking", True, False),
    ],
)
def test_thinking_is_switched_on_as_the_server_wants_it(
    dialect: str, field: str, value: object, takes_effort: bool, asked: Json
) -> None:
    body, losses = sent("messages", asking(**asked), "chat", dialect)
    effort = "high" if takes_effort and "output_config" in asked else None
    assert (body[field], body.get("reasoning_effort")) == (value, effort)
    assert losses == ([] if takes_effort or "thinking" in asked else ["effort;approx"])


def test_openrouter_is_told_to_think_or_how_much() -> None:
    body, _ = sent("messages", asking(thinking={"type": "adaptive"}), "chat", "openrouter")
    assert body["reasoning"] == {"enabled": True}
    body, _ = sent("messages", asking(output_config={"effort": "high"}), "chat", "openrouter")
    assert body["reasoning"] == {"effort": "high"}


@pytest.mark.parametrize("dialect", ["qwen", "vllm", "deepseek"])
def test_who_says_nothing_of_thinking_switches_nothing(dialect: str) -> None:
    body, _ = sent("messages", asking(), "chat", dialect)
    assert body.keys().isdisjoint({"enable_thinking", "chat_template_kwargs", "thinking", "reasoning_effort"})


def test_a_server_without_a_switch_is_not_asked() -> None:
    body, losses = sent("messages", asking(thinking={"type": "disabled"}), "chat", "generic")
    assert ("reasoning_effort" in body, losses) == (False, ["reasoning-off;approx"])


@pytest.mark.parametrize(
    ("effort", "level", "losses"),
    [
        ("low", "low", []),
        ("medium", "low", ["effort;approx"]),
        ("high", "high", []),
        ("xhigh", "high", ["effort;approx"]),
        ("max", "max", []),
    ],
)
def test_levels_of_deepseek(effort: str, level: str, losses: list[str]) -> None:
    body, told = sent("messages", asking(output_config={"effort": effort}), "chat", "deepseek")
    assert (body["reasoning_effort"], told) == (level, losses)


def test_deepseek_does_not_think_where_a_call_is_forced() -> None:
    body, losses = sent("messages", asking(**FORCED, output_config={"effort": "high"}), "chat", "deepseek")
    assert (body["thinking"], "reasoning_effort" in body, losses) == (
        {"type": "disabled"},
        False,
        ["forced-choice;approx"],
    )
    body, losses = sent("messages", asking(output_config={"effort": "high"}), "chat", "deepseek")
    assert (body["reasoning_effort"], losses) == ("high", [])


def test_a_choice_that_ollama_does_not_heed_is_put_in_words() -> None:
    body, losses = sent("messages", asking(**FORCED), "chat", "ollama")
    assert [tool["function"]["name"] for tool in body["tools"]] == ["g"]
    assert body["tool_choice"] == "auto"
    assert "Call the tool `g` now." in json.dumps(body["messages"])
    assert losses == ["forced-choice;approx"]


def test_groq_is_asked_to_set_reasoning_apart() -> None:
    assert sent("messages", asking(output_config={"effort": "low"}), "chat", "groq")[0]["reasoning_format"] == "parsed"
    assert "reasoning_format" not in sent("messages", asking(), "chat", "groq")[0]


def test_gemini_gets_plain_schemas_that_are_not_strict() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "additionalProperties": {"type": ["string", "null"]},
            "level": {"enum": [1, 2], "description": "How much."},
            "pairs": {"type": "array", "items": {"type": "object", "additionalProperties": False}},
        },
        "additionalProperties": False,
    }
    request = asking(tools=[{"name": "f", "input_schema": schema, "strict": True}])
    body, losses = sent("messages", request, "chat", "gemini")
    function = body["tools"][0]["function"]
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "additionalProperties": {"type": "string", "nullable": True},
            "level": {"description": "How much. One of [1,2]."},
            "pairs": {"type": "array", "items": {"type": "object"}},
        },
    }
    assert ("strict" in function, "parameters;approx" in losses, "strict-off;approx" in losses) == (False, True, True)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}},
        {"anyOf": [{"type": "string"}, True], "items": False},
        {"properties": [], "type": {}, "enum": "x", "anyOf": {}},
    ],
)
def test_a_plain_schema_stays_as_it_is(schema: dict[str, object]) -> None:
    assert plain(schema) == schema


def test_gemini_loses_no_strictness_that_nobody_asked_for() -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    for strict, losses in (({}, ["parameters;approx"]), ({"strict": True}, ["strict-off;approx", "parameters;approx"])):
        tool = {"type": "function", "name": "f", "parameters": closed, **strict}
        body, found = sent("responses", {"model": "m", "input": "hi", "tools": [tool]}, "chat", "gemini")
        assert (found, "strict" in body["tools"][0]["function"]) == (losses, False)


TEXT: Json = {"type": "string"}
NULL: Json = {"type": "null"}


@pytest.mark.parametrize(
    ("given", "plainly"),
    [
        ({"type": ["string", "null"]}, {**TEXT, "nullable": True}),
        ({"type": ["string"]}, TEXT),
        (
            {"type": ["string", "integer", "null"], "maxLength": 9, "minimum": 1, "description": "It."},
            {"anyOf": [{**TEXT, "maxLength": 9}, {"type": "integer", "minimum": 1}], "nullable": True}
            | {"description": "It."},
        ),
        ({"type": ["string", "array"], "items": TEXT}, {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {**TEXT, "nullable": True, "enum": ["a"]}),
        ({"enum": [1, None]}, {"nullable": True, "description": "One of [1]."}),
        ({"anyOf": [TEXT, NULL], "default": None}, {**TEXT, "nullable": True, "default": None}),
        ({"anyOf": [TEXT, {"type": "integer"}, NULL]}, {"anyOf": [TEXT, {"type": "integer"}], "nullable": True}),
        ({"anyOf": [{"$ref": "#/$defs/A"}, NULL]}, {"anyOf": [{"$ref": "#/$defs/A"}], "nullable": True}),
        ({"anyOf": [{"maxLength": 3}, NULL], "maxLength": 4}, None),
        ({"anyOf": [NULL]}, {"anyOf": [NULL]}),
        ({"type": ["string", "integer"], "anyOf": [{"maxLength": 3}]}, {"anyOf": [{"maxLength": 3}]}),
    ],
)
def test_gemini_knows_one_type_that_may_be_null(given: Json, plainly: Json) -> None:
    expected = plainly or {"anyOf": [{"maxLength": 3}], "nullable": True, "maxLength": 4}
    assert plain({"properties": {"a": given}}) == {"properties": {"a": expected}}


def test_no_service_tier_at_hosts_of_claude() -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "service_tier": "default"}
    at_home, _ = sent("chat", request, "messages", "anthropic", "claude-sonnet-4-5")
    body, losses = sent("chat", request, "messages", "bedrock", "claude-sonnet-4-5")
    assert (at_home["service_tier"], "service_tier" in body, losses) == ("standard_only", False, ["service-tier;drop"])


@pytest.mark.parametrize("model", ["anthropic/claude-opus-4.5", "claude-sonnet-4", "claude-of-tomorrow"])
@pytest.mark.parametrize(
    ("dialect", "field", "value"),
    [("openrouter", "reasoning", {"effort": "high"}), ("generic", "reasoning_effort", "high")],
)
def test_a_gateway_makes_of_an_effort_what_its_model_takes(dialect: str, field: str, value: object, model: str) -> None:
    body, losses = sent("messages", asking(output_config={"effort": "high"}), "chat", dialect, model)
    assert (body[field], losses) == (value, [])


def test_a_gateway_is_told_to_switch_thinking_off() -> None:
    body, losses = sent(
        "messages", asking(thinking={"type": "disabled"}), "chat", "openrouter", "anthropic/claude-opus-4.8"
    )
    assert (body["reasoning"], losses) == ({"enabled": False}, [])


def test_a_model_that_does_not_think_is_not_asked_to_by_a_gateway_either() -> None:
    body, losses = sent("messages", asking(output_config={"effort": "high"}), "chat", "openrouter", "claude-3-5-haiku")
    assert ("reasoning" in body, losses) == (False, ["effort;drop"])
