"""JSON schemas made acceptable to a backend without changing what they accept (mapping.md 5.1, 9).

A schema is never tightened: what can't be expressed turns enforcement off and is recorded, since a model that must fill
fields which the client made optional would invent values.
"""

from typing import Literal

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.tools import Schema
from proxy.translation.reduction import fits_unchanged
from proxy.translation.root_objects import UNION_WORDS, as_object

Vendor = Literal["openai", "anthropic"]

EMPTY: Schema = {"type": "object", "properties": {}}
_NOT_PLAIN = frozenset({*UNION_WORDS, "$ref"})


def for_openai(schema: Schema | None) -> Schema | None:
    """Parameters as OpenAI takes them: an object root always says its properties. None stays None."""
    if schema is None:
        return None
    if not schema:
        return EMPTY
    if "properties" in schema and "type" in schema:
        return schema
    fixed = schema
    if "type" not in schema and _NOT_PLAIN.isdisjoint(schema):
        fixed = {"type": "object", **schema}
    if fixed.get("type") == "object" and "properties" not in fixed:
        fixed = {**fixed, "properties": {}}
    return fixed


def for_messages(schema: Schema | None, path: Path, losses: LossReport) -> Schema:
    """`input_schema` as Anthropic takes it: an object root without union words or a reference."""
    if not schema:
        return EMPTY
    if not _NOT_PLAIN.isdisjoint(schema):
        root = as_object(schema)
        if root.merged:
            losses.approx(Rule.ROOT_UNION, path)
        if root.lost:
            losses.approx(Rule.PARAMETERS, path)
        return root.schema
    kind = schema.get("type")
    if kind == "object":
        return schema
    if kind is None:
        return {**schema, "type": "object"} if "type" in schema else {"type": "object", **schema}
    if not (isinstance(kind, list) and "object" in kind):
        losses.approx(Rule.PARAMETERS, path)  # arguments are an object
    return {**schema, "type": "object"}


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return dict(found) if isinstance(found, dict) else {}


def _required(schema: Schema) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def undated(schema: Schema) -> Schema:
    """The schema without the name of the draft that it keeps to, which generators write at the root."""
    return {word: value for word, value in schema.items() if word != "$schema"} if "$schema" in schema else schema


def is_strict(schema: Schema | None, vendor: Vendor) -> bool:
    """Whether the schema already keeps the vendor's rules for strict mode: every object closed and, at OpenAI, every
    property required (messages.md 8.5; chat_completions.md 5.1)."""
    if not schema or schema.get("type") != "object":
        return False
    if vendor == "anthropic":
        return fits_unchanged(undated(schema))
    return _NOT_PLAIN.isdisjoint(schema) and _is_strict(schema, 0)  # the root is an object and nothing besides


_CHILDREN = ("items", "additionalItems")
_MAPS = ("properties", "$defs", "definitions")
_NOT_STRICT = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "dependentRequired", "dependentSchemas"}
)


def _is_strict(node: object, depth: int) -> bool:
    if not isinstance(node, dict):
        return not isinstance(node, bool)
    if depth > 20 or not _NOT_STRICT.isdisjoint(node):
        return False
    kind = node.get("type")
    if kind == "object" or "properties" in node or (isinstance(kind, list) and "object" in kind):
        if node.get("additionalProperties") is not False:
            return False
        if set(_properties(node)) != set(_required(node)):
            return False
    children: list[object] = [node[word] for word in _CHILDREN if word in node]
    for word in _MAPS:
        group = node.get(word)
        if isinstance(group, dict):
            children += group.values()
    branches = node.get("anyOf")
    if isinstance(branches, list):
        children += branches
    return all(_is_strict(child, depth + 1) for child in children)
