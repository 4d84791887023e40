"""JSON schemas made acceptable to a backend without changing what they accept (mapping.md 5.1, 9).

A schema is never tightened: what can't be expressed turns enforcement off and is recorded, since a model that must fill
fields which the client made optional would invent values.
"""

from typing import Literal

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.tools import Schema
from proxy.translation.reduction import fits_unchanged

Vendor = Literal["openai", "anthropic"]

EMPTY: Schema = {"type": "object", "properties": {}}
_ROOT_WORDS = ("anyOf", "oneOf", "allOf", "enum", "not")
_NOT_PLAIN = frozenset({*_ROOT_WORDS, "$ref"})


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
    if schema.get("type") == "object" and _NOT_PLAIN.isdisjoint(schema):
        return schema
    root = inlined(schema)
    if any(word in root for word in _ROOT_WORDS):
        losses.approx(Rule.ROOT_UNION, path)
        root = _without_union(root)
    if root.get("type") == "object":
        return root
    return {**root, "type": "object"} if "type" in root else {"type": "object", **root}


def inlined(schema: Schema) -> Schema:
    """The root with its own `$ref` replaced by what it names; inner references stay as they are."""
    root = schema
    for _ in range(8):  # a chain of references; longer ones are a client's mistake
        reference = root.get("$ref")
        if not isinstance(reference, str):
            break
        found = _resolve(schema, reference)
        rest = {key: value for key, value in root.items() if key != "$ref"}
        root = {**rest, **found, **{key: rest[key] for key in ("$defs", "definitions") if key in rest}}
        if found is EMPTY:
            break
    return root


def _resolve(schema: Schema, reference: str) -> Schema:
    node: object = schema
    if not reference.startswith("#"):
        return EMPTY
    for step in reference.removeprefix("#").strip("/").split("/"):
        if not step:
            continue
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            return EMPTY
        node = node[name]
    return node if isinstance(node, dict) else EMPTY


def _without_union(root: Schema) -> Schema:
    """One object schema for a root that is several: any input that one of them takes is taken."""
    merged: Schema = {key: value for key, value in root.items() if key not in _ROOT_WORDS}
    properties = _properties(root)
    required = _required(root)
    for branch in _branches(root, "allOf"):
        properties |= _properties(branch)
        required += [name for name in _required(branch) if name not in required]
        for key, value in branch.items():
            merged.setdefault(key, value)
    variants = [*_branches(root, "anyOf"), *_branches(root, "oneOf")]
    if variants:
        common = set(_required(variants[0]))
        for variant in variants:
            for name, value in _properties(variant).items():
                known = properties.get(name)
                properties[name] = value if known is None or known == value else {"anyOf": [known, value]}
            common &= set(_required(variant))
        required += [name for name in _required(variants[0]) if name in common and name not in required]
        merged["description"] = _with_variants(root.get("description"), variants)
    merged["type"] = "object"
    merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def _branches(schema: Schema, word: str) -> list[Schema]:
    found = schema.get(word)
    if not isinstance(found, list):
        return []
    return [branch for branch in found if isinstance(branch, dict)]


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return dict(found) if isinstance(found, dict) else {}


def _required(schema: Schema) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _with_variants(description: object, variants: list[Schema]) -> str:
    sets = " or ".join("{" + ", ".join(_required(variant)) + "}" for variant in variants)
    line = f"Give one of these sets of fields: {sets}."
    return f"{description}\n{line}" if isinstance(description, str) and description else line


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
    return _is_strict(schema, 0)


_CHILDREN = ("items", "additionalItems")
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf")
_NOT_STRICT = frozenset({"oneOf", "not", "if", "then", "else", "patternProperties", "dependentSchemas"})


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
    for word in _LISTS:
        group = node.get(word)
        if isinstance(group, list):
            children += group
    return all(_is_strict(child, depth + 1) for child in children)
