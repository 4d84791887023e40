"""A conversation as the generative AI conventions write it (`gen_ai.input.messages` and its like, operations.md 3.1).

Only where a policy lets content be recorded. Even then no bytes of images and files, nothing signed or encrypted, and
nothing beyond a bound: long texts are cut, and of a long conversation the last messages are kept.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import assert_never
from urllib.parse import urlsplit, urlunsplit

from proxy.canonical.parts import (
    Audio,
    Call,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
    SearchResult,
    Source,
    Text,
)
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, TypedTool
from proxy.telemetry.semconv import FINISH

Json = dict[str, object]

_LONGEST_TEXT = 16 * 1024  # characters of one part
_MOST = 64 * 1024  # characters of one attribute
_MOST_MESSAGES = 200  # of a conversation, the last ones
_DEEPEST = 12  # levels of arguments that are shown as structures; deeper ones are shown as text


def system_instructions(request: Request) -> list[Json]:
    """What stands before the conversation."""
    return [_text(part.text) for instruction in request.instructions for part in instruction.parts]


def input_messages(request: Request) -> list[Json]:
    """The end of the history. Results of tools are messages of their own."""
    messages: list[Json] = []
    for turn in request.turns[-_MOST_MESSAGES:]:
        for is_result, run in groupby(turn.parts, lambda part: isinstance(part, Result)):
            role = "tool" if is_result else "system" if turn.role == "developer" else turn.role
            parts = [written for part in run if (written := _part(part)) is not None]
            messages.append({"role": role, "parts": parts})
    return messages


def output_messages(reply: Reply) -> list[Json]:
    """What the model said."""
    parts = [written for part in reply.parts if (written := _part(part)) is not None]
    return [{"role": "assistant", "parts": parts, "finish_reason": FINISH[reply.stop.kind]}]


def tool_definitions(tools: Sequence[Tool]) -> list[Json]:
    """The tools that were declared."""
    return [_tool(tool) for tool in tools]


def written(values: list[Json]) -> str:
    """As the JSON text of an attribute: the last of them, as many as there is room for."""
    texts: list[str] = []
    room = _MOST
    for value in reversed(values):
        text = _json(value)
        if (room := room - len(text) - 1) < 0:
            break
        texts.append(text)
    return f"[{','.join(reversed(texts))}]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()


def _part(part: Part) -> Json | None:
    """None: there is nothing to show of it."""
    match part:
        case Text() | Refusal():
            return _text(part.text)
        case Reasoning():
            return {"type": "reasoning", "content": part.text[:_LONGEST_TEXT]} if part.text else None
        case Call():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": _arguments(part)}
        case Result():
            response = [written for each in part.parts if (written := _part(each)) is not None]
            return {"type": "tool_call_response", "id": part.call_id, "response": response}
        case Image():
            return _source(part.source, "image")
        case Document():
            return _text("") if part.source is None else _source(part.source, "document")
        case Audio():
            return _blob("audio", f"audio/{part.format}")
        case SearchResult():
            return _text("\n".join(text.text for text in part.content))
        case HostedCall():
            kind = "server_tool_call_response" if part.is_result else "server_tool_call"
            return {"type": kind, "id": part.id or None, "name": part.tool, kind: {"type": part.tool}}
        case Opaque():
            return {"type": "compaction" if "compaction" in part.type else part.type}
        case _:
            assert_never(part)


def _text(text: str) -> Json:
    return {"type": "text", "content": text[:_LONGEST_TEXT]}


def _arguments(call: Call) -> object:
    text = call.arguments if call.input is None else _json(call.input)
    if len(text) > _LONGEST_TEXT or call.kind == "custom":
        return text[:_LONGEST_TEXT]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if _fits(value, _DEEPEST) else text


def _fits(value: object, levels: int) -> bool:
    """Whether a collector takes it as a structure: what nests deeper, or holds longer integers, can't be encoded, nor
    can anything that is sent beside it."""
    match value:
        case int():
            return abs(value) < 2**63
        case dict():
            return levels > 0 and all(_fits(each, levels - 1) for each in value.values())
        case list():
            return levels > 0 and all(_fits(each, levels - 1) for each in value)
        case _:
            return True


def _source(source: Source, modality: str) -> Json:
    match source.kind:
        case "url":
            return {"type": "uri", "modality": modality, "mime_type": source.media_type, "uri": _address(source.data)}
        case "file":
            return {"type": "file", "modality": modality, "mime_type": source.media_type, "file_id": source.data}
        case "text":
            return _text(source.data)
        case "base64":
            return _blob(modality, source.media_type)
        case _:
            assert_never(source.kind)


def _address(url: str) -> str:
    """Without what gives access: a user's password, a signed query."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:_LONGEST_TEXT]
    except ValueError:
        return ""


def _blob(modality: str, media_type: str | None) -> Json:
    return {"type": "blob", "modality": modality, "mime_type": media_type, "content": ""}


def _tool(tool: Tool) -> Json:
    match tool:
        case FunctionTool():
            schema = tool.schema if _fits(tool.schema, _DEEPEST) and len(_json(tool.schema)) <= _LONGEST_TEXT else {}
            about = tool.description and tool.description[:_LONGEST_TEXT]
            return {"type": "function", "name": tool.name, "description": about, "parameters": schema}
        case CustomTool():
            return {"type": "custom", "name": tool.name}
        case TypedTool() | HostedTool():
            return {"type": tool.kind, "name": tool.name}
        case _:
            assert_never(tool)
