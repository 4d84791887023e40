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
    _say_numbers(cleaned)
    return cleaned


def _inner(value: object) -> object:
    return plain(value) if is_object(value) else value


def _name_null(schema: Schema) -> None:
    """`["string", "null"]` is a string that may be null."""
    types = schema.get("type")
    if isinstance(types, list) and len(types) == 2 and "null" in types:
        schema["type"] = next((name for name in types if name != "null"), "null")
        schema["nullable"] = True


def _say_numbers(schema: Schema) -> None:
    """Only texts can be listed; other values are listed in words."""
    values = schema.get("enum")
    if not isinstance(values, list) or all(isinstance(value, str) for value in values):
        return
    del schema["enum"]
    said = f"One of {dumps(values).decode()}."
    described = schema.get("description")
    schema["description"] = f"{described} {said}" if isinstance(described, str) and described else said
