"""Roots that Anthropic refuses, as one object that takes no less (mapping.md 5.1)."""

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.canonical.loss import Rule
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import Schema
from proxy.translation import pair
from proxy.translation.codecs import ClientProtocol
from proxy.translation.profiles import profile_of
from proxy.translation.root_objects import as_object

CAT: Schema = {
    "type": "object",
    "title": "Cat",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    "required": ["kind", "lives"],
}
DOG: Schema = {
    "type": "object",
    "title": "Dog",
    "properties": {"kind": {"const": "dog"}, "breed": {"type": "string"}},
    "required": ["kind", "breed"],
}
DEFS: Schema = {"Cat": CAT, "Dog": DOG}
PETS = {"kind": {"anyOf": [{"const": "cat"}, {"const": "dog"}]}, "lives": {"type": "integer"}}
PETS["breed"] = {"type": "string"}
SAID = "Give one of these sets of fields: {kind, lives} or {kind, breed}."
REFS = [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
X: Schema = {"properties": {"x": {"type": "string"}}, "required": ["x"]}


def test_a_union_of_references_keeps_the_fields_of_all() -> None:
    root = as_object({"$defs": DEFS, "oneOf": REFS, "description": "A pet."})
    assert root.schema == {
        "type": "object",
        "description": f"A pet.\n{SAID}",
        "properties": PETS,
        "required": ["kind"],
        "$defs": DEFS,
    }
    assert (root.merged, root.lost, root.free) == (True, False, True)


@pytest.mark.parametrize(
    "union",
    [
        {"$ref": "#/$defs/Pet", "$defs": {**DEFS, "Pet": {"anyOf": REFS}}},
        {"allOf": [{"oneOf": REFS}], "$defs": DEFS},
        {"anyOf": [{"allOf": [REFS[0]]}, {"anyOf": [REFS[1], REFS[1]]}], "$defs": DEFS},
        {"anyOf": [*REFS, {"type": "string"}, {"type": "null"}], "$defs": DEFS},
    ],
)
def test_a_union_behind_another_word_is_the_same(union: Schema) -> None:
    written = as_object(union).schema
    assert written == {
        "type": "object",
        "description": SAID,
        "properties": PETS,
        "required": ["kind"],
        "$defs": union["$defs"],
    }


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (
            {"allOf": [{"$ref": "#/$defs/Cat"}, {"properties": {"age": {}}, "required": ["age"]}], "$defs": DEFS},
            {
                "type": "object",
                "title": "Cat",
                "properties": {**CAT["properties"], "age": {}},  # type: ignore[dict-item]
                "required": ["kind", "lives", "age"],
                "$defs": DEFS,
            },
        ),
        (
            {"allOf": [X, {"properties": {"x": {"maxLength": 3}}}, {"properties": {"x": {"minLength": 1}}}]},
            {
                "type": "object",
                "properties": {"x": {"allOf": [{"type": "string"}, {"maxLength": 3}, {"minLength": 1}]}},
                "required": ["x"],
            },
        ),
        (
            {**X, "additionalProperties": False, "anyOf": [{"required": ["y"]}, {"required": ["z"]}]},
            {
                "type": "object",
                "additionalProperties": False,
                "description": "Give one of these sets of fields: {y} or {z}.",
                "properties": X["properties"],
                "required": ["x"],
            },
        ),
        (
            {"anyOf": [{"minProperties": 1, "patternProperties": {"a": {}}, "additionalProperties": False}, X]},
            {"type": "object", "description": "Give one of these sets of fields: {} or {x}."}
            | {"properties": {"x": {"type": "string"}}},
        ),
        (
            {"anyOf": [{"additionalProperties": False}, {**X, "additionalProperties": False}]},
            {"type": "object", "description": "Give one of these sets of fields: {} or {x}."}
            | {"properties": {"x": {"type": "string"}}, "additionalProperties": False},
        ),
        (
            {"if": X, "then": {"required": ["y"]}, "allOf": [{"if": {}, "else": False, "maxProperties": 9}]},
            {"type": "object", "if": X, "then": {"required": ["y"]}, "maxProperties": 9, "properties": {}},
        ),
        (
            {"$ref": "#/$defs/Cat", "description": "Ours.", "$defs": DEFS},
            {**CAT, "description": "Ours.", "$defs": DEFS},
        ),
    ],
)
def test_what_holds_at_once_is_joined_and_what_may_hold_is_left_open(given: Schema, written: Schema) -> None:
    assert as_object(given).schema == written


@pytest.mark.parametrize(
    ("given", "lost", "free"),
    [
        ({"$ref": "#"}, True, True),
        ({"$ref": "https://example.org/schema"}, True, True),
        ({"$ref": "#/$defs/Pet"}, True, True),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, True, False),
        ({"enum": ["a", "b"]}, True, False),
        ({"$ref": "#/$defs/One", "$defs": {"One": {"enum": [{"a": 1}, {"a": 2}]}}}, False, False),
        ({"anyOf": [CAT, {"type": "null"}]}, False, False),
        ({"type": ["object", "null"], "not": {"required": ["x"]}}, False, False),
    ],
)
def test_what_can_not_be_kept_is_known(given: Schema, lost: bool, free: bool) -> None:
    root = as_object(given)
    assert (root.lost, root.free, root.schema["type"]) == (lost, free, "object")


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    node: Schema = {"anyOf": [X, {"$ref": "#/$defs/Node"}, {"allOf": [{"$ref": "#/$defs/Node"}, CAT]}]}
    assert as_object({"$ref": "#/$defs/Node", "$defs": {"Node": node}}).schema["$defs"] == {"Node": node}


def test_a_schema_that_would_grow_without_end_is_left_open() -> None:
    def level(number: int) -> Schema:
        below = {"$ref": f"#/$defs/L{number - 1}"}
        return {
            "anyOf": [
                {"allOf": [below, {"properties": {"x": {"minLength": bound}}}]} for bound in (number, number + 99)
            ]
        }

    levels = {f"L{number}": level(number) for number in range(1, 40)}
    given: Schema = {"$ref": "#/$defs/L39", "$defs": {"L0": {"properties": {"x": {"enum": ["a" * 50] * 40}}}, **levels}}
    assert len(json.dumps(as_object(given).schema)) < 8 * len(json.dumps(given))


def test_references_into_what_was_merged_still_lead_somewhere() -> None:
    """Generators that write each type once refer to where it first stood."""
    point: Schema = {"type": "object", "properties": {"next": {"$ref": "#/anyOf/0/properties/at"}}}
    given: Schema = {
        "anyOf": [
            {"type": "object", "properties": {"at": point}},
            {"type": "object", "properties": {"from": {"$ref": "#/anyOf/0/properties/at"}}},
        ],
    }
    name = "#/$defs/anyOf_0_properties_at"
    moved = {"type": "object", "properties": {"next": {"$ref": name}}}
    assert as_object(given).schema == {
        "type": "object",
        "properties": {"at": moved, "from": {"$ref": name}},
        "$defs": {"anyOf_0_properties_at": moved},
    }


# --- any schema ---

NAMES = ("a", "b", "c")
VALUES = st.sampled_from(["s", "t", 1, 2])
FIELD = st.sampled_from([{}, True, {"type": "string"}, {"type": "integer"}, {"enum": ["s", 1]}])
# Each says something of every field: what a variant is silent about may hold anything in it, and is what another says
# of it in the whole.
LEAF = st.fixed_dictionaries(
    {"properties": st.fixed_dictionaries(dict.fromkeys(NAMES, FIELD))},
    optional={
        "type": st.sampled_from(["object", ["object", "null"], "string"]),
        "required": st.lists(st.sampled_from(NAMES), unique=True),
        "additionalProperties": st.sampled_from([False, True, {"type": "string"}]),
        "patternProperties": st.sampled_from([{"z": {"type": "string"}}, {"^z": {"type": "integer"}, "y": {}}]),
        "minProperties": st.integers(0, 2),
        "not": st.just({"required": ["a", "b", "c"]}),
    },
)
NODE = st.recursive(
    LEAF | st.sampled_from([{"$ref": "#/$defs/D"}, {"$ref": "#/$defs/E"}]),
    lambda inner: st.builds(
        lambda word, branches, beside: {**beside, word: branches},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
        st.just({}) | LEAF,
    ),
    max_leaves=6,
)
INSTANCE = st.dictionaries(st.sampled_from([*NAMES, "z", "y"]), VALUES, max_size=4)


@settings(max_examples=150, deadline=None)
@given(root=NODE, d=NODE, e=LEAF, instances=st.lists(INSTANCE, min_size=8, max_size=8))
def test_no_object_that_was_taken_is_refused(root: Schema, d: Schema, e: Schema, instances: list[object]) -> None:
    whole = {**root, "$defs": {"D": d, "E": e}}
    if "#/$defs/D" in json.dumps(d):
        return  # a reference to itself means nothing
    written = jsonschema_rs.validator_for(as_object(whole).schema)
    before = jsonschema_rs.validator_for(whole)
    assert [instance for instance in instances if before.is_valid(instance) and not written.is_valid(instance)] == []


# --- at the boundary ---


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_a_tool_and_an_answer_with_variants_reach_claude_with_all_fields(client: ClientProtocol) -> None:
    schema = {"$defs": DEFS, "oneOf": REFS}
    name = {"name": "adopt", "parameters": schema}
    body: Schema = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    body["tools"] = [{"type": "function", "function": name}]
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}}
    if client == "responses":
        body = {"model": "m", "input": "hi", "tools": [{"type": "function", **name, "strict": False}]}
        body["text"] = {"format": {"type": "json_schema", "name": "pet", "schema": schema}}
    target = Target("messages", "claude-3-5-haiku", Dialect(), profile_of("claude-3-5-haiku"))
    prepared = pair.prepare(pair.peek(client, json.dumps(body).encode()), target, pair.Options())
    tools = json.loads(prepared.body)["tools"]
    assert [tool["name"] for tool in tools] == ["adopt", "respond"]
    assert [tool["input_schema"]["properties"] for tool in tools] == [PETS, PETS]
    assert [loss.rule for loss in prepared.losses].count(Rule.ROOT_UNION) == 2
