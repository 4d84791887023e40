"""How many tokens an answer may have: what a client asks for is lowered or refused, and set where it asks for nothing.

The client's bytes are changed only where the number stands, so that what is passed on stays what the client wrote.
"""

from typing import NamedTuple

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire, is_object, kind
from proxy.settings.tenants import TenantLimits
from proxy.tenancy.refusals import malformed
from proxy.tenancy.tool_places import Client
from proxy.translation.passed_body import with_members

# Some servers take one for the other, so all that are there must hold the limit: llama.cpp's and TGI's own come last.
_FIELDS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
    "max_new_tokens",
    "num_predict",
)
_OWN: dict[Client, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
    "completions": ("max_tokens",),
}
_ZERO_COUNTS = frozenset({"messages", "completions"})  # who may ask for no answer at all; elsewhere it is "no limit"
_DEFAULT = {"completions": 16}  # of who asks for nothing
LEAST_THINKING = 1024  # tokens, Anthropic's own rule


class _Limit(NamedTuple):
    most: int
    clamp: bool


def limit_output(
    limits: TenantLimits, client: Client, raw: bytes, wire: Wire, unset: str | None = None, *, fill: bool = True
) -> bytes:
    """The body with the limit kept; `wire`, which is the same decoded, is changed too. `unset`: the field to set where
    the client asks for nothing, if it is not the protocol's first; not `fill`: none. Raises `Rejected`, class INVALID.
    """
    changes = output_changes(limits, client, wire, (), unset, fill=fill)
    if not changes:
        return raw
    fitted = with_members(raw, changes, wire)
    wire.update(changes)
    return fitted


def output_changes(
    limits: TenantLimits, client: Client, wire: Wire, path: Path, unset: str | None = None, *, fill: bool = True
) -> Wire:
    """The members of a request to replace, empty if none."""
    if limits.max_output_tokens is None:
        return {}
    limit = _Limit(limits.max_output_tokens, limits.on_excess_output == "clamp")
    changes: Wire = {}
    for name in _FIELDS:
        if (value := wire.get(name)) is not None:
            lowered = _lowered(value, limit, client, (*path, name))
            if lowered is not None:
                changes[name] = lowered
    own = _OWN[client]
    if fill and all(wire.get(name) is None for name in own) and _DEFAULT.get(client, limit.most) >= limit.most:
        changes[unset or own[0]] = limit.most
    if client == "messages":
        _fit_thinking(wire, changes, limit, path)
        _fit_fallbacks(wire, changes, limit, path)
    return changes


def _lowered(value: object, limit: _Limit, client: Client, path: Path) -> int | None:
    """What to put in place of the number; None leaves it. Raises `Rejected`."""
    if type(value) not in (int, float) or not isinstance(value, int | float):
        raise Rejected(malformed(path, f"expected an integer, got {kind(value)}."))
    least = 0 if client in _ZERO_COUNTS else 1
    if value < least:
        raise Rejected(malformed(path, f"expected a value of at least {least}."))  # -1 means "no limit" to some
    if value <= limit.most:
        return None
    if not limit.clamp:
        raise Rejected(malformed(path, f"at most {limit.most} tokens may be asked for with this key."))
    return limit.most


def _fit_thinking(wire: Wire, changes: Wire, limit: _Limit, path: Path) -> None:
    """Thinking is a part of the answer, so its budget must be less than what the answer was lowered to."""
    thinking = wire.get("thinking")
    budget = thinking.get("budget_tokens") if is_object(thinking) else None
    if "max_tokens" not in changes or not is_object(thinking) or not isinstance(budget, int | float):
        return
    if budget < limit.most:
        return
    if limit.most - 1 < LEAST_THINKING:
        problem = f"answers have at most {limit.most} tokens with this key, which leaves no room for thinking."
        raise Rejected(malformed((*path, "thinking", "budget_tokens"), problem))
    changes["thinking"] = {**thinking, "budget_tokens": limit.most - 1}


def _fit_fallbacks(wire: Wire, changes: Wire, limit: _Limit, path: Path) -> None:
    """Each model to fall back to may have a limit of its own."""
    fallbacks = wire.get("fallbacks")
    if type(fallbacks) is not list:
        return
    fitted: list[object] = []
    for index, entry in enumerate(fallbacks):
        lowered = None
        if is_object(entry) and entry.get("max_tokens") is not None:
            lowered = _lowered(entry["max_tokens"], limit, "messages", (*path, "fallbacks", index, "max_tokens"))
        fitted.append(entry if lowered is None or not is_object(entry) else {**entry, "max_tokens": lowered})
    if fitted != fallbacks:
        changes["fallbacks"] = fitted
