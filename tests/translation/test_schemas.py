"""Tool schemas as each vendor takes them, never tighter than the client's (mapping.md 5.1)."""

import json

import pytest

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.target import Target
from proxy.canonical.tools import Schema
from proxy.translation import pair, schemas
from proxy.translation.codecs import ClientProtocol


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (None, None),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"anyOf": [{"type": "object"}]}, {"anyOf": [{"type": "object"}]}),
    ],
)
def test_for_openai(given: Schema | None, written: Schema | None) -> None:
    assert schemas.for_openai(given) == written


@pytest.mark.parametrize(
    ("given", "written", "losses"),
    [
        (None, {"type": "object", "properties": {}}, []),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}, []),
        ({"type": ["object", "null"]}, {"type": "object"}, []),
        ({"type": "array", "items": {}}, {"type": "object", "items": {}}, ["parameters"]),
        ({"$ref": "https://example.org/schema"}, {"type": "object"}, ["parameters"]),
        (
            {"$ref": "#/$defs/in", "$defs": {"in": {"type": "object", "properties": {"a": {}}}}},
            {
                "$defs": {"in": {"type": "object", "properties": {"a": {}}}},
                "type": "object",
                "properties": {"a": {}},
            },
            [],
        ),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                ]
            },
            {
                "description": "Give one of these sets of fields: {a, b} or {a}.",
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {}},
                "required": ["a"],
            },
            ["root-union"],
        ),
        (
            {
                "type": "object",
                "allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}],
            },
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
            ["root-union"],
        ),
    ],
)
def test_for_messages(given: Schema | None, written: Schema, losses: list[str]) -> None:
    report = LossReport()
    assert schemas.for_messages(given, ("tools", 0), report) == written
    assert [loss.rule for loss in report.losses] == losses


@pytest.mark.parametrize(
    ("schema", "openai", "anthropic"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, False, True),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer", "minimum": 1}},
                "required": ["a"],
                "additionalProperties": False,
            },
            True,
            False,
        ),
        ({"type": "object", "properties": {}}, False, False),
        ({"$schema": "a draft", "type": "object", "properties": {}, "additionalProperties": False}, True, True),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            False,
            False,
        ),
    ],
)
def test_strict_rules_of_each_vendor(schema: Schema, openai: bool, anthropic: bool) -> None:
    assert schemas.is_strict(schema, "openai") is openai
    assert schemas.is_strict(schema, "anthropic") is anthropic


CLOSED: Schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({**CLOSED, "anyOf": [CLOSED]}, False),
        ({**CLOSED, "$ref": "#/$defs/a", "$defs": {"a": CLOSED}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"allOf": [CLOSED]}}}, False),
    ],
)
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_a_tool_is_enforced_only_where_openai_can(client: ClientProtocol, schema: Schema, strict: bool) -> None:
    tool: Schema = {"name": "f", "input_schema": schema, "strict": True}
    body: Schema = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    if client == "chat":
        body["tools"] = [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}]
    prepared = pair.prepare(
        pair.peek(client, json.dumps(body).encode()), Target("responses", "gpt-5.4"), pair.Options()
    )
    assert json.loads(prepared.body)["tools"][0]["strict"] is strict
    assert [loss.rule for loss in prepared.losses].count(Rule.STRICT_OFF) == (not strict)
