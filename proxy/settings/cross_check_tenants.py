"""Who tenants are: names, keys and dates, and with whose keys their requests go on."""

from collections.abc import Mapping
from typing import get_args

from proxy.settings.document import Document, Path, Value
from proxy.settings.policies import Policy, holds, policies
from proxy.settings.spelling import did_you_mean
from proxy.settings.tenants import KeyMode
from proxy.settings.values import parse_moment

_Upstreams = Mapping[str, Mapping[str, Value]]


def cross_check_tenants(document: Document) -> None:
    if document.root.get("tenants"):
        _check_carrier_keys(document)
    _check_names(document)
    _check_key_ids(document)
    _check_pepper(document)
    named = ((entry.get("name"), entry) for _, entry in document.entries("upstreams"))
    upstreams = {name: entry for name, entry in named if isinstance(name, str)}
    for policy in policies(document):
        _check_upstream_keys(document, policy, upstreams)
        if policy.of_tenant:
            _check_dates(document, policy.at, policy.own)
            for index, key in _keys(policy.own):
                _check_dates(document, (*policy.at, "keys", index), key)
    _check_somebody(document)


def _keys(entry: Mapping[str, Value]) -> list[tuple[int, Mapping[str, Value]]]:
    keys = entry.get("keys")
    return [(index, key) for index, key in enumerate(keys if isinstance(keys, list) else []) if isinstance(key, dict)]


def _check_carrier_keys(document: Document) -> None:
    state = document.root.get("state")
    if not (isinstance(state, dict) and state.get("carrier_keys")):
        message = (
            "is required with tenants: unsealed, one could read and write what another's replies carry. "
            "`openssl rand -hex 32` makes one, and DRAGOMAN_CARRIER_KEY may hold it"
        )
        document.note(("state", "carrier_keys"), message)


def _check_names(document: Document) -> None:
    first: dict[str, int] = {}
    for index, entry in document.entries("tenants"):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            other = document.refer_to(("tenants", first[name]))
            document.note(("tenants", index, "name"), f"another tenant, {other}, is called {name!r}")


def _check_key_ids(document: Document) -> None:
    first: dict[str, Path] = {}
    for index, entry in document.entries("tenants"):
        for number, key in _keys(entry):
            kid, path = key.get("kid"), ("tenants", index, "keys", number, "kid")
            if isinstance(kid, str) and first.setdefault(kid, path) != path:
                document.note(path, f"{document.refer_to(first[kid])} is the same: no two keys share one")


def _check_pepper(document: Document) -> None:
    if document.root.get("key_pepper"):
        return
    peppered = [
        ("tenants", index, "keys", number, "hash")
        for index, entry in document.entries("tenants")
        for number, key in _keys(entry)
        if str(key.get("hash")).startswith("hmac-sha256:")
    ]
    if peppered:
        more = f", and {len(peppered) - 1} more keys do" if len(peppered) > 1 else ""
        document.note(peppered[0], f"needs the key_pepper that it was made with{more}")


def _check_dates(document: Document, at: Path, entry: Mapping[str, Value]) -> None:
    try:
        begins, ends = parse_moment(entry["not_before"]), parse_moment(entry["expires_at"])
    except (KeyError, ValueError):
        return
    if begins >= ends:
        document.note((*at, "expires_at"), "is not after not_before, so it never holds")


def _check_upstream_keys(document: Document, policy: Policy, upstreams: _Upstreams) -> None:
    section, at = policy.section("upstream"), (*policy.at, "upstream")
    mode = section.get("mode", "shared")
    if policy.of_tenant and mode in get_args(KeyMode):
        for key, needed in (("map", "map"), ("byok_upstreams", "byok"), ("byok_header", "byok")):
            if policy.says("upstream", key) and mode != needed:
                document.note((*at, key), f"means nothing while mode is {mode}: say mode: {needed}")
        if mode == "map" and not section.get("map"):
            document.note((*at, "map"), "is needed with mode: map")
        if mode == "byok" and "byok_upstreams" not in section and not any(map(_is_keyless, upstreams.values())):
            message = "is needed with mode: byok, since all upstreams have keys of their own"
            document.note((*at, "byok_upstreams"), message)
    if policy.says("upstream", "map"):
        _check_map(document, (*at, "map"), section.get("map"), upstreams)
    if policy.says("upstream", "byok_upstreams"):
        listed = section.get("byok_upstreams")
        for index, name in enumerate(listed if isinstance(listed, list) else []):
            _check_known(document, (*at, "byok_upstreams", index), name, upstreams)


def _is_keyless(upstream: Mapping[str, Value]) -> bool:
    return not {"api_key", "api_key_file", "api_keys", "api_key_files"} & upstream.keys()


def _check_map(document: Document, at: Path, entries: Value, upstreams: _Upstreams) -> None:
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        _check_known(document, (*at, name), name, upstreams)
        given = isinstance(entry, dict) and ("api_key" in entry) + ("api_key_file" in entry)
        if given != 1:
            document.note((*at, name), "give either api_key or api_key_file")


def _check_known(document: Document, at: Path, name: Value, upstreams: _Upstreams) -> None:
    if isinstance(name, str) and name not in upstreams:
        listed = did_you_mean(name, upstreams) or f", there is {', '.join(upstreams) or 'none'}"
        document.note(at, f"no upstream is called {name!r}{listed}")


def _check_somebody(document: Document) -> None:
    """Every tenant is known by a key, except one at most, whose callers bring keys that only the backend knows."""
    keyless: Path | None = None
    for policy in policies(document):
        if not policy.of_tenant or policy.own.get("keys") or holds(policy.own.get("disabled")):
            continue
        if policy.section("upstream").get("mode") != "byok":
            document.note((*policy.at, "keys"), "is needed: nobody can be a tenant without keys, unless mode is byok")
        elif keyless is None:
            keyless = policy.at
        else:
            message = f"is needed: {document.refer_to(keyless)} is already who callers are that bring their own keys"
            document.note((*policy.at, "keys"), message)
