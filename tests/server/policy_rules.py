"""What a tenant's policy can refuse, by what request and where: one row a rule, a reason for each exception."""

import dataclasses
import time
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_network

from proxy.canonical.errors import Reason
from proxy.settings.losses import LossPolicy
from proxy.settings.tenants import Budget, EndpointClass, ModelRules, NameRules, Price, TenantLimits, ToolRules
from tests.server.routes import Route
from tests.server.tenancy import ENTRY, OTHER_KEY, bearer

EVERYTHING: frozenset[EndpointClass] = frozenset(typing.get_args(EndpointClass))
PRICES = (Price("*", 0, 1_000_000_000, 0, 0, 0, 0),)  # an output token costs 1000 micro-dollars
# After which there is nothing left of any limit below.
USING_UP = {"model": "on-chat", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
NO_NAMES = NameRules(())

STATUS = {
    Reason.AUTH_MISSING: 401,
    Reason.AUTH_UNKNOWN: 401,
    Reason.IP_DENIED: 403,
    Reason.PROTOCOL_DENIED: 403,
    Reason.ENDPOINT_DENIED: 403,
    Reason.MODEL_DENIED: 404,
    Reason.TOOL_DENIED: 403,
    Reason.HOSTED_TOOL_DENIED: 403,
    Reason.MCP_DENIED: 403,
    Reason.BODY_TOO_LARGE: 413,
    Reason.MALFORMED: 400,
    Reason.LOSS_REFUSED: 400,
    Reason.RPM: 429,
    Reason.RPD: 429,
    Reason.TPM: 429,
    Reason.TPD: 429,
    Reason.CONCURRENCY: 429,
    Reason.BUDGET: 429,
}


def everywhere(_route: Route) -> bool:
    return True


def has_body(route: Route) -> bool:
    return route.has_body


def names_model(route: Route) -> bool:
    return route.names_model


def says_tools(route: Route) -> bool:
    """A request that is looked into. The files of OpenAI's batches can't be, so there the batch is refused instead."""
    return route.has_body and route.path != "/batches"


def makes_answer(route: Route) -> bool:
    """Only an answer has tokens to limit: what is counted, stored or measured has none."""
    return route.kind == "generate" or (route.in_batch and route.path == "/messages/batches")


def may_stream(route: Route) -> bool:
    """A batch is fetched later, and nobody streams a list."""
    return route.has_body and not route.in_batch


def generates_in_translation(route: Route) -> bool:
    """What passes loses nothing; a count that can't be asked exactly is estimated, and says so."""
    return route.handler == "generate" and route.translated


@dataclass(frozen=True)
class Rule:
    """A tenant who is refused, where, why, and by what request.

    `members`: of the request. `used_up`: something is asked first. `held`: a stream stays open meanwhile. `hides`:
    requests that nobody can look into are refused as such.
    """

    reason: Reason
    fields: dict[str, object]
    where: Callable[[Route], bool] = everywhere
    headers: dict[str, str] = field(default_factory=bearer)
    members: Callable[[Route], dict[str, object]] = lambda _route: {}
    used_up: bool = False
    held: bool = False
    hides: bool = False

    def expected(self, route: Route) -> Reason | None:
        """None: the rule has nothing to say there."""
        limits = self.fields.get("limits")
        budget = limits.budget if isinstance(limits, TenantLimits) else None
        if budget is not None and route.path.startswith(("/audio", "/images")):
            return Reason.ENDPOINT_DENIED  # what they cost can't be told
        if route.path == "/batches" and route.has_body and (self.hides or self.counts):
            return Reason.ENDPOINT_DENIED  # requests in a file can't be looked into
        if route.path == "/messages/batches" and route.has_body and self.counts:
            return Reason.ENDPOINT_DENIED  # what they use is known only after hours
        return self.reason if self.where(route) else None

    def status(self, reason: Reason, route: Route) -> int:
        """What is answered with the reason (operations.md 10)."""
        return 402 if reason is Reason.BUDGET and route.client == "messages" else STATUS[reason]

    @property
    def counts(self) -> bool:
        """Whether what answers use must be known."""
        limits = self.fields.get("limits")
        return isinstance(limits, TenantLimits) and limits.counts_tokens


def limits(**fields: object) -> dict[str, object]:
    return {"limits": TenantLimits(**fields)}  # type: ignore[arg-type]


def tools(**fields: object) -> dict[str, object]:
    return {"tools": ToolRules(**fields)}  # type: ignore[arg-type]


def a_function(route: Route) -> dict[str, object]:
    if route.client == "messages":
        return {"tools": [{"name": "f", "input_schema": {"type": "object"}}]}
    if route.client == "responses":
        return {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}


def a_hosted_tool(route: Route) -> dict[str, object]:
    match route.client:
        case "messages":
            return {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
        case "responses":
            return {"tools": [{"type": "web_search"}]}
        case _:
            return {"web_search_options": {}}


def an_mcp_server(route: Route) -> dict[str, object]:
    if route.client == "messages":
        return {"mcp_servers": [{"type": "url", "url": "https://mcp.example.org/", "name": "a"}]}
    return {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://mcp.example.org/"}]}


def too_long(_route: Route) -> dict[str, object]:
    return {"padding": "x" * 2000}


def too_many_tokens(route: Route) -> dict[str, object]:
    return {"max_output_tokens" if route.client == "responses" else "max_tokens": 101}


def streamed(_route: Route) -> dict[str, object]:
    return {"stream": True}


def a_loss(route: Route) -> dict[str, object]:
    """What no backend of another protocol takes."""
    return {
        "chat": {"seed": 7, "logit_bias": {"1": 1}},
        "completions": {"suffix": "x", "echo": True},
        "responses": {"truncation": "auto", "max_tool_calls": 3},
        "messages": {"top_k": 5},
    }[route.client]


_PAST, _FUTURE = time.time() - 3600, time.time() + 3600

RULES: dict[str, Rule] = {
    "no key": Rule(Reason.AUTH_MISSING, {}, headers={}),
    "another's key": Rule(Reason.AUTH_UNKNOWN, {}, headers=bearer(OTHER_KEY)),
    "a key with a wrong secret": Rule(Reason.AUTH_UNKNOWN, {"keys": (dataclasses.replace(ENTRY, digest=bytes(32)),)}),
    "a hash of another method": Rule(Reason.AUTH_UNKNOWN, {"keys": (dataclasses.replace(ENTRY, method="sha256"),)}),
    "an expired key": Rule(Reason.AUTH_UNKNOWN, {"keys": (dataclasses.replace(ENTRY, expires_at=_PAST),)}),
    "a key not valid yet": Rule(Reason.AUTH_UNKNOWN, {"keys": (dataclasses.replace(ENTRY, not_before=_FUTURE),)}),
    "no keys": Rule(Reason.AUTH_UNKNOWN, {"keys": ()}),
    "a disabled tenant": Rule(Reason.AUTH_UNKNOWN, {"disabled": True}),
    "an expired tenant": Rule(Reason.AUTH_UNKNOWN, {"expires_at": _PAST}),
    "a tenant not valid yet": Rule(Reason.AUTH_UNKNOWN, {"not_before": _FUTURE}),
    "ip_allow": Rule(Reason.IP_DENIED, {"ip_allow": (ip_network("10.0.0.0/8"),)}),
    "protocols": Rule(Reason.PROTOCOL_DENIED, {"protocols": frozenset()}),
    "endpoints": Rule(Reason.ENDPOINT_DENIED, {"endpoints": frozenset()}),
    **{
        f"endpoints without {kind}": Rule(
            Reason.ENDPOINT_DENIED,
            {"endpoints": EVERYTHING - {kind}},
            where=lambda route, kind=kind: route.kind == kind,
        )
        for kind in sorted(EVERYTHING)
    },
    "stored, by default": Rule(Reason.ENDPOINT_DENIED, {"endpoints": None}, where=lambda route: route.kind == "stored"),
    "models.allow": Rule(
        Reason.MODEL_DENIED, {"models": ModelRules(NameRules(("another",)))}, where=names_model, hides=True
    ),
    "models.deny": Rule(
        Reason.MODEL_DENIED, {"models": ModelRules(NameRules(None, ("on-*",)))}, where=names_model, hides=True
    ),
    "functions": Rule(Reason.TOOL_DENIED, tools(functions=NO_NAMES), where=says_tools, members=a_function, hides=True),
    "functions.max": Rule(
        Reason.TOOL_DENIED, tools(most_functions=0), where=says_tools, members=a_function, hides=True
    ),
    "hosted": Rule(
        Reason.HOSTED_TOOL_DENIED, tools(hosted=NO_NAMES), where=says_tools, members=a_hosted_tool, hides=True
    ),
    "mcp_servers": Rule(
        Reason.MCP_DENIED, tools(mcp_servers=NO_NAMES), where=says_tools, members=an_mcp_server, hides=True
    ),
    "max_body_bytes": Rule(Reason.BODY_TOO_LARGE, limits(max_body_bytes=50), where=has_body, members=too_long),
    "max_output_tokens": Rule(
        Reason.MALFORMED,
        limits(max_output_tokens=100, on_excess_output="refuse"),
        where=makes_answer,
        members=too_many_tokens,
        hides=True,
    ),
    "rpm": Rule(Reason.RPM, limits(rpm=1), used_up=True),
    "rpd": Rule(Reason.RPD, limits(rpd=1), used_up=True),
    "tpm": Rule(Reason.TPM, limits(tpm=10), used_up=True),
    "tpd": Rule(Reason.TPD, limits(tpd=2000), used_up=True),
    "budget": Rule(Reason.BUDGET, limits(budget=Budget(1000)), used_up=True),
    "concurrency": Rule(Reason.CONCURRENCY, limits(concurrency=1), held=True),
    "streams": Rule(Reason.CONCURRENCY, limits(streams=1), where=may_stream, members=streamed, held=True),
    "loss": Rule(
        Reason.LOSS_REFUSED, {"loss": LossPolicy(strict=True)}, where=generates_in_translation, members=a_loss
    ),
}
