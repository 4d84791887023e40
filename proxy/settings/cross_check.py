"""What only shows when entries are seen together.

It looks at the plain values, not at the models, so that these mistakes are reported beside those inside entries.
"""

from collections.abc import Mapping
from typing import get_args

from proxy.settings.cross_check_policies import cross_check_policies
from proxy.settings.cross_check_prices import check_reached, cross_check_prices
from proxy.settings.cross_check_tenants import cross_check_tenants
from proxy.settings.document import Document, Path, Value
from proxy.settings.snapshot import ADMIN_LISTEN, LISTEN, Address, ProtocolName
from proxy.settings.spelling import did_you_mean
from proxy.settings.targets import targets_of
from proxy.settings.units import parse_duration
from proxy.settings.values import is_redis, parse_address
from proxy.upstream.dialects import UnknownDialect, dialect_for


def cross_check(document: Document) -> None:
    _check_upstreams(document)
    _check_models(document)
    _check_listeners(document)
    _check_state(document)
    _check_proxies(document)
    cross_check_tenants(document)
    cross_check_policies(document)
    cross_check_prices(document)


def _check_upstreams(document: Document) -> None:
    first: dict[str, int] = {}
    for index, entry in document.entries("upstreams"):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            message = f"another upstream, {document.refer_to(('upstreams', first[name]))}, is called {name!r}"
            document.note(("upstreams", index, "name"), message)
        _check_keys(document, index, entry)
        _check_breaker(document, index, entry)
        timeouts = entry.get("timeouts")
        for name in ("head_read", "body_read"):
            if isinstance(timeouts, dict) and name in timeouts:
                message = (
                    "belongs to the timeouts of the whole file: it is over before it is known where a request goes"
                )
                document.note(("upstreams", index, "timeouts", name), message)
        if entry.get("protocol") in ("chat", "responses") and "://api.anthropic.com" in str(entry.get("base_url")):
            message = "must be messages at Anthropic: its Chat endpoint ignores formats, effort and caching in silence"
            document.note(("upstreams", index, "protocol"), message)
        _check_dialect(document, index, entry)


_KEYS = ("api_key", "api_key_file", "api_keys", "api_key_files")


def _check_keys(document: Document, index: int, entry: Mapping[str, Value]) -> None:
    given = [key for key in _KEYS if key in entry]
    if len(given) > 1 and given != ["api_keys", "api_key_files"]:
        document.note(("upstreams", index, given[1]), f"give either {given[0]} or {given[1]}")
    first: dict[str, int] = {}
    keys = entry.get("api_keys")
    for place, key in enumerate(keys if isinstance(keys, list) else []):
        if isinstance(key, str) and first.setdefault(key, place) != place:
            document.note(("upstreams", index, "api_keys", place), f"is the same key as api_keys[{first[key]}]")


def _check_breaker(document: Document, index: int, entry: Mapping[str, Value]) -> None:
    breaker = entry.get("breaker")
    if not isinstance(breaker, dict):
        return
    try:
        pause, longest = (
            parse_duration(breaker.get(name, default)) for name, default in (("open", "10s"), ("longest", "120s"))
        )
    except ValueError:
        return  # what is wrong with it is said elsewhere
    if longest < pause:
        document.note(("upstreams", index, "breaker", "longest"), "must not be shorter than open")


def _check_dialect(document: Document, index: int, entry: Mapping[str, Value]) -> None:
    written = entry.get("dialect")
    flags = {"base": written} if isinstance(written, str) else written
    if not isinstance(flags, dict):
        return
    base = flags.get("base")
    for protocol in get_args(ProtocolName):
        if protocol == entry.get("protocol") and isinstance(base, str):
            try:
                dialect_for(protocol, "", base, {flag: value for flag, value in flags.items() if flag != "base"})
            except UnknownDialect as error:
                document.note(("upstreams", index, "dialect"), str(error))


def _check_models(document: Document) -> None:
    names = [entry.get("name") for _, entry in document.entries("upstreams")]
    known = dict.fromkeys(name for name in names if isinstance(name, str))
    if not document.root.get("models") and len(known) > 1:
        document.note(("models",), "is needed with more than one upstream: which models go where?")
    for index, entry in document.entries("models"):
        targets = targets_of(entry, ("models", index))
        first: dict[tuple[str, Value], Path] = {}
        for at, upstream, model in targets:
            if upstream not in known:
                listed = did_you_mean(upstream, known) or f", there is {', '.join(known) or 'none'}"
                document.note(at, f"no upstream is called {upstream!r}{listed}")
            elif (same := first.setdefault((upstream, model), at)) != at:
                document.note(
                    at, f"is the same target as {document.name_of(same)}: the same model of the same upstream"
                )
    check_reached(document, "models")


def _check_state(document: Document) -> None:
    state = document.root.get("state")
    if not isinstance(state, dict):
        return
    url = state.get("url")
    shared = isinstance(url, str) and is_redis(url)
    if "on_failure" in state and not shared:
        document.note(("state", "on_failure"), "means nothing without a Redis or Valkey server in url")
    for name in ("ttl", "content_keys", "max_stored"):
        if name in state and url == "none:":
            document.note(("state", name), "means nothing where nothing is kept: url is none:")
    if "limits_file" in state and shared:
        document.note(
            ("state", "limits_file"), "means nothing beside a server in url, which keeps what was used itself"
        )


def _check_proxies(document: Document) -> None:
    proxies = document.root.get("trusted_proxies")
    for index, network in enumerate(proxies if isinstance(proxies, list) else []):
        if isinstance(network, str) and network.endswith("/0"):
            message = "trusts everyone, so that any caller may claim any address: name the proxies in front"
            document.note(("trusted_proxies", index), message)


def _check_listeners(document: Document) -> None:
    listen = _address(document, "listen")
    admin = _address(document, "admin_listen")
    if listen and not listen.is_loopback and "tenants" not in document.root:
        message = "without tenants no key is asked for, so only a loopback address may be bound, such as 127.0.0.1"
        document.note(("listen",), message)
    if listen and admin and listen.port == admin.port and listen.port and _meet(listen, admin):
        document.note(("admin_listen",), "is the same address as listen")
    _check_workers(document, listen, admin)


def _meet(one: Address, other: Address) -> bool:
    """Whether both bind an address of this machine in common, as far as their texts tell."""
    return not _bound(one).isdisjoint(_bound(other))


def _bound(address: Address) -> frozenset[str]:
    return frozenset({"127.0.0.1", "::1"}) if address.host == "localhost" else frozenset({address.host})


def _check_workers(document: Document, listen: Address | None, admin: Address | None) -> None:
    """Each has an admin listener of its own, at the next port."""
    given = str(document.root.get("workers", 1))  # a text, if it comes from the environment
    count = int(given) if given.isdecimal() and len(given) < 4 else 1
    if count < 2:
        return
    listen, admin = listen or LISTEN, admin or ADMIN_LISTEN
    if listen.port != admin.port and _meet(listen, admin) and 0 < admin.port < listen.port < admin.port + count:
        document.note(("workers",), f"worker {listen.port - admin.port} would have its admin listener at {listen}")
    if 65535 - count < admin.port:
        document.note(("workers",), f"needs {count} ports from that of admin_listen on")
    state = document.root.get("state")
    if isinstance(state, dict) and state.get("limits_file") is not None:
        document.note(("state", "limits_file"), "can't be used by several workers: one process at a time has the file")
    if isinstance(state, dict) and state.get("url") == "memory:":
        document.note(
            ("state", "url"), "is one worker's own memory, of which the others know nothing: use a file or a server"
        )


def _address(document: Document, name: str) -> Address | None:
    """The address if it was given and is one; what is wrong with it is said elsewhere."""
    try:
        return parse_address(document.root[name])
    except (KeyError, ValueError):
        return None
