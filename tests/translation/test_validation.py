"""Answers in a form that the backend did not see to are held against the client's schema (mapping.md 9.2)."""

import json

import pytest

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.target import Target
from proxy.canonical.tools import Schema
from proxy.translation.pair import Options, peek, prepare
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.translation.validation import misfit, work
from tests.harness.wire import Json, Protocol
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes

NAMES: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
TREE: Schema = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}


CHAIN: Json = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(2000)} | {"d2000": {"type": "string"}}
MANY: Json = {"properties": {f"p{at}": {"pattern": r"[\p{L}\p{N}]{200}"} for at in range(200)}}


def doubling(depth: int) -> Schema:
    """A schema that is twice as much work with each step of its depth."""
    defs: Json = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(depth)}
    return {"$defs": {**defs, f"d{depth}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("text", "schema", "wrong"),
    [
        ('{"a":"x"}', NAMES, None),
        ('{"a":1}', NAMES, "it fails the schema at 'additionalProperties/type'"),
        ("[]", NAMES, "it fails the schema at 'type'"),
        ('{"a":"x"', NAMES, "it is not JSON"),
        ("", NAMES, "it is not JSON"),
        ('{"a":1}', None, None),
        ("[1]", None, "it is not a JSON object"),
        ("36893488147419103232", {"maximum": 36893488147419103231}, "it fails the schema at 'maximum'"),
        ('"a"', doubling(3), "it fails the schema at '$defs/d3/type'"),
        (
            '"a/b"',
            {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": "a"}}},
            "it fails the schema at '$defs/a~1b/const'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_schemas_words(text: str, schema: Schema | None, wrong: str | None) -> None:
    assert misfit(text, schema) == wrong


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        doubling(40),
        {"properties": {"left": {"$ref": "#/$defs/d0"}}, "$defs": CHAIN},
        {"properties": {"left": {"type": "string"}, "right": MANY}},
        {"properties": {"definitions": {"properties": {f"p{at}": {"type": "string"} for at in range(20_000)}}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "https://127.0.0.1:1/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"items": {"$id": "x", "type": "string"}},
        {"type": "no type"},
        {"pattern": "("},
    ],
)
def test_what_can_not_be_checked_in_bounds_is_not(schema: Schema) -> None:
    assert misfit('{"left":1}', schema) is None


def test_work_counts_what_references_lead_to() -> None:
    assert [work(doubling(depth)) < work(doubling(depth + 1)) for depth in range(8)] == [True] * 8
    assert work(doubling(20)) > 2**20


FORMATS: dict[str, dict[str, Json]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": NAMES}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "n", "schema": NAMES}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": NAMES}}, "max_tokens": 99},
}
RULES = {"chat": "response-format", "responses": "text-format", "messages": "output-config-format"}
# (client, backend, its model): nobody enforces this schema there.
PAIRS: list[tuple[Protocol, Protocol, str]] = [
    ("chat", "messages", "claude-opus-5-5"),
    ("responses", "messages", "claude-opus-5-5"),
    ("messages", "chat", "gpt-4.1"),
    ("messages", "responses", "gpt-4.1"),
]


def asked(client: Protocol, backend: Protocol, model: str, validate: str, *, stream: bool) -> Prepared:
    body = {"model": "m", "stream": stream, **FORMATS[client]}
    body["input" if client == "responses" else "messages"] = [{"role": "user", "content": "hi"}]
    target = Target(backend, model, profile=profile_of(model), validate_output=validate)  # type: ignore[arg-type]
    return prepare(peek(client, json.dumps(body).encode()), target, Options())


def says(text: str) -> Script:
    return Script((Part("text", (text[:3], text[3:])),), "end")


@pytest.mark.parametrize(("client", "backend", "model"), PAIRS)
@pytest.mark.parametrize(("text", "kept"), [('{"a":"b"}', True), ('{"a":1}', False)])
def test_it_is_recorded(client: Protocol, backend: Protocol, model: str, text: str, kept: bool) -> None:
    whole = asked(client, backend, model, "record", stream=False)
    assert json.dumps(text)[1:-1].encode() in whole.reply(whole_bytes(backend, says(text)))
    streamed = asked(client, backend, model, "record", stream=True)
    translation = streamed.translation()
    for chunk in event_bytes(backend, says(text)):
        translation.feed(chunk)
    translation.end()
    assert translation.failed is None
    for prepared in (whole, streamed):
        told = [(loss.rule, loss.path) for loss in prepared.losses if loss.level == "drop"]
        assert told == ([] if kept else [(RULES[client], "reply")])


@pytest.mark.parametrize(("client", "backend", "model"), PAIRS)
def test_it_can_be_an_error(client: Protocol, backend: Protocol, model: str) -> None:
    with pytest.raises(Rejected) as caught:
        asked(client, backend, model, "error", stream=False).reply(whole_bytes(backend, says('{"a":1}')))
    assert caught.value.error.kind is ErrorClass.BAD_GATEWAY
    assert caught.value.error.message.endswith("it fails the schema at 'additionalProperties/type'.")
    translation = asked(client, backend, model, "error", stream=True).translation()
    out = b"".join(map(translation.feed, event_bytes(backend, says('{"a":1}')))) + translation.end()
    assert translation.failed == caught.value.error
    assert not any(mark in out for mark in (b"[DONE]", b"message_stop", b"response.completed"))


@pytest.mark.parametrize(("client", "backend", "model"), PAIRS)
def test_what_is_no_answer_is_not_checked(client: Protocol, backend: Protocol, model: str) -> None:
    for script in (
        Script((Part("text", ("Let me look.",)), Part("call", ("{}",), 1)), "tool"),
        Script((Part("text", ('{"a":',)),), "length"),
    ):
        prepared = asked(client, backend, model, "error", stream=False)
        prepared.reply(whole_bytes(backend, script))
        assert [loss.rule for loss in prepared.losses if loss.level == "drop"] == []
