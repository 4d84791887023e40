"""The configuration's form as a JSON Schema, for editors: from the same models that read it.

What only shows when entries are seen together is beyond it; `dragoman check` says that.
"""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from proxy.settings.schema import SettingsFile

_REFERENCE = {
    "type": "string",
    "pattern": r"\$\$|\$\{[^}]+\}",
    "description": "Filled in: ${NAME}, ${NAME:-default} or ${file:/path}; $$ is a dollar sign.",
}
_TO_REFERENCE = {"$ref": "#/$defs/Reference"}
_SHORTEST_REFERENCE = len("${A}")
_SCALARS = {"integer", "number", "boolean", "string"}


def json_schema() -> dict[str, Any]:
    """The schema of a file, of JSON Schema 2020-12."""
    schema = SettingsFile.model_json_schema(schema_generator=_Generator)
    definitions = {name: _admit_references(inner) for name, inner in schema.pop("$defs").items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Dragoman",
        **_admit_references(schema),
        "$defs": {**definitions, "Reference": _REFERENCE},
    }


class _Generator(GenerateJsonSchema):
    """Without defaults that are not written as they are kept."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        written = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return {**written, "default": default} if isinstance(default, bool | int | str) else written


def _admit_references(schema: dict[str, Any]) -> dict[str, Any]:
    """The same with `${NAME}` admitted wherever a scalar is, and without titles, which only repeat names."""
    admitted = {key: _inside(key, value) for key, value in schema.items() if key != "title"}
    if "patternProperties" in admitted:
        admitted["additionalProperties"] = False
    if "anyOf" not in admitted:
        return _either(admitted) if _is_narrow(schema) else admitted
    if any(map(_is_narrow, schema["anyOf"])):
        branches = [inner if _is_narrow(inner) else _admit_references(inner) for inner in schema["anyOf"]]
        admitted["anyOf"] = [*branches, _TO_REFERENCE]
    return admitted


def _inside(key: str, value: Any) -> Any:
    match key, value:
        case "properties" | "patternProperties", dict():
            return {name: _admit_references(inner) for name, inner in value.items()}
        case "items" | "additionalProperties", dict():
            return _admit_references(value)
        case "anyOf", list():
            return [_admit_references(inner) for inner in value]
    return value


def _either(narrow: dict[str, Any]) -> dict[str, Any]:
    about = {key: value for key, value in narrow.items() if key in ("description", "default")}
    return {"anyOf": [{key: value for key, value in narrow.items() if key not in about}, _TO_REFERENCE], **about}


def _is_narrow(schema: dict[str, Any]) -> bool:
    """Whether it is about a scalar, and refuses some texts."""
    if "const" in schema or "enum" in schema:
        return True
    types = schema.get("type")
    types = {types} if isinstance(types, str) else set(types or ())
    if types == {"string"}:
        return "pattern" in schema or schema.get("minLength", 0) > _SHORTEST_REFERENCE
    return bool(types) and types <= _SCALARS
