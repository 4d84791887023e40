"""Reasoning that a backend wants back travels with the client, in its protocol's own opaque slot (mapping.md 8.6).

What an envelope holds, and where each client keeps such things. Who seals is `carrying.py`; how it comes back is in
`returning.py`.
"""

import hashlib

from proxy.canonical.parts import Call, Extra, Part, Reasoning, Refusal, Text
from proxy.protocols.fields import Wire, is_object
from proxy.translation.codecs import CALL_SIGNATURE, ClientProtocol
from proxy.translation.position import Spot
from proxy.translation.recall import DETAILS

FORMAT = "dragoman-v1"
ANTHROPIC_FORMAT = "anthropic-claude-v1"
GEMINI_SIG = "gemini_sig"  # kind of carriers

_APART = "\n\n"  # between texts that are shown as one
_VERBATIM = 64  # characters of visible text that are not worth a hash


def reasoning_content(native: Extra | None, text: str, shown: str, field: str | None, model: str) -> Wire | None:
    """What an envelope is to hold of reasoning; None when there is nothing to bring back.

    `native` is the vendor's block, `text` what it says, `shown` what the client sees of that, all or nothing; `field`
    is the Chat field it came under.
    """
    content: Wire = {"m": model}
    if field == CALL_SIGNATURE:
        return {**content, "k": [GEMINI_SIG], "v": [native]}
    if native is not None:
        hidden = _without_shown(native, shown)
        content |= {"k": ["reasoning"], "v": [hidden]}
        if hidden is native and shown:
            content["s"] = _hash(shown)
    elif text and field is not None:
        content["k"] = ["plain"]
        if not shown:
            content["t"] = text
    else:
        return None
    if field is not None:
        content["c"] = field
    return content


def place_of(spot: Spot) -> Wire:
    """How an envelope says what came before it in a Chat answer."""
    content: Wire = {}
    if spot.text:
        content["p"] = spot.text
    if spot.calls:
        content["n"] = spot.calls
    return content


def follower(part: Part) -> list[str]:
    """How an envelope names what reasoning led to."""
    match part:
        case Text() | Refusal():
            return ["text"]
        case Call():
            return ["call", part.id]
        case Reasoning():
            return ["reasoning"]
        case _:
            return ["other"]


def in_slot(
    envelope: str, native: Extra | None, shown: str, client: ClientProtocol, *, hidden: bool = False
) -> Extra | None:
    """The client protocol's own block around an envelope; None where it has no such block.

    `hidden`: there is text, which the client does not see.
    """
    match client:
        case "messages":
            if shown or hidden:
                return {"type": "thinking", "thinking": shown, "signature": envelope}
            return {"type": "redacted_thinking", "data": envelope}
        case "responses":
            return {"type": "reasoning", "encrypted_content": envelope}
        case "chat":
            return {"type": DETAILS, "entries": _entries(native, shown, envelope)}
        case "completions":
            return None


def _entries(native: Extra | None, shown: str, envelope: str) -> list[Wire]:
    """Chat's two entries of one block: the text, with the signature that clients already know, and the envelope."""
    entries: list[Wire] = []
    if shown:
        entry: Wire = {"type": "reasoning.text", "text": shown}
        if native is not None and native.get("type") == "thinking" and native.get("signature"):
            entry |= {"signature": native["signature"], "format": ANTHROPIC_FORMAT}
        entries.append(entry)
    entries.append({"type": "reasoning.encrypted", "data": envelope, "format": FORMAT, "id": f"drg_{_hash(envelope)}"})
    return entries


def _texts(native: Extra) -> list[tuple[Wire, str]]:
    """The visible texts of a vendor block: (holder, field) in the order in which they are shown."""
    if type(native.get("thinking")) is str:
        return [(native, "thinking")] if native["thinking"] else []
    for name in ("summary", "content"):
        parts = native.get(name)
        if isinstance(parts, list) and parts:
            return [(part, "text") for part in parts if is_object(part) and type(part.get("text")) is str]
    for name in ("text", "summary"):
        if type(native.get(name)) is str and native[name]:
            return [(native, name)]
    return []


def _without_shown(native: Extra, shown: str) -> Wire:
    """The block with the text that the client holds anyway replaced by its length and hash."""
    texts = [str(holder[name]) for holder, name in _texts(native)]
    if len(shown) <= _VERBATIM or _APART.join(texts) != shown:
        return native
    copied = _copied(native)
    for holder, name in _texts(copied):
        text = str(holder[name])
        holder[name] = {"n": len(text), "h": _hash(text)}
    return copied


def with_shown(item: Wire, shown: str, hashed: object) -> bool:
    """Put the visible text back in place; False when the client has changed it.

    `hashed`: of the text that was shown, where the item still has its own. A client may have let go of that one.
    """
    hidden = _hidden(item)
    if not hidden:
        return hashed is None or not shown or _hash(shown) == hashed
    at = 0
    for holder, name in hidden:
        mark = holder[name]
        size = mark.get("n") if is_object(mark) else None
        if type(size) is not int or not is_object(mark):
            return False
        text = shown[at : at + size]
        if _hash(text) != mark.get("h"):
            return False
        holder[name] = text
        at += size + len(_APART)
    return at - len(_APART) == len(shown)


def _hidden(item: Wire) -> list[tuple[Wire, str]]:
    found: list[tuple[Wire, str]] = []
    found += [(item, name) for name in ("thinking", "text", "summary") if is_object(item.get(name))]
    for name in ("summary", "content"):
        parts = item.get(name)
        if isinstance(parts, list):
            found += [(part, "text") for part in parts if is_object(part) and is_object(part.get("text"))]
    return found


def _copied(native: Extra) -> Wire:
    return {
        name: [dict(part) if is_object(part) else part for part in value] if isinstance(value, list) else value
        for name, value in native.items()
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
