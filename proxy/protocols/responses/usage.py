"""Token counts (responses.md 11, mapping.md 10.2). `input_tokens` includes what was read from and written to caches."""

from proxy.canonical.usage import Usage, from_inclusive
from proxy.protocols.fields import Wire, is_object


def read_usage(response: Wire) -> Usage | None:
    """The usage of a response object, with its hosted tool calls; None when it tells none. Never fails."""
    wire = response.get("usage")
    if not is_object(wire) or type(wire.get("input_tokens")) is not int:
        return None
    inputs = _object(wire, "input_tokens_details")
    usage = from_inclusive(
        _count(wire, "input_tokens"),
        _count(inputs, "cached_tokens"),
        _count(inputs, "cache_write_tokens"),
        _count(wire, "output_tokens"),
        _count(_object(wire, "output_tokens_details"), "reasoning_tokens"),
    )
    usage.cache_write_long = _count(_object(inputs, "cache_write_tokens_details"), "ttl_12h_tokens")
    searches = _count(_object(_object(response, "tool_usage"), "web_search"), "num_requests")
    if searches:
        usage.hosted["web_search"] = searches
    return usage


def _object(wire: Wire, name: str) -> Wire:
    value = wire.get(name)
    return value if is_object(value) else {}


def _count(wire: Wire, name: str) -> int:
    value = wire.get(name)
    return max(0, value) if type(value) is int else 0


def write_usage(usage: Usage) -> Wire:
    """`usage`; SDKs need both details objects and the total."""
    inputs: Wire = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    if usage.cache_write_long:
        inputs["cache_write_tokens_details"] = {
            "ttl_30m_tokens": max(0, usage.cache_write - usage.cache_write_long),
            "ttl_12h_tokens": usage.cache_write_long,
        }
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": inputs,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }


def write_tool_usage(usage: Usage | None) -> Wire:
    """`tool_usage`: zero counts where nothing was used."""
    searches = usage.hosted.get("web_search", 0) if usage is not None else 0
    return {
        "image_gen": {
            "input_tokens": 0,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
            "output_tokens": 0,
            "total_tokens": 0,
        },
        "web_search": {"num_requests": searches},
    }
