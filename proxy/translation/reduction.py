"""Schemas in the part of JSON Schema that Anthropic enforces (mapping.md 9.2; messages.md 8.5).

What a keyword would have constrained is said in words in its place; what changes the shape of the answer (maps,
recursion) can't be said so, and is not expressible.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical.jsontext import dumps
from proxy.canonical.tools import Schema

# Over all strict schemas of a request.
STRICT_TOOLS, OPTIONAL_PARAMETERS, UNION_PARAMETERS = 20, 24, 16

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_SIMPLE_TYPES = (str, int, float, bool, type(None))
_COMPLEX_PATTERN = re.compile(r"\(\?[=!<]|\\[bB1-9k]")
_LARGE_REPEAT = re.compile(r"\{\d{3,}|\{\d*,\d{3,}")


class NotExpressible(Exception):
    """The schema needs what Anthropic's structured output lacks; the message says what."""


@dataclass(slots=True)
class Reduced:
    """`closed`: objects were closed that the schema leaves open. `said`: keywords became words."""

    schema: Schema = field(default_factory=dict)
    closed: bool = False
    said: bool = False

    @property
    def changed(self) -> bool:
        """Whether it is not the client's schema any more."""
        return self.closed or self.said


def reduced(schema: Schema) -> Reduced:
    """The schema for `output_config.format`. Raises `NotExpressible`."""
    if not schema:
        raise NotExpressible("it takes anything")
    _check_references(schema)
    result = Reduced()
    result.schema = _node(schema, result)
    optional, unions = complexity(result.schema)
    if optional > OPTIONAL_PARAMETERS or unions > UNION_PARAMETERS:
        raise NotExpressible(
            f"it has {optional} optional fields and {unions} unions, and the most are "
            f"{OPTIONAL_PARAMETERS} and {UNION_PARAMETERS}"
        )
    return result


def fits_unchanged(schema: Schema) -> bool:
    """Whether the schema of an object can be enforced as it is."""
    if schema.get("additionalProperties") is not False:
        return False  # as it is of most tools
    try:
        result = reduced(schema)
    except NotExpressible:
        return False
    return not result.changed and result.schema == schema


def complexity(schema: Schema) -> tuple[int, int]:
    """(optional fields, unions) of a schema, as the limits count them; a union counts wherever it stands."""
    optional = unions = 0
    waiting: list[object] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        required = node.get("required")
        properties = node.get("properties")
        if isinstance(properties, dict):
            optional += len(properties.keys() - set(map(str, required if isinstance(required, list) else ())))
        unions += isinstance(node.get("type"), list) or "anyOf" in node or "oneOf" in node
        waiting += _children(node)
    return optional, unions


def _children(node: Schema) -> list[object]:
    found: list[object] = [node["items"]] if "items" in node else []
    for word in _MAPS:
        group = node.get(word)
        if isinstance(group, dict):
            found += group.values()
    for word in _LISTS:
        group = node.get(word)
        if isinstance(group, list):
            found += group
    return found


# --- references ---


def _check_references(schema: Schema) -> None:
    """Each must lead to a definition of the schema itself, and none back to where it stands."""
    defs: dict[str, list[str]] = {}
    for word in ("$defs", "definitions"):
        group = schema.get(word)
        if isinstance(group, dict):
            defs |= {f"#/{word}/{name}": _references(sub) for name, sub in group.items()}
    for reference in _references(schema):
        if reference not in defs:
            raise NotExpressible(f"the reference {reference} can't be followed")
    for reference in defs:
        if _leads_to(defs, reference, reference, set()):
            raise NotExpressible(f"{reference} is recursive")


def _references(node: object) -> list[str]:
    if isinstance(node, dict):
        found = [value for key, value in node.items() if key == "$ref" and isinstance(value, str)]
        return found + [name for value in node.values() for name in _references(value)]
    if isinstance(node, list):
        return [name for value in node for name in _references(value)]
    return []


def _leads_to(defs: dict[str, list[str]], start: str, goal: str, seen: set[str]) -> bool:
    for name in defs.get(start, ()):
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            if _leads_to(defs, name, goal, seen):
                return True
    return False


# --- nodes ---

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf")


def _node(schema: object, result: Reduced) -> Schema:
    if not isinstance(schema, dict):
        raise NotExpressible("a part of it takes anything or nothing")
    node = _without_lone_all_of(schema)
    out: Schema = {}
    said: list[str] = []
    for key, value in node.items():
        keep = _KEYWORDS.get(key)
        if key in _MAPS and isinstance(value, dict):
            out[key] = {name: _node(sub, result) for name, sub in value.items()}
        elif key in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
            # No two branches of `oneOf` hold at once where schemas are meant well.
            out["allOf" if key == "allOf" else "anyOf"] = [_node(sub, result) for sub in value]
        elif key == "items" and isinstance(value, dict):
            out[key] = _node(value, result)
        elif key == "additionalProperties" or (keep is not None and keep(value)):
            out[key] = value
        elif key in _SHAPES:
            raise NotExpressible(f"{key} is not enforced")
        elif key not in _WORDLESS:
            said.append(f"{key}: {dumps(value).decode()}")
    if any("$ref" in branch for branch in _objects(out.get("allOf"))):
        raise NotExpressible("allOf with a reference is not enforced")
    if not any(word in out for word in _SAYS_A_TYPE):
        raise NotExpressible("a part of it takes anything")
    if _is_object(out):
        _close(out, result)
    if said:
        result.said = True
        words = out.get("description")
        note = "; ".join(said)
        out["description"] = f"{words} ({note})" if isinstance(words, str) and words else note
    return out


def _without_lone_all_of(node: Schema) -> Schema:
    """`allOf` around a single schema is how generators write a reference with a description."""
    branches = node.get("allOf")
    if not (isinstance(branches, list) and len(branches) == 1 and isinstance(branches[0], dict)):
        return node
    rest = {key: value for key, value in node.items() if key != "allOf"}
    return {**branches[0], **rest} if not branches[0].keys() & rest.keys() - _WORDS else node


def _objects(value: object) -> list[Schema]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_object(node: Schema) -> bool:
    kind = node.get("type")
    return kind == "object" or "properties" in node or (isinstance(kind, list) and "object" in kind)


def _close(node: Schema, result: Reduced) -> None:
    more = node.get("additionalProperties")
    if more is False:
        return
    if more is not None:
        raise NotExpressible("an object in it takes any further property")
    if "properties" not in node:
        raise NotExpressible("an object in it has properties that it does not name")
    node["additionalProperties"] = False
    result.closed = True


def _any(_value: object) -> bool:
    return True


def _simple(value: object) -> bool:
    return isinstance(value, _SIMPLE_TYPES)


def _simple_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, _SIMPLE_TYPES) for entry in value)


def _simple_pattern(value: object) -> bool:
    return isinstance(value, str) and not _COMPLEX_PATTERN.search(value) and not _LARGE_REPEAT.search(value)


# What is enforced, for which values.
_KEYWORDS: dict[str, Callable[[object], bool]] = {
    "type": _any,
    "required": _any,
    "title": _any,
    "description": _any,
    "default": _any,
    "$ref": _any,
    "enum": _simple_list,
    "const": _simple,
    "format": lambda value: value in _FORMATS if isinstance(value, str) else False,
    "pattern": _simple_pattern,
    "minItems": lambda value: value in (0, 1),
}
# Keywords that open an object to further properties, or whose meaning is the shape itself.
_SHAPES = frozenset({"patternProperties", "items", "properties", "prefixItems", "$dynamicRef", "$recursiveRef"})
_WORDLESS = frozenset({"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"})
_WORDS = frozenset({"title", "description", "default"})
_SAYS_A_TYPE = ("type", "anyOf", "allOf", "$ref", "enum", "const", "properties")
