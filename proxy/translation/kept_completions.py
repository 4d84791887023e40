"""Chat completions that a server keeps (chat_completions.md 11): what is shown of one, and of its messages."""

import re
from collections.abc import Mapping

from proxy.canonical.jsontext import Fragment, NotJson, dumps, loads
from proxy.protocols.fields import Wire, is_object

_DATA = re.compile(rb"^data:\s*(\{.*\})\s*?$", re.MULTILINE)
# Fields of a choice's delta that grow; all others are told once.
_GROWING = frozenset({"content", "refusal", "reasoning_content", "reasoning"})


def write_completion(completion: bytes, messages: object, metadata: object) -> bytes:
    """A completion as it is kept, with what was asked. `completion` is JSON."""
    kept = metadata if is_object(metadata) else {}
    return dumps({"completion": Fragment(completion), "messages": messages, "metadata": kept})


def shown_completion(value: bytes) -> Wire:
    """A kept completion, as it is read."""
    wire = _object(value)
    completion = wire.get("completion")
    return {**(completion if is_object(completion) else {}), "metadata": wire.get("metadata")}


def with_metadata(value: bytes, metadata: Mapping[str, object] | None) -> bytes:
    """The same with other metadata."""
    return dumps({**_object(value), "metadata": metadata or {}})


def shown_messages(value: bytes, completion_id: str) -> list[Wire]:
    """The messages of the request, as lists show them."""
    messages = _object(value).get("messages")
    return [
        _shown_message(message, f"{completion_id}-{at}")
        for at, message in enumerate(messages if isinstance(messages, list) else [])
        if is_object(message)
    ]


def _shown_message(message: Wire, message_id: str) -> Wire:
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "id": message_id, "content_parts": None}
    texts = [part.get("text") for part in content if is_object(part) and part.get("type") == "text"]
    parts = [part for part in content if is_object(part) and part.get("type") in ("text", "image_url")]
    return {**message, "id": message_id, "content": "".join(map(str, texts)), "content_parts": parts}


def streamed_completion(stream: bytes) -> bytes | None:
    """The completion that the chunks of a stream add up to; None where there were none."""
    whole: Wire = {}
    choices: dict[object, Wire] = {}
    for data in _DATA.findall(stream):
        chunk = _object(data)
        whole |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        told = chunk.get("choices")
        for choice in told if isinstance(told, list) else []:
            if is_object(choice):
                _grow(choices.setdefault(choice.get("index"), {"message": {}}), choice)
    if not choices:
        return None
    return dumps({**whole, "object": "chat.completion", "choices": list(choices.values())})


def _grow(choice: Wire, told: Wire) -> None:
    choice |= {name: value for name, value in told.items() if name not in ("delta", "logprobs") and value is not None}
    message, delta = choice["message"], told.get("delta")
    if not is_object(message) or not is_object(delta):
        return
    for name, value in delta.items():
        if name == "tool_calls" and isinstance(value, list):
            _grow_calls(message, value)
        elif name in _GROWING and isinstance(value, str):
            message[name] = f"{message.get(name) or ''}{value}"
        elif name not in message or value is not None:
            message[name] = value


def _grow_calls(message: Wire, told: list[object]) -> None:
    calls = message.setdefault("tool_calls", [])
    for fragment in told:
        if not is_object(fragment) or not isinstance(calls, list):
            continue
        index = fragment.get("index")
        at = index if type(index) is int and 0 <= index < len(calls) else None
        if at is None:
            rest = {name: value for name, value in fragment.items() if name != "index"}
            calls.append({**rest, "function": dict(_member(fragment, "function"))})
            continue
        function, more = _member(calls[at], "function"), _member(fragment, "function")
        function["arguments"] = f"{function.get('arguments') or ''}{more.get('arguments') or ''}"


def _member(value: object, name: str) -> Wire:
    member = value.get(name) if is_object(value) else None
    return member if is_object(member) else {}


def _object(text: bytes) -> Wire:
    try:
        wire = loads(text)
    except NotJson:
        return {}
    return wire if is_object(wire) else {}
