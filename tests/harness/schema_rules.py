"""Which JSON Schemas the vendors enforce: OpenAI in strict mode, Anthropic as an output format."""

from tests.harness.request_types import need
from tests.harness.wire import Json


def check_strict(schema: Json, where: str) -> None:
    """OpenAI's strict mode: every object is closed and needs all its properties, nothing is left to logic."""
    if not isinstance(schema, dict):
        return
    for word in ("allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired"):
        need(word not in schema, where, f"{word} in a strict schema")
    properties = schema.get("properties", {})
    if properties or schema.get("type") == "object":
        need(schema.get("additionalProperties") is False, where, "a strict object must be closed")
        need(set(schema.get("required", ())) == set(properties), where, "a strict object needs all its properties")
    inner = [schema.get("items"), *properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    for index, child in enumerate(inner):
        check_strict(child, f"{where}.{index}")


def check_closed(schema: Json, where: str) -> None:
    """Anthropic's output format: objects are closed, and values are not bounded."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        need(schema.get("additionalProperties") is False, where, "additionalProperties must be false")
    for word in ("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        need(word not in schema, where, f"{word} is not supported")
    properties = schema.get("properties", {})
    for child in [
        schema.get("items"),
        *properties.values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", ()),
    ]:
        check_closed(child, where)
