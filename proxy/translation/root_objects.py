"""One object schema for a root that is a choice, a combination or a reference (mapping.md 5.1).

Anthropic takes no union word and no reference at the root of a tool's schema, and generators write both: a class with
variants is a union of references. What comes out here takes every object that the given schema takes; it is never
tighter, and what it can't say is said in the description or left open.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from proxy.canonical.tools import Schema

UNION_WORDS = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})
_LEFT_TO_SHAPE = frozenset({*UNION_WORDS, "$ref", "type", "properties", "required"})
_DEFINITIONS = ("$defs", "definitions")
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema", "$id"})
_OPENNESS = frozenset({"additionalProperties", "unevaluatedProperties"})
_PATTERNS = "patternProperties"
_CONDITION = frozenset({"if", "then", "else"})  # mean nothing one without the other
_OBJECT = frozenset({"object"})

_MOST_NODES = 512  # schemas that are looked at to make one root; what lies behind is left open
_MOST_DEEP = 32  # references that lead to one another
_GROWTH = 4  # times the size of what was given; a definition that many variants combine could grow without end
_GROWTH_FREE = 1000  # nodes
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(slots=True)
class Root:
    """`merged`: a choice or a combination became one object. `lost`: it named what can't be found, or no object.
    `free`: it takes objects by their fields alone, so that the one object says all of it but what `merged` means."""

    schema: Schema
    merged: bool = False
    lost: bool = False
    free: bool = True


def as_object(schema: Schema) -> Root:
    """The root as one object schema that stands alone."""
    reading = _Reading(schema)
    shape = reading.shape(schema, ())
    merged = not UNION_WORDS.isdisjoint(reading.words)
    written = _written(shape, merged=merged)
    if _nodes(written, most := _GROWTH * _nodes(schema) + _GROWTH_FREE) > most:
        written["properties"] = {name: {} for name in shape.properties}
        reading.lost = True
    written |= {word: schema[word] for word in _DEFINITIONS if word in schema}
    if reading.words:
        written = _with_what_it_names(written, schema)
    possible = shape.kinds or _OBJECT
    free = possible == _OBJECT and not reading.lists
    return Root(written, merged, reading.lost or "object" not in possible, free)


@dataclass(slots=True)
class _Shape:
    """What a schema says of an object. `kinds`: JSON types that it takes, None where it does not say; `choices`: the
    sets of required fields of each choice that was merged in; `words`: all the rest."""

    words: Schema = field(default_factory=dict)
    properties: Schema = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    kinds: frozenset[str] | None = None
    choices: list[list[list[str]]] = field(default_factory=list)


class _Reading:
    """Reads a schema and what it names. A reference back to where it stands, and what lies behind too many nodes, is
    left open."""

    __slots__ = ("_document", "_left", "lists", "lost", "words")

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._left = _MOST_NODES
        self.lost = False
        self.lists = False  # it lists the values that it takes
        self.words: set[str] = set()  # the words that can't stand at the root, as met

    def shape(self, node: object, following: tuple[str, ...]) -> _Shape:
        """What the node says of an object; `following` are the references that led here."""
        self._left -= 1
        if not isinstance(node, dict) or self._left < 0:
            return _Shape()
        shape = _own(node)
        self.words |= _LEFT_TO_SHAPE & node.keys() - {"type", "properties", "required"}
        self.lists |= "enum" in node or "const" in node
        reference = node.get("$ref")
        if isinstance(reference, str):
            shape = _both(shape, self._named(reference, following))
        for branch in _branches(node, "allOf"):
            shape = _both(shape, self.shape(branch, following))
        for word in ("anyOf", "oneOf"):
            if variants := _branches(node, word):
                shape = _both(shape, _either([self.shape(variant, following) for variant in variants]))
        return shape

    def _named(self, reference: str, following: tuple[str, ...]) -> _Shape:
        if reference in following or len(following) == _MOST_DEEP:
            return _Shape()
        found = resolve(self._document, reference)
        if found is None or found is self._document:
            self.lost = True
            return _Shape()
        return self.shape(found, (*following, reference))


def resolve(document: Schema, reference: str) -> object | None:
    """The schema that a reference within the document names; None when there is none."""
    node: object = document
    if reference == "#":
        return node
    if not reference.startswith("#/"):
        return None
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node if isinstance(node, dict | bool) else None


# --- shapes ---


def _own(node: Schema) -> _Shape:
    properties, required = node.get("properties"), node.get("required")
    return _Shape(
        {word: value for word, value in node.items() if word not in _LEFT_TO_SHAPE and word not in _DEFINITIONS},
        dict(properties) if isinstance(properties, dict) else {},
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else [],
        _kinds(node),
    )


def _kinds(node: Schema) -> frozenset[str] | None:
    kind = node.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(name for name in kind if isinstance(name, str))
    values = node["enum"] if isinstance(node.get("enum"), list) else [node["const"]] if "const" in node else []
    if not isinstance(values, list) or not values:
        return None
    return frozenset("object" if isinstance(value, dict) else "value" for value in values)


def _branches(node: Schema, word: str) -> list[object]:
    found = node.get(word)
    return found if isinstance(found, list) else []


def _both(first: _Shape, second: _Shape) -> _Shape:
    """What is said by two schemas that hold at once. Of two words that can't be joined the first stays."""
    words = dict(first.words)
    conditional = not _CONDITION.isdisjoint(words)
    for word, value in second.words.items():
        known = words.get(word)
        if word in _OPENNESS and known is not None:
            words[word] = False if known is False or value is False else _all_of(known, value)
        elif word == _PATTERNS and isinstance(known, dict) and isinstance(value, dict):
            words[word] = _joined(known, value)
        elif not (word in _CONDITION and conditional):
            words.setdefault(word, value)
    kinds = first.kinds if second.kinds is None else second.kinds
    if first.kinds is not None and second.kinds is not None:
        kinds = first.kinds & second.kinds
    required = [*first.required, *(name for name in second.required if name not in first.required)]
    properties = _joined(first.properties, second.properties)
    return _Shape(words, properties, required, kinds, first.choices + second.choices)


def _joined(first: Schema, second: Schema) -> Schema:
    """Two maps of schemas as one; of what both have, both hold."""
    return {
        **first,
        **{name: _all_of(first[name], value) if name in first else value for name, value in second.items()},
    }


def _all_of(first: object, second: object) -> object:
    if first == second or second in (True, {}):
        return first
    if first in (True, {}):
        return second
    return {"allOf": [*_parts(first, "allOf"), *_parts(second, "allOf")]}


def _parts(value: object, word: str) -> list[object]:
    """The schemas that are joined by the word already, or the schema itself."""
    if isinstance(value, dict) and value.keys() == {word} and isinstance(value[word], list):
        return list(value[word])
    return [value]


def _either(shapes: list[_Shape]) -> _Shape:
    """What is said by a choice among schemas: the fields of all, and of the rest only what all of them say."""
    kinds = frozenset().union(*(shape.kinds or _OBJECT for shape in shapes))
    objects = [shape for shape in shapes if "object" in (shape.kinds or _OBJECT)]
    if not objects:
        return _Shape(kinds=kinds)
    given: dict[str, list[object]] = {}
    for shape in objects:
        for name, value in shape.properties.items():
            known = given.setdefault(name, [])
            known += [part for part in _parts(value, "anyOf") if part not in known]
    first, *rest = objects
    words = {
        word: value
        for word, value in first.words.items()
        if word not in _ANNOTATIONS and all(word in shape.words and shape.words[word] == value for shape in rest)
    }
    if not words.keys() >= _CONDITION & first.words.keys():
        words = {word: value for word, value in words.items() if word not in _CONDITION}
    if _PATTERNS not in words and any(_PATTERNS in shape.words for shape in objects):
        # Closed but for patterns, and the patterns are gone: open.
        words = {word: value for word, value in words.items() if word not in _OPENNESS}
    sets: list[list[str]] = []
    for shape in objects:
        for fields in shape.choices[0] if len(shape.choices) == 1 else [[]]:
            whole = [*shape.required, *(name for name in fields if name not in shape.required)]
            if whole not in sets:
                sets.append(whole)
    return _Shape(
        words,
        {name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in given.items()},
        [name for name in first.required if all(name in shape.required for shape in rest)],
        kinds,
        [sets] if len(sets) > 1 else [],
    )


def _written(shape: _Shape, *, merged: bool) -> Schema:
    written: Schema = {"type": "object", **shape.words}
    lines = [
        "Give one of these sets of fields: " + " or ".join("{" + ", ".join(fields) + "}" for fields in sets) + "."
        for sets in shape.choices
    ]
    if lines:
        described = written.get("description")
        written["description"] = "\n".join([described, *lines] if isinstance(described, str) and described else lines)
    if shape.properties or merged:
        written["properties"] = shape.properties
    if shape.required:
        written["required"] = shape.required
    return written


def _nodes(schema: object, most: int | None = None) -> int:
    """How many objects and lists the schema has when written, counted no further than past `most`."""
    count, waiting = 0, [schema]
    while waiting and (most is None or count <= most):
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
        else:
            continue
        count += 1
    return count


# --- references into what was merged ---


def _with_what_it_names(written: Schema, given: Schema) -> Schema:
    """The schema with what its references name among its definitions, where that stood in a part that is gone.

    Generators that write each type once refer to the place where it first stood.
    """
    named: dict[str, str] = {}
    names: dict[int, str] = {}  # of what has moved, however it is spelled
    found = written.get("$defs")
    definitions: Schema = dict(found) if isinstance(found, dict) else {}
    waiting = list(_references(written))
    while waiting:
        reference = waiting.pop()
        if reference in named or resolve(written, reference) is not None:
            continue
        target = resolve(given, reference)
        if target is None:
            continue
        name = names.get(id(target))
        if name is None:
            name = _UNSAFE_NAME.sub("_", reference).strip("_")
            while name in definitions:
                name += "_"
            names[id(target)] = name
            definitions[name] = target
            waiting += _references(target)
        named[reference] = name
    if not named:
        return written
    renamed = _renamed({**written, "$defs": definitions}, {old: f"#/$defs/{new}" for old, new in named.items()})
    return renamed if isinstance(renamed, dict) else written


def _references(node: object) -> Iterator[str]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(reference := node.get("$ref"), str):
                yield reference
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _renamed(node: object, names: dict[str, str]) -> object:
    if isinstance(node, dict):
        return {
            key: names.get(value, value) if key == "$ref" and isinstance(value, str) else _renamed(value, names)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_renamed(entry, names) for entry in node]
    return node
