"""Whether a request may go on, and what it holds while it does: the one place for all endpoints (operations.md 1).

Around a handler stands `Admission`: it knows who calls, and settles at the end, whatever the end is. A handler has to
call `admit`, or one of its like, before it asks a backend; what has not been admitted can't (`Exchange.ask`).
"""

import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from types import TracebackType

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server import spending
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served, Way
from proxy.server.routing import Routing
from proxy.settings import LossPolicy, ModelRoute, Upstream
from proxy.settings.losses import UNSAID
from proxy.tenancy.keys import AuthFailure
from proxy.tenancy.kinds import declared
from proxy.tenancy.limits import Demand, Refused
from proxy.tenancy.policy import Policy
from proxy.tenancy.refusals import unknown_model
from proxy.tenancy.tenants import Caller
from proxy.translation import pair
from proxy.translation.pair import Peek
from proxy.upstream.dialects import Protocol

_DAY = frozenset({Reason.RPD, Reason.TPD})
_CHAT = ("/chat", "/completions")
_OF_TOKENS = frozenset({Reason.TPM, Reason.TPD})
_SAID = {
    Reason.RPM: "requests a minute",
    Reason.RPD: "requests a day",
    Reason.TPM: "tokens a minute",
    Reason.TPD: "tokens a day",
    Reason.CONCURRENCY: "requests at once",
}


@dataclass(slots=True)
class Admitted:
    """A request that may go on, and where to. `seen.raw` is what the policy made of the client's bytes. `routing`: of a
    model that has more than one target. `fill`: see `admit`."""

    seen: Peek
    route: ModelRoute
    way: Way
    routing: Routing | None
    fill: bool = True

    @property
    def served(self) -> Served:
        """The backend."""
        return self.way.served


class Admission:
    """Leaving it settles."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __enter__(self) -> "Admission":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spending.settle(self._exchange)

    def identify(self, *, kept: bool = False) -> None:
        """Find out who calls. Raises `Rejected` for whom the endpoint is not. `kept`: what it is about is kept for each
        tenant apart, so none can reach another's."""
        _identify(self._exchange, kept=kept)


def _identify(exchange: Exchange, *, kept: bool) -> None:
    gateway, request = exchange.gateway, exchange.request
    tenants, endpoint = gateway.tenants, exchange.endpoint
    if tenants is None or endpoint is None:  # a path that does not exist is told to anyone
        exchange.admitted = tenants is None
        return
    runtime, now = gateway.runtime, time.time()
    found = tenants.identify(request.headers, now)
    uses = runtime.metrics.tenants
    if isinstance(found, AuthFailure):
        uses.count_auth(found.reason)
        exchange.key_id = found.kid
        exchange.logged_reason = found.reason
        raise Rejected(_unauthenticated(found.reason))
    exchange.caller = found
    exchange.key_id = found.kid
    if found.keyed:
        runtime.key_uses[found.kid] = now
    policy = found.policy
    try:
        policy.check_address(exchange.client_ip)
    except Rejected:
        uses.count_auth(Reason.IP_DENIED)
        raise
    uses.count_auth(None)
    policy.check_protocol(exchange.client, of_both=exchange.client == "chat" and not exchange.route.startswith(_CHAT))
    policy.check_endpoint(endpoint, own_key=kept or found.tenant.upstream.mode != "shared")
    if (most := found.tenant.limits.max_body_bytes) is not None:
        exchange.body_limit = min(exchange.body_limit, most)


def _unauthenticated(reason: Reason) -> Error:
    """One text for all keys that are not good: which of the reasons it is, is in the log alone."""
    if reason is Reason.AUTH_MISSING:
        message = "You didn't provide an API key. Send it as a bearer token in Authorization, or in x-api-key."
        return Error(ErrorClass.AUTHENTICATION, message, reason=reason)
    return Error(ErrorClass.AUTHENTICATION, "Incorrect API key provided.", reason=Reason.AUTH_UNKNOWN)


async def admit(
    exchange: Exchange, raw: bytes, *, fill: bool = True, owners: Container[Protocol] | None = None
) -> Admitted:
    """A request for a model. Not `fill`: its endpoint knows no limit of the answer. `owners`: the protocols whose
    backends have it; None for what is translated. Raises `Rejected`."""
    admitted, demand = examine(exchange, raw, fill=fill, owners=owners)
    await _reserve(exchange, demand)
    return admitted


async def admit_without_model(exchange: Exchange, served: Served) -> None:
    """A request that names no model: it counts as one, and costs what its answer says. Raises `Rejected`."""
    if exchange.caller is not None:
        _check_account(exchange, exchange.caller, served)
    stream = exchange.request.rel_url.query.get("stream") == "true"  # of a stored response, once more
    await _reserve(exchange, spending.plain_demand(served, stream=stream))


async def admit_request(exchange: Exchange) -> None:
    """A request that no one backend answers. Raises `Rejected`."""
    await _reserve(exchange, Demand(0, 0, False, exchange.gateway.settings.timeouts.total_whole))


def examine(
    exchange: Exchange, raw: bytes, *, fill: bool = True, owners: Container[Protocol] | None = None
) -> tuple[Admitted, Demand]:
    """What the policy says of a request for a model, and what it will take. Raises `Rejected`."""
    gateway, caller = exchange.gateway, exchange.caller
    policy = caller.policy if caller is not None else None
    seen = pair.peek(exchange.client, raw, policy.default_model if policy is not None else None)
    exchange.model_requested = seen.model
    exchange.stream = seen.stream
    if seen.stream and exchange.endpoint == "generate":
        gateway.runtime.load.take_stream(gateway.settings.capacity, exchange)
    exchange.tools = declared(seen.wire.get("tools"))
    if (spans := exchange.spans) is not None:
        spans.note_request(seen.wire)
        if exchange.endpoint == "generate" and _may_record(exchange):
            spans.transcript.record_content(seen.raw)
    route = route_of(exchange, seen.model)
    exchange.raw = raw
    ways = gateway.ways[route.match]
    way, routing = ways[0], None
    if len(ways) > 1:
        fitting = ways if owners is None else [each for each in ways if each.served.backend.protocol in owners]
        open_to = [each for each in fitting if caller is None or _is_open(exchange, caller, each)]
        routing = Routing(exchange, open_to or fitting or ways, seen)
        way = routing.first()
    served = exchange.served = way.served
    admitted = Admitted(seen, route, way, routing, fill)
    if caller is None or policy is None:
        return admitted, spending.NOTHING
    _check_account(exchange, caller, served)
    if policy.looks:
        passed_on = exchange.endpoint != "generate" or any(
            each.protocol == exchange.client for each in _backends(route)
        )
        policy.check_request(exchange.client, seen.raw, seen.wire, passed_on=passed_on)
    if policy.limits_output and exchange.endpoint == "generate":
        _limit_output(exchange, policy, seen, served, fill=fill)
    return admitted, spending.demand(exchange, caller, seen, route)


def read_again(exchange: Exchange, served: Served, *, fill: bool) -> Peek:
    """An admitted request once more, for this backend: as the client sent it, within what the policy allows."""
    policy = exchange.caller.policy if exchange.caller is not None else None
    seen = pair.peek(exchange.client, exchange.raw or b"", policy.default_model if policy is not None else None)
    if policy is not None and policy.limits_output and exchange.endpoint == "generate":
        _limit_output(exchange, policy, seen, served, fill=fill)
    return seen


def _limit_output(exchange: Exchange, policy: Policy, seen: Peek, served: Served, *, fill: bool) -> None:
    unset = served.backend.dialect.max_tokens_key if exchange.client == "chat" else None
    seen.raw = policy.limit_output(exchange.client, seen.raw, seen.wire, unset, fill=fill)


def _backends(route: ModelRoute) -> Iterator[Upstream]:
    return (target.upstream for target in route.all_targets)


def _is_open(exchange: Exchange, caller: Caller, way: Way) -> bool:
    try:
        _check_account(exchange, caller, way.served)
    except Rejected:
        return False
    return True


def _may_record(exchange: Exchange) -> bool:
    """Whether the policy lets the conversation be recorded, where it is switched on (operations.md 3.1)."""
    traces, caller = exchange.gateway.settings.traces, exchange.caller
    if traces is None or traces.content == "NO_CONTENT":
        return False
    return caller is None or caller.tenant.log_content == "allow"


def _check_account(exchange: Exchange, caller: Caller, served: Served) -> None:
    """Whether the backend may be asked with the key that there is for it. Raises `Rejected`."""
    account = exchange.account(served.backend)
    if exchange.endpoint == "stored":
        caller.policy.check_endpoint("stored", own_key=account.key is not None)


def route_of(exchange: Exchange, model: str) -> ModelRoute:
    """Where a model goes for this caller. Raises `Rejected`, class MODEL_NOT_FOUND, in one text for what is unknown
    and what is not allowed."""
    caller = exchange.caller
    if caller is not None:
        caller.policy.check_model(model)
    route = exchange.gateway.settings.route(model)
    if route is None:
        raise Rejected(unknown_model(model))
    exchange.alias = route.match
    exchange.loss_policy = _loss_policy(route, caller)
    return route


def _loss_policy(route: ModelRoute, caller: Caller | None) -> LossPolicy:
    """The strictest of what the model's entry and the tenant say."""
    own = caller.tenant.loss if caller is not None else None
    if route.loss is None or own is None:
        return route.loss or own or UNSAID
    return route.loss.with_other(own)


async def _reserve(exchange: Exchange, demand: Demand) -> None:
    """Take what the request needs, all or nothing, exactly once. Raises `Rejected`."""
    caller = exchange.caller
    if caller is not None:
        if exchange.lease is not None:
            raise RuntimeError("An exchange reserves once")
        runtime = exchange.gateway.runtime
        taken = await runtime.limiter.reserve(caller.tenant, demand)
        exchange.windows = taken.windows
        if isinstance(taken, Refused):
            runtime.use_of(caller.tenant).limited[taken.reason.value] += 1
            raise Rejected(_limited(taken))
        exchange.lease = taken
    exchange.admitted = True


def _limited(refused: Refused) -> Error:
    reason = refused.reason
    if reason is Reason.BUDGET:
        message = "You exceeded your current quota: the budget of this key's team is used up."
        return Error(ErrorClass.QUOTA, message, reason=reason)
    if reason not in _SAID:
        message = "The limits of this key can't be checked now. Try again soon."
        return Error(ErrorClass.OVERLOADED, message, reason=Reason.OVERLOADED, retry_after=1)
    message = f"Rate limit reached: this key's team has used its {_SAID[reason]}."
    if reason in _OF_TOKENS:
        message = f"Rate limit reached: this key's team has less left of its {_SAID[reason]} than this request may use."
    error = Error(ErrorClass.RATE_LIMIT, message, "rate_limit_exceeded", reason=reason)
    error.type = "tokens" if reason in _OF_TOKENS else "requests"
    if reason in _DAY or refused.retry_after is None:
        error.should_retry = False  # it would wait for hours
    else:
        error.retry_after = refused.retry_after
    return error
