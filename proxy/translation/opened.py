"""What an envelope held, once it is open (mapping.md 8.6).

Without a key anyone can write an envelope, so what comes out of one is a client's word: it is parsed as strictly as
the visible request, and what has not the form that a vendor gives such things is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from proxy.protocols.fields import Wire, is_object
from proxy.translation.carriers import GEMINI_SIG
from proxy.translation.codecs import BACKENDS, CALL_SIGNATURE, BackendProtocol
from proxy.translation.directives import DIRECTIVE
from proxy.translation.position import START, Spot
from proxy.translation.restoring import CITATIONS

Kind = Literal["plain", "reasoning", "hosted", "citations", "directive", "gemini_sig"]

_KINDS: dict[str, Kind] = {
    "plain": "plain",
    "reasoning": "reasoning",
    "hosted": "hosted",
    CITATIONS: "citations",
    DIRECTIVE: "directive",
    GEMINI_SIG: "gemini_sig",
}


@dataclass(slots=True)
class Carried:
    """`items` are blocks, items or entries as their vendor wrote them, but for visible text that is only hashed.
    `field`: where in a Chat message the reasoning stood; `spot`: what came before it; `led_to`: what came behind it, as
    `follower` says. `text`: plain text that the client was not shown; `hashed`: of the text that it was shown of an
    item that is whole.
    """

    kind: Kind
    items: list[Wire] = field(default_factory=list)
    field: str | None = None
    spot: Spot = START
    led_to: list[str] | None = None
    text: str | None = None
    hashed: str | None = None


def read_content(content: Wire, protocol: BackendProtocol, *, trusted: bool) -> Carried | None:
    """What a backend of `protocol` gets back; None when nothing of ours has this form. `trusted`: it was sealed."""
    kinds = content.get("k")
    kind = kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else None
    carried = Carried(_KINDS[kind]) if isinstance(kind, str) and kind in _KINDS else None
    if carried is None:
        return None
    carried.spot = Spot(_count(content.get("p")), _count(content.get("n")))
    name = content.get("c")
    if name is not None:
        if not isinstance(name, str) or name not in BACKENDS[protocol].reasoning_fields:
            return None
        carried.field = name
    led_to = content.get("f")
    if isinstance(led_to, list) and led_to and all(isinstance(name, str) for name in led_to):
        carried.led_to = [str(name) for name in led_to]
    text, hashed = content.get("t"), content.get("s")
    carried.text = text if isinstance(text, str) else None
    carried.hashed = hashed if isinstance(hashed, str) else None
    if carried.kind == "plain":
        return carried if protocol == "chat" else None
    items = content.get("v")
    if not isinstance(items, list) or not items:
        return None
    carried.items = [item for item in items if is_object(item)]
    if len(carried.items) < len(items):
        return None
    return carried if trusted or _has_form(carried, protocol) else None


def _count(value: object) -> int:
    return max(0, value) if type(value) is int else 0


def _has_form(carried: Carried, protocol: BackendProtocol) -> bool:
    match carried.kind:
        case "reasoning":
            return all(_is_reasoning(item, _FORMS[protocol]) for item in carried.items)
        case "hosted":
            return all(_type_of(item) in BACKENDS[protocol].hosted_types for item in carried.items)
        case "directive":
            return all(type(item.get("text")) is str for item in carried.items)
        case "gemini_sig":
            return protocol == "chat" and all(
                type(item.get("id")) is str and is_object(item.get(CALL_SIGNATURE)) for item in carried.items
            )
        case "plain" | "citations":
            return True  # who cuts the text by them looks at every one


# --- reasoning, as the vendors' sheets have it (messages.md 6, responses.md 4.3, chat_completions.md 11) ---

Check = Callable[[object], bool]


def _type_of(item: Wire) -> str:
    name = item.get("type")
    return name if isinstance(name, str) else ""


def _text(value: object) -> bool:
    return type(value) is str


def _text_or_null(value: object) -> bool:
    return value is None or type(value) is str


def _shown(value: object) -> bool:
    """Text, or its length and hash."""
    return type(value) is str or is_object(value)


def _shown_or_null(value: object) -> bool:
    return value is None or _shown(value)


def _shown_parts(value: object) -> bool:
    return isinstance(value, list) and all(
        is_object(part) and _text(part.get("type")) and _shown(part.get("text")) for part in value
    )


def _parts_or_null(value: object) -> bool:
    return value is None or _shown_parts(value)


def _number_or_null(value: object) -> bool:
    return value is None or type(value) is int


_ENTRY: dict[str, Check] = {"id": _text_or_null, "format": _text_or_null, "index": _number_or_null}

_FORMS: dict[BackendProtocol, Mapping[str, Mapping[str, Check]]] = {
    "messages": {
        "thinking": {"thinking": _shown, "signature": _text_or_null},
        "redacted_thinking": {"data": _text},
    },
    "responses": {
        "reasoning": {
            "id": _text_or_null,
            "summary": _parts_or_null,
            "content": _parts_or_null,
            "encrypted_content": _text_or_null,
            "status": _text_or_null,
        }
    },
    "chat": {
        "reasoning.text": {**_ENTRY, "text": _shown_or_null, "signature": _text_or_null},
        "reasoning.summary": {**_ENTRY, "summary": _shown_or_null},
        "reasoning.encrypted": {**_ENTRY, "data": _text_or_null},
    },
}


def _is_reasoning(item: Wire, forms: Mapping[str, Mapping[str, Check]]) -> bool:
    form = forms.get(_type_of(item))
    return form is not None and all(check(item.get(name)) for name, check in form.items())
