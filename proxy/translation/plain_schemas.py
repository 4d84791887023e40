"""Schemas for servers that know only a part of JSON Schema, such as Gemini's (mapping.md 5.1, 17.2).

A cleaned copy goes out: keywords that such a server refuses are left out, and what they said goes into the description
where words can say it.
"""

from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.canonical.tools import FunctionTool, Schema
from proxy.protocols.fields import is_object

_REFUSED = frozenset({"$schema", "$id", "additionalProperties"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS = frozenset({"properties", "$defs", "definitions"})
_SINGLE = frozenset({"items", "not"})
_WORDS = frozenset({"title", "description", "default", "nullable"})
_NUMBERS = ("number", "integer")
# What is said of values of one type only.
_OF_TYPE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), ("array",)),
    **dict.fromkeys(("properties", "required", "minProperties", "maxProperties"), ("object",)),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), ("string",)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBERS),
}


def fit_schemas(request: Request, target: Target, losses: LossReport) -> None:
    """Make all schemas plain ones if the server needs that, in place."""
    if not target.dialect.plain_schemas:
        return
    for tool in request.tools:
        if not isinstance(tool, FunctionTool):
            continue
        if tool.strict is True:
            losses.approx(Rule.STRICT_OFF, tool.at)
        tool.strict = None
        if tool.schema is not None and (cleaned := plain(tool.schema)) != tool.schema:
            losses.approx(Rule.PARAMETERS, tool.at)
            tool.schema = cleaned
    form = request.output.format
    if form is not None and form.schema is not None and (cleaned := plain(form.schema)) != form.schema:
        losses.approx(Rule.RESPONSE_FORMAT, form.at)
        form.schema = cleaned


def plain(schema: Schema) -> Schema:
    """The schema without what such a server refuses; the given one stays as it is."""
    cleaned: Schema = {}
    for name, value in schema.items():
        if name in _REFUSED:
            continue
        if name in _MAPS and is_object(value):
            cleaned[name] = {key: _inner(inner) for key, inner in value.items()}
        elif name in _LISTS and isinstance(value, list):
            cleaned[name] = [_inner(inner) for inner in value]
        elif name in _SINGLE:
            cleaned[name] = _inner(value)
        else:
            cleaned[name] = value
    _name_null(cleaned)
    _name_types(cleaned)
    _say_numbers(cleaned)
    return cleaned


def _inner(value: object) -> object:
    return plain(value) if is_object(value) else value


def _name_null(schema: Schema) -> None:
    """`["string", "null"]` is a string that may be null, and so is a choice between a string and null."""
    types, values, branches = schema.get("type"), schema.get("enum"), schema.get("anyOf")
    if isinstance(types, list) and "null" in types and len(types) > 1:
        schema["type"] = [name for name in types if name != "null"]
        schema["nullable"] = True
    if isinstance(values, list) and None in values and len(values) > 1:
        schema["enum"] = [value for value in values if value is not None]
        schema["nullable"] = True
    if isinstance(branches, list):
        others = [branch for branch in branches if not (is_object(branch) and branch.get("type") == "null")]
        if not 0 < len(others) < len(branches):
            return
        schema["nullable"] = True
        schema["anyOf"] = others
        if len(others) == 1 and is_object(others[0]) and "$ref" not in others[0]:
            _take_in(schema, others[0])


def _take_in(schema: Schema, branch: Schema) -> None:
    """What the only branch says, said by the schema itself, unless it says it already."""
    if branch.keys() & schema.keys() - _WORDS:
        return
    del schema["anyOf"]
    for name, value in branch.items():
        schema.setdefault(name, value)


def _name_types(schema: Schema) -> None:
    """A schema has one type; several are a choice, in which each says what is said of values of its type."""
    types = schema.get("type")
    if not isinstance(types, list):
        return
    del schema["type"]
    if len(types) == 1:
        schema["type"] = types[0]
    elif "anyOf" not in schema:
        own = {name: _OF_TYPE[name] for name in schema if name in _OF_TYPE}
        said = {name: schema.pop(name) for name in own}
        schema["anyOf"] = [
            {"type": kind, **{name: value for name, value in said.items() if kind in own[name]}} for kind in types
        ]


def _say_numbers(schema: Schema) -> None:
    """Only texts can be listed; other values are listed in words."""
    values = schema.get("enum")
    if not isinstance(values, list) or all(isinstance(value, str) for value in values):
        return
    del schema["enum"]
    said = f"One of {dumps(values).decode()}."
    described = schema.get("description")
    schema["description"] = f"{described} {said}" if isinstance(described, str) and described else said
