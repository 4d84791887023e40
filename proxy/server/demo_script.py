"""What the demo backend says: a Messages request in, the content of a Messages reply out.

It calls a tool whenever it is given some and the last turn has no result yet, so that a visitor sees a whole tool
round trip without a key. Pure: the ids and the pace are the backend's, in `demo.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

Json = Mapping[str, object]

INTRODUCTION = "This is Dragoman's demo backend, a script and not a model."

_QUOTE_LIMIT = 400  # characters
_DEPTH_LIMIT = 8  # of invented arguments: a schema may refer to itself
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The words of the text, each with the space before it, then perhaps a call."""

    words: tuple[str, ...]
    call: Call | None
    stop_reason: Literal["end_turn", "max_tokens", "tool_use"]
    input_tokens: int
    output_tokens: int


def answer(request: Json) -> Answer:
    """The scripted answer, cut at `max_tokens` words."""
    text, call = _script(request)
    words = tuple(f" {word}" if index else word for index, word in enumerate(text.split(" ")))
    limit = request.get("max_tokens")
    input_tokens = count_tokens(request)
    if isinstance(limit, int) and limit < len(words):
        return Answer(words[:limit], None, "max_tokens", input_tokens, limit)
    output_tokens = len(words) + (len(call.arguments) // _CHARACTERS_PER_TOKEN + 8 if call else 0)
    return Answer(words, call, "tool_use" if call else "end_turn", input_tokens, output_tokens)


def count_tokens(request: Json) -> int:
    """An estimate, as the vendor's is, from everything that shapes the prompt."""
    prompt = [request.get(name) for name in ("system", "messages", "tools")]
    return 8 + len(orjson.dumps(prompt)) // _CHARACTERS_PER_TOKEN


def _script(request: Json) -> tuple[str, Call | None]:
    blocks = _last_blocks(request)
    results = [_text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    if results:
        return f"{INTRODUCTION} The tool answered: {_quote(' / '.join(results))}", None
    if tool := _chosen_tool(request):
        name = str(tool["name"])
        arguments = orjson.dumps(invent(tool.get("input_schema"), "demo")).decode()
        return f"{INTRODUCTION} It calls {name} with made-up arguments.", Call(name, arguments)
    if schema := _wanted_schema(request):
        return orjson.dumps(invent(schema, INTRODUCTION)).decode(), None
    said = _text_of(blocks)
    return f"{INTRODUCTION} You said: {_quote(said)}" if said else INTRODUCTION, None


def _last_blocks(request: Json) -> list[Json]:
    messages = request.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str))


def _quote(text: str) -> str:
    return f'"{text[:_QUOTE_LIMIT]}{"…" if len(text) > _QUOTE_LIMIT else ""}"'


def _chosen_tool(request: Json) -> Json | None:
    """The tool that the choice names, else the first that the client runs itself."""
    choice = request.get("tool_choice")
    choice = choice if isinstance(choice, dict) else {}
    if choice.get("type") == "none":
        return None
    tools = request.get("tools")
    own = (
        [tool for tool in tools if isinstance(tool, dict) and "input_schema" in tool] if isinstance(tools, list) else []
    )
    named = [tool for tool in own if tool.get("name") == choice.get("name")]
    return next(iter(named or own), None)


def _wanted_schema(request: Json) -> Json | None:
    config = request.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else None
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    return schema if isinstance(schema, dict) else None


def invent(schema: object, text: str, root: object = None, depth: int = 0) -> object:
    """A value that fits a JSON schema: the first of what it lists, `text` for a string, 1 for a number."""
    if not isinstance(schema, dict) or depth > _DEPTH_LIMIT:
        return {} if depth == 0 else None
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        return invent(_resolve(reference, root), text, root, depth + 1)
    for listed in ("enum", "examples"):
        if isinstance(values := schema.get(listed), list) and values:
            return values[0]
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    for alternatives in ("anyOf", "oneOf", "allOf"):
        if isinstance(schemas := schema.get(alternatives), list) and schemas:
            return invent(schemas[0], text, root, depth + 1)
    return _invent_by_type(schema, text, root, depth)


def _invent_by_type(schema: Json, text: str, root: object, depth: int) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    match kind:
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            count = schema.get("minItems")
            item = invent(schema.get("items"), text, root, depth + 1)
            return [item] * (count if isinstance(count, int) else 1)
        case "null":
            return None
        case _:
            properties, required = schema.get("properties"), schema.get("required")
            known = properties if isinstance(properties, dict) else {}
            wanted = required if isinstance(required, list) else []
            return {name: invent(known.get(name), text, root, depth + 1) for name in wanted}


def _resolve(reference: str, root: object) -> object:
    """`#/$defs/name` within the schema; nothing else is looked up."""
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found
