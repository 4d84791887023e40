"""The secrets that stand in a configuration itself: no message about another value may quote them either.

It looks at the plain values, which may be of any type yet.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from proxy.settings.document import Document, Value

_SHORTEST = 8  # shorter values are in ordinary text too often
_OF_FILE = ("key_pepper", "admin_token")


def literal_secrets(document: Document) -> Iterator[str]:
    """Those that are written where secrets belong."""
    return (value for value in _found(document) if isinstance(value, str) and len(value) >= _SHORTEST)


def _found(document: Document) -> Iterator[Value]:
    root = document.root
    yield from map(root.get, _OF_FILE)
    state = _mapping(root.get("state"))
    keys = state.get("carrier_keys")
    yield from keys if isinstance(keys, list) else ()
    yield _password(state.get("url"))
    for _, upstream in document.entries("upstreams"):
        yield upstream.get("api_key")
        keys = upstream.get("api_keys")
        yield from keys if isinstance(keys, list) else ()
        yield from _mapping(upstream.get("headers")).values()
    yield from _mapped(_mapping(root.get("tenant_defaults")))
    for _, tenant in document.entries("tenants"):
        if "upstream" in tenant:
            yield from _mapped(tenant)


def _mapped(policy: Mapping[str, Value]) -> Iterator[Value]:
    """The keys of backends that a tenant has of its own."""
    for entry in _mapping(_mapping(policy.get("upstream")).get("map")).values():
        yield _mapping(entry).get("api_key")


def _password(url: Value) -> str | None:
    try:
        return urlsplit(url).password if isinstance(url, str) else None
    except ValueError:
        return url if isinstance(url, str) else None


def _mapping(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {}
