"""Schemas in the part of JSON Schema that Anthropic enforces (mapping.md 9.2; messages.md 8.5)."""

import pytest

from proxy.canonical.tools import Schema
from proxy.translation.reduction import NotExpressible, Reduced, complexity, fits_unchanged, reduced

TEXT: Schema = {"type": "string"}


def closed(**properties: object) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        closed(a=TEXT),
        closed(a={"type": ["string", "null"]}, b={"anyOf": [TEXT, {"type": "null"}]}),
        closed(a={"enum": ["x", 1, None]}, b={"const": "y"}, c={"type": "string", "format": "uuid"}),
        closed(a={"type": "array", "items": TEXT, "minItems": 1}, b={"type": "string", "pattern": "^[a-z]{2,5}$"}),
        {**closed(a={"$ref": "#/$defs/b"}), "$defs": {"b": closed(c=TEXT)}},
        closed(a={"type": "string", "default": "x", "title": "A", "description": "words"}),
        {"type": "object", "additionalProperties": False},
        closed(**{"$ref": TEXT, "items": TEXT}),
    ],
)
def test_what_is_enforced_stays_as_it_is(schema: Schema) -> None:
    assert reduced(schema) == Reduced(schema)
    assert fits_unchanged(schema)


@pytest.mark.parametrize(
    ("node", "becomes"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, {"type": "integer", "description": "minimum: 1; maximum: 9"}),
        (
            {"type": "string", "maxLength": 3, "description": "Name"},
            {"type": "string", "description": "Name (maxLength: 3)"},
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 2},
            {"type": "array", "items": TEXT, "description": "minItems: 2"},
        ),
        ({"type": "string", "format": "color"}, {"type": "string", "description": 'format: "color"'}),
        ({"type": "string", "pattern": "a(?=b)"}, {"type": "string", "description": 'pattern: "a(?=b)"'}),
        ({"type": "string", "pattern": r"\bx"}, {"type": "string", "description": r'pattern: "\\bx"'}),
        ({"type": "string", "pattern": r"(a)\1"}, {"type": "string", "description": r'pattern: "(a)\\1"'}),
        ({"type": "string", "pattern": "a{1,9999}"}, {"type": "string", "description": 'pattern: "a{1,9999}"'}),
        ({"type": "array", "enum": [["a"], ["b"]]}, {"type": "array", "description": 'enum: [["a"],["b"]]'}),
        ({"type": "string", "not": {"const": "x"}}, {"type": "string", "description": 'not: {"const":"x"}'}),
    ],
)
def test_a_constraint_that_is_not_enforced_becomes_words(node: Schema, becomes: Schema) -> None:
    assert reduced(closed(a=node)) == Reduced(closed(a=becomes), said=True)
    assert not fits_unchanged(closed(a=node))


def test_objects_that_say_nothing_of_further_properties_are_closed() -> None:
    inner: Schema = {"type": "object", "properties": {"b": TEXT}}
    result = reduced(closed(a=inner))
    assert result == Reduced(closed(a={**inner, "additionalProperties": False}), closed=True)
    assert not fits_unchanged(closed(a=inner))


@pytest.mark.parametrize(
    ("schema", "becomes"),
    [
        (closed(a={"oneOf": [TEXT, {"type": "null"}]}), closed(a={"anyOf": [TEXT, {"type": "null"}]})),
        (
            {**closed(a={"allOf": [{"$ref": "#/$defs/b"}], "description": "d"}), "$defs": {"b": TEXT}},
            {**closed(a={"$ref": "#/$defs/b", "description": "d"}), "$defs": {"b": TEXT}},
        ),
        ({"$schema": "http://json-schema.org/draft-07/schema#", **closed(a=TEXT)}, closed(a=TEXT)),
    ],
)
def test_what_has_the_same_meaning_in_other_words(schema: Schema, becomes: Schema) -> None:
    assert reduced(schema) == Reduced(becomes)
    assert not fits_unchanged(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        closed(a={"type": "object", "additionalProperties": TEXT}),
        closed(a={"type": "object", "properties": {}, "patternProperties": {"^x": TEXT}}),
        closed(a={}),
        closed(a=True),
        closed(a={"description": "anything"}),
        closed(a={"type": "array", "prefixItems": [TEXT]}),
        closed(a={"type": "array", "items": [TEXT]}),
        {"$ref": "https://example.org/schema"},
        closed(a={"$ref": "#"}),
        closed(a={"$ref": "#/$defs/missing"}),
        {**closed(a={"$ref": "#/$defs/b"}), "$defs": {"b": closed(c={"$ref": "#/$defs/b"})}},
        {"$defs": {"a": closed(x={"$ref": "#/$defs/b"}), "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {**closed(a={"allOf": [{"$ref": "#/$defs/b"}, closed(d=TEXT)]}), "$defs": {"b": closed(c=TEXT)}},
        closed(**{f"p{number}": TEXT for number in range(25)}),
        {
            **closed(**{f"p{number}": {"type": ["string", "null"]} for number in range(17)}),
            "required": [f"p{number}" for number in range(17)],
        },
    ],
)
def test_what_cannot_be_expressed(schema: Schema) -> None:
    with pytest.raises(NotExpressible):
        reduced(schema)
    assert not fits_unchanged(schema)


def test_optional_fields_and_unions_are_counted_at_any_depth() -> None:
    schema = {
        **closed(a=TEXT, b={"type": "array", "items": {"anyOf": [closed(x=TEXT), {"type": "null"}]}}),
        "required": ["a"],
        "$defs": {"d": {"type": ["string", "null"]}},
    }
    assert complexity(schema) == (2, 2)
