"""A backend's whole answer as it came: what it is before a reader sees it, and how it passes within one protocol."""

from collections.abc import Callable

from proxy.canonical.errors import Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads, loads_exact
from proxy.protocols.fields import Wire, as_object
from proxy.translation.reading import undecodable


def parse_reply(raw: bytes, decode: Callable[[bytes], object] = loads) -> Wire:
    """The JSON object of a backend's answer. Raises `Rejected`, class BAD_GATEWAY."""
    if not raw.strip():
        raise Rejected(undecodable("answered with an empty body"))
    try:
        wire = decode(raw)
    except NotJson:
        raise Rejected(undecodable("gave a non-JSON answer")) from None
    if type(wire) is not dict:
        raise Rejected(undecodable("gave an answer that is not a JSON object"))
    return wire


def is_error(wire: Wire) -> bool:
    """Whether the answer is an error, whatever its status."""
    if wire.get("type") == "error":
        return True
    return bool(wire.get("error")) and not any(name in wire for name in ("choices", "output", "content"))


def named(raw: bytes, wire: Wire, override: str | None) -> bytes:
    """The answer with this name of its model. `wire` is what it decodes to."""
    if override is None or "model" not in wire:
        return raw
    exact = as_object(loads_exact(raw), ())
    exact["model"] = override
    return dumps(exact)
