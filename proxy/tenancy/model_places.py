"""Models that a request names beside its own: those to fall back to, those that are asked for something else.

Vendors' extras count as well, since bodies are passed on as they are where the protocol stays the same.
"""

from collections.abc import Iterator

from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire, is_object

_LISTS = ("models", "fallbacks", "fallback_models", "allowed_models")  # of names, or of objects with a `model`
_SINGLE = ("fallback_model", "draft_model")
_HOLDERS = ("moderation", "extra_body", "openrouter")  # objects with a `model` or one of the above
# What the vendor keeps under a name, which may hold any model and any tool.
_STORED = ("preset", "agent_id", "cached_content")


def other_models(wire: Wire) -> Iterator[tuple[Path, object]]:
    """Where each stands, and what is there: a name unless the client is wrong."""
    yield from _named(wire, ())
    for name in _HOLDERS:
        if is_object(inner := wire.get(name)):
            if inner.get("model") is not None:
                yield (name, "model"), inner["model"]
            yield from _named(inner, (name,))
    plugins = wire.get("plugins")
    for index, plugin in enumerate(plugins if type(plugins) is list else ()):
        if is_object(plugin):
            if plugin.get("model") is not None:
                yield ("plugins", index, "model"), plugin["model"]
            yield from _named(plugin, ("plugins", index))


def _named(wire: Wire, path: Path) -> Iterator[tuple[Path, object]]:
    for name in _LISTS:
        value = wire.get(name)
        if type(value) is not list:
            if value is not None:
                yield (*path, name), value
            continue
        for index, entry in enumerate(value):
            if is_object(entry):
                yield (*path, name, index, "model"), entry.get("model")
            else:
                yield (*path, name, index), entry
    for name in _SINGLE:
        if wire.get(name) is not None:
            yield (*path, name), wire[name]


def stored_part(client: str, wire: Wire) -> Path | None:
    """The first part of the request that the vendor keeps and nobody here can look into, such as a prompt of Responses;
    None if all is here."""
    model = wire.get("model")
    if type(model) is str and "@preset/" in model.casefold():
        return ("model",)
    if client == "responses" and wire.get("prompt") is not None:
        return ("prompt",)
    for name in _STORED:
        if wire.get(name) is not None:
            return (name,)
    for outer in ("extra_body", "google"):
        if is_object(inner := wire.get(outer)) and (found := stored_part(client, inner)) is not None:
            return (outer, *found)
    return None
