"""Bodies that two readers read differently: what one of them sees, the other doesn't check.

JSON leaves open which of two members of one name counts, and some servers take names in any case or without
underscores (Go's and protobuf's decoders), so `Tools` beside `tools` is another of its kind.
"""

import json
from functools import lru_cache

from proxy.canonical.errors import Rejected
from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire
from proxy.tenancy.refusals import malformed, shown

# What rules look at. The vendors' own spellings are these.
_WATCHED = frozenset(
    {
        "model",
        "models",
        "fallbacks",
        "fallback_models",
        "tools",
        "functions",
        "tool_choice",
        "mcp_servers",
        "input",
        "items",
        "messages",
        "prompt",
        "plugins",
        "web_search_options",
        "search_parameters",
        "extra_body",
        "container",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "n_predict",
        "max_new_tokens",
        "num_predict",
        "thinking",
        "type",
        "name",
        "function",
        "custom",
        "server_url",
        "connector_id",
        "tunnel_id",
        "url",
        "definition",
        "tool",
        "content",
        "requests",
        "params",
        "moderation",
        "preset",
        "background",
    }
)
_SHORT = 64  # characters of what is kept; clients may send anything
_FOLDED = {name.replace("_", ""): name for name in _WATCHED}
_MOST_MEMBERS = 1000
TOO_DEEP = "The request body is nested too deeply."


class _Repeated(Exception):
    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


def refuse_repeats(raw: bytes, wire: Wire) -> None:
    """Refuse a body in which a member stands twice, or in another spelling than the protocols', or that is not UTF-8.
    Raises `Rejected`. `wire` is what `raw` was decoded to, unchanged."""
    if raw[:1] in (b"\xef", b"\xff", b"\xfe", b"\0") or b"\0" in raw[:4]:
        raise Rejected(malformed((), "The request body must be UTF-8 without a byte order mark."))
    refuse_doubles(wire)
    try:
        if dumps(wire) == raw:
            return  # what was decoded is all that there is
        json.loads(raw, object_pairs_hook=_pairs)
    except _Repeated as repeated:
        problem = f"the member '{shown(repeated.key)}' stands twice in one object of the request body."
        raise Rejected(malformed((), problem)) from None
    except RecursionError:
        raise Rejected(malformed((), TOO_DEEP)) from None


def _pairs(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):  # as fast as can be: a body may hold millions
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Repeated(key)
            seen.add(key)


def refuse_doubles(wire: Wire, path: Path = ()) -> None:
    """Refuse a member whose name some servers take for one that rules look at; and more members than can be looked
    at, for nothing else is done meanwhile. Raises `Rejected`."""
    if len(wire) > _MOST_MEMBERS:
        raise Rejected(malformed(path, f"an object of more than {_MOST_MEMBERS} members can't be looked into."))
    for key in wire:
        if key not in _WATCHED and (meant := _meant(key)) is not None:
            problem = f"the member '{shown(key)}' must be written '{meant}'."
            raise Rejected(malformed(path, problem))


def _meant(key: str) -> str | None:
    """The watched name that a server may take this for."""
    return _known_meant(key) if len(key) <= _SHORT else _FOLDED.get(_folded(key))


@lru_cache(4096)
def _known_meant(key: str) -> str | None:
    return _FOLDED.get(_folded(key))


def _folded(key: str) -> str:
    return key.casefold().replace("_", "").replace("-", "")
