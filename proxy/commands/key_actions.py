"""What `dragoman keys` does.

A key is on standard output once and nowhere else; all that is said about it is on the other stream. Files are changed
only where that is asked for.
"""

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from proxy.commands.key_edits import Entry, NotEditable
from proxy.commands.key_files import change_keys, read_pepper, read_tenants
from proxy.settings import SettingsError, UnreadableFile
from proxy.settings.spelling import did_you_mean
from proxy.settings.tenants import Tenant, TenantKey
from proxy.tenancy.keys import AuthFailure, Found, KeyRing, flaw, new_key, parse, state_of

_OK = 0
_MISTAKES = 1
_UNUSABLE = 2

_FLAWS = {
    "malformed": "malformed: a key is drg_ and 63 more characters, as `dragoman keys new` printed it",
    "mistyped": "mistyped: it has the form of a key, but a character of it is wrong",
}
_BY_HAND = "This file can't be changed safely without a look at it. Do by hand what follows."


class _Refused(Exception):
    """What was asked for can't be done; the message says why."""


def run(action: str, parsed: argparse.Namespace) -> int:
    """0: done; 1: there is no such tenant or key, or it is not good, or the configuration has mistakes; 2: not even
    tried."""
    try:
        return _ACTIONS[action](parsed)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return _UNUSABLE if isinstance(error, UnreadableFile) else _MISTAKES
    except _Refused as error:
        print(error, file=sys.stderr)
        return _MISTAKES
    except OSError as error:
        print(f"{parsed.config}: can't be changed: {error.strerror}", file=sys.stderr)
        return _UNUSABLE


def _new(parsed: argparse.Namespace) -> int:
    config: Path | None = parsed.config
    if config is None and parsed.write:
        print("--write needs --config: which file?", file=sys.stderr)
        return _UNUSABLE
    begins, ends = parsed.not_before, parsed.expires
    if ends is not None and ends <= max(time.time(), begins or 0):
        print("--expires: is over before it begins", file=sys.stderr)
        return _UNUSABLE
    if config is not None:
        _tenant(read_tenants(config, os.environ), parsed.tenant)
    text, entry = _make(config, begins, ends)
    advice = [f"To be added to the keys of the tenant {parsed.tenant}:", "", *_snippet([entry])]
    changed = _change(parsed, parsed.tenant, advice, new=entry)
    print(text)
    return changed


def _make(config: Path | None, begins: float | None, ends: float | None) -> tuple[str, Entry]:
    """A key, and what the configuration says of it."""
    pepper = read_pepper(config, os.environ)
    made = new_key(pepper)
    if pepper is None:
        print("There is no key_pepper, so the hash is a plain SHA-256 of the secret.", file=sys.stderr)
    print(f"The key {made.kid} is shown this once: only its hash is kept.", file=sys.stderr)
    return made.text, _entry(made.kid, made.hash, begins, ends)


def _rotate(parsed: argparse.Namespace) -> int:
    tenant = _tenant(read_tenants(parsed.config, os.environ), parsed.tenant)
    now = time.time()
    end = now + parsed.overlap
    # A key that is still to come was made for later.
    old = [key for key in tenant.keys if (parsed.kid or key.not_before is None or key.not_before <= now)]
    old = [key for key in old if parsed.kid in (None, key.kid)]
    if not old:
        which = "no key" if parsed.kid is None else f"no key {parsed.kid}"
        raise _Refused(f"the tenant {tenant.name} has {which} to rotate")
    for key in old:
        if key.not_before is not None and end < key.not_before + 1:
            raise _Refused(f"the key {key.kid} would end before it begins: revoke it instead")
    # None is given more time than it had.
    ending = {key.kid: _written(end) for key in old if key.expires_at is None or key.expires_at > end}
    text, entry = _make(parsed.config, now, None)
    kept = [_entry_of(key, ending.get(key.kid)) for key in tenant.keys]
    advice = [f"All keys of the tenant {tenant.name}, from now on:", "", *_snippet([*kept, entry])]
    changed = _change(parsed, tenant.name, advice, ends=ending, new=entry)
    if parsed.write and changed == _OK:
        for key in old:
            last = ending.get(key.kid) or _written(key.expires_at)
            print(f"The key {key.kid} ends at {last}.", file=sys.stderr)
    print(text)
    return changed


def _revoke(parsed: argparse.Namespace) -> int:
    held = {key.kid: tenant for tenant in read_tenants(parsed.config, os.environ) for key in tenant.keys}
    if parsed.kid not in held:
        raise _Refused(f"no tenant has a key {parsed.kid!r}{did_you_mean(parsed.kid, held)}")
    tenant = held[parsed.kid]
    # A server would not take such a file, and go on with the key; or else it would ask the tenant's callers for none.
    if len(tenant.keys) == 1 and not tenant.disabled:
        raise _Refused(
            f"{parsed.kid} is the only key of the tenant {tenant.name}: make another one first, "
            "or say `disabled: true` there to let nobody in"
        )
    advice = [f"To be removed from the keys of the tenant {tenant.name}: the entry whose kid is {parsed.kid}."]
    return _change(parsed, tenant.name, advice, without=parsed.kid)


def _change(
    parsed: argparse.Namespace,
    tenant: str,
    advice: Sequence[str],
    *,
    ends: Mapping[str, str] | None = None,
    without: str | None = None,
    new: Entry | None = None,
) -> int:
    """Change the file if that was asked for, else say how to."""
    code = _OK
    if parsed.write:
        try:
            file = change_keys(parsed.config, tenant, ends=ends, without=without, new=new)
            print(f"{file}: changed the keys of the tenant {tenant}.", file=sys.stderr)
            return _OK
        except NotEditable:
            print(_BY_HAND, file=sys.stderr)
            code = _MISTAKES
    print("\n".join(advice), file=sys.stderr)
    return code


def _list(parsed: argparse.Namespace) -> int:
    tenants = read_tenants(parsed.config, os.environ)
    if parsed.tenant is not None:
        tenants = (_tenant(tenants, parsed.tenant),)
    now = time.time()
    rows = [_row(tenant, key, now) for tenant in tenants for key in tenant.keys]
    if parsed.json:
        print(json.dumps(rows, indent=1))
        return _OK
    names = ("tenant", "kid", "state", "not_before", "expires_at")
    table = [names, *(tuple(row[name] or "-" for name in names) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(names))]
    print("\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table))
    return _OK


def _row(tenant: Tenant, key: TenantKey, now: float) -> dict[str, str | None]:
    """The dates are those that hold: the key's and its tenant's together."""
    begins = [moment for moment in (tenant.not_before, key.not_before) if moment is not None]
    ends = [moment for moment in (tenant.expires_at, key.expires_at) if moment is not None]
    return {
        "tenant": tenant.name,
        "kid": key.kid,
        "state": state_of(Found(tenant, key), now),
        "not_before": _written(max(begins)) if begins else None,
        "expires_at": _written(min(ends)) if ends else None,
    }


def _check(parsed: argparse.Namespace) -> int:
    text = _read_key()
    wrong, key = flaw(text), parse(text)
    if wrong is not None or key is None:
        print(_FLAWS[wrong or "malformed"])
        return _MISTAKES
    if parsed.config is None:
        print(f"well-formed: its kid is {key.kid}; with --config it is looked up")
        return _OK
    tenants, pepper = read_tenants(parsed.config, os.environ), read_pepper(parsed.config, os.environ)
    found = KeyRing(tenants, pepper).find(text)
    if isinstance(found, AuthFailure):
        print(f"unknown: {_why_unknown(tenants, key.kid, pepper)}")
        return _MISTAKES
    state = state_of(found, time.time())
    print(f"{state}: the key {key.kid} of the tenant {found.tenant.name}")
    return _OK if state == "active" else _MISTAKES


def _why_unknown(tenants: Sequence[Tenant], kid: str, pepper: bytes | None) -> str:
    for tenant in tenants:
        for key in tenant.keys:
            if key.kid == kid and key.method == "hmac-sha256" and pepper is None:
                return f"the hash of the key {kid} of the tenant {tenant.name} needs a key_pepper, and there is none"
            if key.kid == kid:
                return f"the tenant {tenant.name} has a key {kid} of another hash, or key_pepper is another one"
    return f"no tenant has a key {kid}"


def _read_key() -> str:
    """Never from the arguments, which all processes of a machine can see."""
    if sys.stdin.isatty():
        return getpass.getpass("key: ").strip()
    return sys.stdin.buffer.readline(4096).decode("ascii", "replace").strip()


def _tenant(tenants: Sequence[Tenant], name: str) -> Tenant:
    known = {tenant.name: tenant for tenant in tenants}
    if name not in known:
        listed = did_you_mean(name, known) or f", there is {', '.join(known) or 'none'}"
        raise _Refused(f"no tenant is called {name!r}{listed}")
    return known[name]


def _entry_of(key: TenantKey, end: str | None) -> Entry:
    ends = {} if end is None else {"expires_at": end}
    return {**_entry(key.kid, f"{key.method}:{key.digest.hex()}", key.not_before, key.expires_at), **ends}


def _entry(kid: str, written_hash: str, begins: float | None, ends: float | None) -> Entry:
    dates = {"not_before": begins, "expires_at": ends}
    dated = {name: _written(moment) for name, moment in dates.items() if moment is not None}
    return {"kid": kid, "hash": written_hash, **dated}


def _snippet(entries: Sequence[Entry]) -> list[str]:
    lines = ["    keys:"]
    for entry in entries:
        first, *rest = (f"{name}: {value}" for name, value in entry.items())
        lines += [f"      - {first}", *(f"        {line}" for line in rest)]
    return lines


def _written(moment: float | None) -> str:
    return "never" if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


_ACTIONS = {"new": _new, "rotate": _rotate, "list": _list, "revoke": _revoke, "check": _check}
