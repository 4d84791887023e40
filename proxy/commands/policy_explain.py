"""What becomes of one request of a tenant: each rule, and at the end where it would go and with whose key."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from proxy.canonical.jsontext import NotJson, loads
from proxy.settings import ModelRoute, RouteTarget, Settings, SettingsError, Upstream, load
from proxy.settings.tenants import Tenant
from proxy.tenancy.explain import Question, Verdict
from proxy.tenancy.explain import explain as explained
from proxy.tenancy.policy import Policy

_ALLOWED, _REFUSED, _UNTOLD = 0, 1, 2
_WORDS = {True: "allowed", False: "refused", None: "can't tell"}


def explain(parsed: argparse.Namespace) -> int:
    """The exit code: 0 allowed, 1 refused, 2 can't be told."""
    found = find_tenant(parsed.config, parsed.tenant)
    if found is None:
        return _UNTOLD
    settings, tenant = found
    try:
        raw = _read(parsed.request)
    except OSError as error:
        print(f"{parsed.request}: can't be read: {error.strerror}", file=sys.stderr)
        return _UNTOLD
    model = parsed.model or _model_of(raw) or tenant.models.default
    way = _way(settings, tenant, model)
    question = Question(parsed.protocol, parsed.endpoint, parsed.ip, parsed.model, raw, way.own_key)
    verdicts = [*explained(Policy(tenant), question, time.time()), *way.verdicts]
    _print(verdicts)
    answers = {verdict.allowed for verdict in verdicts}
    return _REFUSED if False in answers else _UNTOLD if None in answers else _ALLOWED


def find_tenant(config: str, name: str) -> tuple[Settings, Tenant] | None:
    """The tenant in its configuration; None, with what is wrong printed, if there is none."""
    try:
        settings = load(config, os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return None
    tenant = (settings.tenants or {}).get(name)
    if tenant is None:
        print(f"{config}: there is no tenant {name!r}", file=sys.stderr)
        return None
    return settings, tenant


def _read(file: str | None) -> bytes | None:
    if file is None:
        return None
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _model_of(raw: bytes | None) -> str | None:
    try:
        wire = loads(raw) if raw is not None else None
    except NotJson:
        return None
    model = wire.get("model") if type(wire) is dict else None
    return model if type(model) is str else None


class _Way(NamedTuple):
    """`verdicts`: on each target, in the order in which they are asked. `own_key`: no other tenant's requests are asked
    with the same key."""

    verdicts: list[Verdict]
    own_key: bool


def _way(settings: Settings, tenant: Tenant, model: str | None) -> _Way:
    if model is None:
        return _Way([Verdict("route", "", None, "no model is named")], False)
    route = settings.route(model)
    if route is None:
        return _Way([Verdict("route", "models", False, "no entry matches this name")], False)
    keys = [_key(tenant, target.upstream) for target in route.all_targets]
    some = not all(key.refused for key in keys[: len(route.targets)])
    verdicts: list[Verdict] = []
    for target, key in zip(route.all_targets, keys, strict=True):
        upstream = target.upstream
        told = f"{target.model or model} at {upstream.name} ({upstream.protocol}), with {key.whose}"
        part = "left out" if key.refused and some else _part(route, target)
        verdicts.append(Verdict("route", f"match {route.match}", some, f"{told}: {part}" if part else told))
    return _Way(verdicts, all(key.of_tenant for key in keys))


def _part(route: ModelRoute, target: RouteTarget) -> str:
    """What a target is for; nothing of one that is alone."""
    if target is route.on_context_length:
        return "for prompts that are too long for the others"
    if len(route.targets) == 1:
        return ""
    if target.weight is not None:
        return f"{target.weight / sum(each.weight or 0 for each in route.targets):.0%} of the load"
    first = target is route.targets[0] and all(each.weight is None for each in route.targets)
    return "first" if first else "when those before fail"


class _Key(NamedTuple):
    """`refused`: there is none to use. `of_tenant`: it is the tenant's alone."""

    refused: bool
    whose: str
    of_tenant: bool


def _key(tenant: Tenant, upstream: Upstream) -> _Key:
    """With which key the upstream is asked."""
    keys = tenant.upstream
    if keys.mode == "byok":
        if upstream.name not in keys.byok_upstreams:
            return _Key(True, "no key: upstream.byok_upstreams does not name it", True)
        return _Key(False, f"the caller's own key, from the header {keys.byok_header}", True)
    if upstream.name in keys.keys:
        return _Key(False, "the tenant's key of upstream.map", True)
    if upstream.api_key is None:
        return _Key(False, "no key: the upstream has none", False)
    return _Key(False, "the upstream's own key, which tenants share", False)


def _print(verdicts: list[Verdict]) -> None:
    rows = [(verdict.field, _WORDS[verdict.allowed], verdict.why, verdict.rule) for verdict in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for field, word, why, rule in rows:
        behind = f"  ({rule})" if rule else ""
        print(f"{field:{widths[0]}}  {word:{widths[1]}}  {why}{behind}")
