"""Threads of Messages that a server keeps (messages.md 13.4): the conversation up to a reply, under that reply's id."""

import re
from collections.abc import Iterable

from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, is_object

CREATE_ONLY = ("system", "tools")  # what a thread is made with; whoever goes on with it may not send them again
_DATA = re.compile(rb"^data:\s*(.*?)\r?$", re.MULTILINE)
_START = re.compile(rb'^data:\s*(\{\s*"type"\s*:\s*"message_start".*\})\r?$', re.MULTILINE)
# Deltas that make a field of their block grow.
_GROWING = {"text_delta": "text", "thinking_delta": "thinking"}


def write_thread(wire: Wire, reply: Iterable[object]) -> bytes:
    """A thread as it is kept: the whole request, and the blocks of the reply to it."""
    messages = wire.get("messages")
    given = messages if isinstance(messages, list) else []
    kept: Wire = {name: wire[name] for name in CREATE_ONLY if name in wire}
    return dumps({**kept, "messages": [*given, {"role": "assistant", "content": list(reply)}]})


def continued_thread(wire: Wire, kept: Wire) -> Wire:
    """The request that goes on with a thread, as one for the whole conversation."""
    before, own = kept.get("messages"), wire.get("messages")
    messages = [*(before if isinstance(before, list) else ()), *(own if isinstance(own, list) else ())]
    made_with: Wire = {name: kept[name] for name in CREATE_ONLY if name in kept}
    return {**made_with, **wire, "messages": messages}


def reply_blocks(body: bytes) -> list[object] | None:
    """The blocks of a whole reply."""
    wire = _object(body)
    content = wire.get("content") if wire is not None else None
    return content if isinstance(content, list) else None


def streamed_blocks(stream: bytes) -> list[object] | None:
    """The blocks of a stream that ended well; None where there is something in it that can't be put together."""
    blocks: dict[object, Wire] = {}
    arguments: dict[object, list[str]] = {}
    for data in _DATA.findall(stream):
        event = _object(data) or {}
        index = event.get("index")
        match event.get("type"):
            case "content_block_start" if is_object(block := event.get("content_block")):
                blocks[index] = dict(block)
            case "content_block_delta" if index in blocks and is_object(delta := event.get("delta")):
                if delta.get("type") == "input_json_delta":
                    arguments.setdefault(index, []).append(str(delta.get("partial_json", "")))
                elif not _grow(blocks[index], delta):
                    return None
            case "content_block_delta":
                return None
    for index, pieces in arguments.items():
        if text := "".join(pieces):
            try:
                blocks[index]["input"] = loads(text)
            except NotJson:
                return None
    return list(blocks.values())


def _grow(block: Wire, delta: Wire) -> bool:
    kind = str(delta.get("type"))
    if (name := _GROWING.get(kind)) is not None:
        block[name] = f"{block.get(name) or ''}{delta.get(name) or ''}"
    elif kind == "signature_delta":
        block["signature"] = delta.get("signature")
    elif kind == "citations_delta":
        known = block.get("citations")
        block["citations"] = [*(known if isinstance(known, list) else ()), delta.get("citation")]
    elif kind == "compaction_delta":
        block |= {name: value for name, value in delta.items() if name != "type"}
    else:
        return False
    return True


def with_message_id(out: bytes, message_id: str) -> bytes:
    """Whole events of a stream, of which the first names the message by this id."""

    def renamed(event: re.Match[bytes]) -> bytes:
        wire = _object(event[1])
        message = wire.get("message") if wire is not None else None
        if wire is None or not is_object(message):
            return event[0]
        return b"data: " + dumps({**wire, "message": {**message, "id": message_id}})

    return _START.sub(renamed, out, count=1)


def reply_with_id(body: bytes, message_id: str) -> bytes:
    """A whole reply under this id."""
    wire = _object(body)
    return body if wire is None else dumps({**wire, "id": message_id})


def _object(text: bytes) -> Wire | None:
    try:
        wire = loads(text)
    except NotJson:
        return None
    return wire if is_object(wire) else None
