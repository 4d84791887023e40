"""Token counts, both ways (mapping.md 10.2). Messages counts cached tokens beside `input_tokens`, not in it."""

from proxy.canonical.usage import Beside, Usage
from proxy.protocols.fields import Wire, is_object

# `usage.service_tier` in a reply (messages.md 14.3).
TIERS = frozenset({"standard", "priority", "batch"})


def count(wire: Wire, name: str) -> int:
    """A count of tokens as a server told it; anything that is none is 0."""
    value = wire.get(name)
    if type(value) is int and value > 0:
        return value
    if type(value) is float and value > 0 and value.is_integer():
        return int(value)
    return 0


_ATTEMPTS = ("message", "fallback_message")
_NUMBERS = (int, float)


def read_usage(wire: object) -> Usage | None:
    """A `usage` object, or what several of a stream came to; None when there is none."""
    if not is_object(wire):
        return None
    if type(wire.get("input_tokens")) not in _NUMBERS and type(wire.get("output_tokens")) not in _NUMBERS:
        return None
    usage = Usage(
        input_fresh=count(wire, "input_tokens"),
        cache_read=count(wire, "cache_read_input_tokens"),
        cache_write=count(wire, "cache_creation_input_tokens"),
        output=count(wire, "output_tokens"),
    )
    written = wire.get("cache_creation")
    if is_object(written):
        usage.cache_write_long = count(written, "ephemeral_1h_input_tokens")
        usage.cache_write = max(usage.cache_write, count(written, "ephemeral_5m_input_tokens") + usage.cache_write_long)
    iterations = wire.get("iterations")
    if isinstance(iterations, list):
        usage.beside = _read_beside([entry for entry in iterations if is_object(entry)])
    details = wire.get("output_tokens_details")
    if is_object(details):
        usage.reasoning = count(details, "thinking_tokens")
    hosted = wire.get("server_tool_use")
    if is_object(hosted):
        for name in hosted:
            if name.endswith("_requests") and (number := count(hosted, name)):
                usage.hosted[name.removesuffix("_requests")] = number
    return usage


def _read_beside(iterations: list[Wire]) -> list[Beside]:
    """The counts of an answer cover its own `message` entries only, and of several attempts the last (messages.md
    13.5, 14.3)."""
    fell_back = any(entry.get("type") == "fallback_message" for entry in iterations)
    attempts = [entry for entry in iterations if entry.get("type") in _ATTEMPTS]
    covered = attempts[-1:] if fell_back else attempts
    beside = []
    for entry in iterations:
        if any(entry is each for each in covered):
            continue
        if (used := read_usage({**entry, "iterations": None})) is not None:
            model = entry.get("model")
            beside.append(Beside(model if type(model) is str else None, used))
    return beside


def merged(told: Wire, wire: object) -> Wire:
    """What a stream has told, with a further `usage` of it: cumulative, so what is there replaces, and what is not
    keeps the value of `message_start`.
    """
    return told | {name: value for name, value in wire.items() if value is not None} if is_object(wire) else told


def read_tier(wire: object) -> str | None:
    """The tier that served the request. Fast mode is what others sell as priority (mapping.md 11.3)."""
    if not is_object(wire):
        return None
    if wire.get("speed") == "fast":
        return "priority"
    tier = wire.get("service_tier")
    return tier if type(tier) is str else None


def write_counts(usage: Usage) -> Wire:
    """What both `message_delta` and a whole message tell."""
    return {
        "input_tokens": usage.input_fresh,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning} if usage.reasoning else None,
        "server_tool_use": _write_hosted(usage),
    }


def write_usage(usage: Usage, tier: str | None) -> Wire:
    """The `usage` of a message. `tier` is in the backend's spelling.

    The split of what was written to the cache has no place in `message_delta`, so a guess at the start would stay.
    """
    long = min(usage.cache_write_long, usage.cache_write)
    split: Wire = {"ephemeral_5m_input_tokens": usage.cache_write - long, "ephemeral_1h_input_tokens": long}
    return {
        **write_counts(usage),
        "cache_creation": None if usage.estimated else split,
        "service_tier": tier if tier in TIERS or tier is None else "standard",
        "inference_geo": None,
        "speed": None,
    }


def _write_hosted(usage: Usage) -> Wire | None:
    if not usage.hosted:
        return None
    return {
        "web_search_requests": usage.hosted.get("web_search", 0),
        "web_fetch_requests": usage.hosted.get("web_fetch", 0),
    }
