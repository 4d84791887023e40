"""A tenant's policy as the server has it: the tenant's own fields over `tenant_defaults`, as YAML, without secrets.

What is absent is a comment that says what its absence means, since products differ in that.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import yaml

from proxy.commands.policy_explain import find_tenant
from proxy.settings import LossPolicy
from proxy.settings.tenants import NameRules, Tenant, TenantLimits, UpstreamKeys

_OK, _UNUSABLE = 0, 2
_MASK = "'**********'"
_END = "...\n"  # which YAML puts behind a scalar alone
_UNLIMITED = "no limit"
# Of `limits`, in the order of the file.
_LIMITS = ("rpm", "rpd", "tpm", "tpd", "concurrency", "streams")


def show(config: str, name: str) -> int:
    """Print the policy; the result is the exit code."""
    found = find_tenant(config, name)
    if found is None:
        return _UNUSABLE
    print("\n".join(policy_lines(found[1])))
    return _OK


def policy_lines(tenant: Tenant) -> Iterator[str]:
    """The policy as lines of YAML."""
    yield "# The effective policy: the tenant's own fields over tenant_defaults. An empty list allows nothing."
    yield _line("name", tenant.name)
    yield _line("disabled", tenant.disabled)
    yield _or_absent("not_before", _moment(tenant.not_before), "it is good at once")
    yield _or_absent("expires_at", _moment(tenant.expires_at), "it never ends")
    yield from _keys(tenant)
    yield _or_absent("protocols", _sorted(tenant.protocols), "all")
    yield _or_absent("endpoints", _sorted(tenant.endpoints), "all, but what is stored with a key that tenants share")
    yield "models:"
    yield from _names(tenant.models.names, "all", "none")
    yield "  " + _or_absent("default", tenant.models.default, "a request must name its model")
    yield from _upstream(tenant.upstream)
    yield "tools:"
    yield "  functions:"
    yield from _names(tenant.tools.functions, "all", "none", "    ")
    yield "    " + _or_absent("max", tenant.tools.most_functions, "any number")
    yield "  hosted:"
    yield from _names(tenant.tools.hosted, "all", "none", "    ")
    yield "  mcp_servers:"
    yield from _names(tenant.tools.mcp_servers, "all", "none", "    ")
    yield from _limits(tenant.limits)
    networks = None if tenant.ip_allow is None else list(map(str, tenant.ip_allow))
    yield _or_absent("ip_allow", networks, "any address")
    yield _or_absent("loss", None if tenant.loss is None else _loss(tenant.loss), "as the model's entry says")
    yield _line("log_content", tenant.log_content)
    yield _line("audit_denials", tenant.audit_denials)
    yield _line("metadata", dict(tenant.metadata))
    yield _line("forward_metadata", list(tenant.forward_metadata))


def _line(name: str, value: object) -> str:
    written = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return f"{name}: {written.removesuffix(_END).strip()}"


def _or_absent(name: str, value: object, meaning: str) -> str:
    return f"# {name} is absent: {meaning}" if value is None else _line(name, value)


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _keys(tenant: Tenant) -> Iterator[str]:
    if not tenant.keys:
        meaning = "who brings a backend's key needs none" if tenant.upstream.mode == "byok" else "nobody can use it"
        yield f"keys: []  # {meaning}"
        return
    yield "keys:"
    for key in tenant.keys:
        yield "  - " + _line("kid", key.kid)
        yield f"    hash: {_MASK}  # {key.method}"
        for name, moment in (("not_before", key.not_before), ("expires_at", key.expires_at)):
            if moment is not None:
                yield "    " + _line(name, _moment(moment))


def _names(rules: NameRules, absent: str, empty: str, indent: str = "  ") -> Iterator[str]:
    yield indent + _or_absent("allow", None if rules.allow is None else list(rules.allow), absent)
    yield indent + (_line("deny", list(rules.deny)) if rules.deny else f"deny: []  # {empty}")


def _upstream(keys: UpstreamKeys) -> Iterator[str]:
    yield "upstream:"
    yield "  " + _line("mode", keys.mode)
    if keys.mode == "map":
        yield "  map:"
        for name in sorted(keys.keys):
            yield f"    {name}: {{api_key: {_MASK}}}"
        yield "  # upstreams that map does not name: their own keys"
    if keys.mode == "byok":
        yield "  " + _line("byok_header", keys.byok_header)
        yield "  " + _line("byok_upstreams", sorted(keys.byok_upstreams))


def _limits(limits: TenantLimits) -> Iterator[str]:
    yield "limits:"
    for name in _LIMITS:
        yield "  " + _or_absent(name, getattr(limits, name), _UNLIMITED)
    yield "  " + _or_absent("max_body_bytes", limits.max_body_bytes, "the server's own, max_body")
    yield "  " + _or_absent("max_output_tokens", limits.max_output_tokens, _UNLIMITED)
    yield "  " + _line("on_excess_output", limits.on_excess_output)
    yield "  " + _line("timezone", limits.timezone.key)
    budget = limits.budget
    if budget is None:
        yield f"  # budget is absent: {_UNLIMITED}"
        return
    yield "  budget:"
    usd = budget.limit / 1e6
    yield "    " + _line("usd", int(usd) if usd.is_integer() else usd)
    yield "    " + _line("period", budget.period)
    yield "    " + _or_absent("anchor", budget.anchor, "Mondays, or the first of the month")
    yield "    " + _line("timezone", budget.timezone.key)
    yield "    " + _line("hard", budget.hard)


def _loss(loss: LossPolicy) -> dict[str, object]:
    told: dict[str, object] = {"mode": "strict" if loss.strict else "report" if loss.shown else "off"}
    if loss.refused:
        told["refuse"] = sorted(rule.value for rule in loss.refused)
    if loss.ignored:
        told["ignore"] = sorted(rule.value for rule in loss.ignored)
    return told
