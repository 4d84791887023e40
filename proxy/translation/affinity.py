"""What the beginning of a prompt is known by, so that requests which share it find the same prompt cache."""

from collections.abc import Iterator
from hashlib import blake2b

from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire, is_object
from proxy.translation.codecs import ClientProtocol

_INSTRUCTING = ("system", "developer")


def affinity_of(client: ClientProtocol, wire: Wire, tenant: str) -> bytes | None:
    """Of a tenant's `prompt_cache_key`, or else of its instructions and tools; None where there are none of these, or
    none that can be read."""
    told = wire.get("prompt_cache_key")
    if type(told) is str and told:
        return _digest(tenant, told)
    beginning = [part for part in _beginning(client, wire) if part]
    try:
        return _digest(tenant, beginning) if beginning else None
    except RecursionError:
        return None  # nested too deeply: whoever translates it says so


def _beginning(client: ClientProtocol, wire: Wire) -> Iterator[object]:
    yield wire.get("tools")
    match client:
        case "messages":
            yield wire.get("system")
        case "responses":
            yield wire.get("instructions")
            yield from _leading(wire.get("input"))
        case "chat":
            yield wire.get("functions")
            yield from _leading(wire.get("messages"))
        case "completions":
            pass


def _leading(turns: object) -> Iterator[object]:
    """The instructions that a conversation begins with."""
    for turn in turns if type(turns) is list else ():
        if not is_object(turn) or turn.get("role") not in _INSTRUCTING:
            return
        yield turn.get("content")


def _digest(tenant: str, told: object) -> bytes:
    return blake2b(dumps([tenant, told]), digest_size=16).digest()
