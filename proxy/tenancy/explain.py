"""What a policy says of one request, rule by rule, for the operator who asks why.

The rules are not told again here: each is asked as for a client's request, and what it raises is what is shown.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import NamedTuple

from proxy.canonical.errors import Error, Reason, Rejected
from proxy.canonical.jsontext import NotJson, loads
from proxy.protocols.fields import Wire, is_object
from proxy.settings.tenants import EndpointClass, NameRules, Tenant
from proxy.tenancy.keys import Found, state_of
from proxy.tenancy.policy import Policy
from proxy.tenancy.repeats import refuse_repeats
from proxy.tenancy.tool_places import Client

Check = Callable[[], None] | None

_TOOL_FIELDS = {
    Reason.TOOL_DENIED: "tools.functions",
    Reason.HOSTED_TOOL_DENIED: "tools.hosted",
    Reason.MCP_DENIED: "tools.mcp_servers",
    Reason.MODEL_DENIED: "models",
}


class Question(NamedTuple):
    """A request as far as it is known; None is not known. `model` stands in for the one of the body, `raw`. `own_key`:
    see `Policy.check_endpoint`."""

    protocol: Client | None = None
    endpoint: EndpointClass | None = None
    ip: str | None = None
    model: str | None = None
    raw: bytes | None = None
    own_key: bool = False


class Verdict(NamedTuple):
    """`field`: as the configuration file calls it; `rule`: what it says there; `allowed`: None if it can't be told."""

    field: str
    rule: str
    allowed: bool | None
    why: str


def explain(policy: Policy, question: Question, now: float) -> Iterator[Verdict]:
    """In the order in which a request meets them."""
    tenant = policy.tenant
    yield _state(tenant, now)
    networks = None if tenant.ip_allow is None else [str(network) for network in tenant.ip_allow]
    ip, protocol, endpoint = question.ip, question.protocol, question.endpoint
    yield _asked("ip_allow", _listed(networks), ip, None if ip is None else partial(policy.check_address, ip))
    check = None if protocol is None else partial(policy.check_protocol, protocol)
    yield _asked("protocols", _listed(tenant.protocols), protocol, check)
    endpoints = _listed(tenant.endpoints)
    stored = "" if endpoints or endpoint != "stored" or question.own_key else "must be listed: the key is shared"
    check = None if endpoint is None else partial(policy.check_endpoint, endpoint, own_key=question.own_key)
    yield _asked("endpoints", endpoints or stored, endpoint, check)
    if question.raw is None:
        yield _model(policy, question.model or policy.default_model)
        yield from _unseen(tenant)
    else:
        yield from _body(policy, question, question.raw)


def _state(tenant: Tenant, now: float) -> Verdict:
    dates = (("disabled", tenant.disabled), ("not_before", tenant.not_before), ("expires_at", tenant.expires_at))
    state = state_of(Found(tenant, None), now)
    return Verdict("name", ", ".join(name for name, given in dates if given), state == "active", state)


def _model(policy: Policy, name: str | None) -> Verdict:
    check = None if name is None else partial(policy.check_model, name)
    return _asked("models", _names(policy.tenant.models.names), name, check)


def _asked(field: str, rule: str, known: str | None, check: Check) -> Verdict:
    if known is None or check is None:
        return Verdict(field, rule, None if rule else True, "not given" if rule else "no rule")
    try:
        check()
    except Rejected as rejected:
        return Verdict(field, rule, False, rejected.error.message)
    return Verdict(field, rule, True, known)


def _unseen(tenant: Tenant) -> Iterator[Verdict]:
    """The rules on what a body says, of which there is none."""
    for field, rule in _tool_rules(tenant).items():
        yield Verdict(field, rule, None if rule else True, "no request given" if rule else "no rule")
    most = tenant.limits.max_output_tokens
    told = f"{most}, {tenant.limits.on_excess_output}" if most is not None else ""
    refuses = most is not None and tenant.limits.on_excess_output == "refuse"
    yield Verdict(
        "limits.max_output_tokens", told, None if refuses else True, "no request given" if told else "no rule"
    )


def _body(policy: Policy, question: Question, raw: bytes) -> Iterator[Verdict]:
    tenant, client = policy.tenant, question.protocol
    most = tenant.limits.max_body_bytes
    fits = most is None or len(raw) <= most
    yield Verdict("limits.max_body_bytes", "" if most is None else str(most), fits, f"{len(raw)} bytes")
    wire = _decoded(raw)
    if isinstance(wire, str):
        yield Verdict("body", "", False, wire)
        return
    if client is None:
        yield Verdict("body", "", None, "the protocol is not given")
        return
    model = question.model or wire.get("model") or policy.default_model
    yield _model(policy, model if type(model) is str else None)
    if not policy.looks:
        yield Verdict("tools", "", True, "no rule")
        return
    try:
        refuse_repeats(raw, wire)
        refusals = [error for error in policy.judge(client, wire) if error is not None]
    except Rejected as rejected:
        yield Verdict("body", "can be read in one way only", False, rejected.error.message)
        return
    yield from _parts(tenant, refusals)
    yield _limited(policy, client, raw, wire)


def _decoded(raw: bytes) -> Wire | str:
    """The request, or what is wrong with it."""
    try:
        wire = loads(raw)
    except NotJson as error:
        return f"it is not valid JSON: {error}"
    return wire if is_object(wire) else "it is not a JSON object"


def _parts(tenant: Tenant, refusals: list[Error]) -> Iterator[Verdict]:
    rules = _tool_rules(tenant)
    for field, rule in rules.items():
        said = [error.message for error in refusals if _field(error) == field]
        for message in said:
            yield Verdict(field, rule, False, message)
        if not said:
            yield Verdict(field, rule, True, "nothing refused" if rule else "no rule")
    for error in refusals:
        if _field(error) not in rules:
            yield Verdict("models", _names(tenant.models.names), False, error.message)


def _field(error: Error) -> str:
    return _TOOL_FIELDS.get(error.reason, "models") if error.reason is not None else "models"


def _limited(policy: Policy, client: Client, raw: bytes, wire: Wire) -> Verdict:
    limits = policy.tenant.limits
    rule = "" if limits.max_output_tokens is None else f"{limits.max_output_tokens}, {limits.on_excess_output}"
    fitted = deepcopy(wire)
    try:
        policy.limit_output(client, raw, fitted)
    except Rejected as rejected:
        return Verdict("limits.max_output_tokens", rule, False, rejected.error.message)
    changes = (f"{name} becomes {value}" for name, value in fitted.items() if wire.get(name) != value)
    return Verdict("limits.max_output_tokens", rule, True, ", ".join(changes) or ("as asked" if rule else "no rule"))


# --- rules as text; empty where there is none ---


def _tool_rules(tenant: Tenant) -> dict[str, str]:
    tools = tenant.tools
    functions = [_names(tools.functions), "" if tools.most_functions is None else f"max {tools.most_functions}"]
    return {
        "tools.functions": "; ".join(filter(None, functions)),
        "tools.hosted": _names(tools.hosted),
        "tools.mcp_servers": _names(tools.mcp_servers),
    }


def _names(rules: NameRules) -> str:
    allow = "" if rules.allow is None else f"allow {_listed(rules.allow)}"
    deny = f"deny {_listed(rules.deny)}" if rules.deny else ""
    return "; ".join(filter(None, (allow, deny)))


def _listed(names: object) -> str:
    if names is None:
        return ""
    listed = sorted(names) if isinstance(names, frozenset) else names
    return ", ".join(map(str, listed if isinstance(listed, list | tuple) else ())) or "nothing"
