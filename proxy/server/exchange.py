"""One request of a client, from its first byte to its record: who it is, what its replies carry, what is told of it.

Handlers of endpoints get one and do the rest. Whatever they answer goes through `respond` or `begin`, so that no
reply leaves without its ids and no error in another shape than the client's.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict
from yarl import URL

from proxy.canonical.errors import Error, Reason
from proxy.canonical.loss import Loss
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.server import ids, rate_limits, spans
from proxy.server.arrival import trace_context_of, trusted_id
from proxy.server.failures import Failure, Outcome, failure_of
from proxy.server.gateway import Gateway, Served
from proxy.server.rate_limits import Family
from proxy.server.reply import Reply
from proxy.server.reply_headers import (
    Header,
    error_headers,
    header_text,
    limits_told,
    loss_header,
    remaining,
    tells_limits,
)
from proxy.server.times import Times
from proxy.server.transcript import RecordedResponse
from proxy.server.turns import Turn
from proxy.server.watch import Watch
from proxy.settings.losses import UNSAID
from proxy.settings.tenants import EndpointClass, Price
from proxy.telemetry.now import Open
from proxy.telemetry.scrubber import ManySecrets
from proxy.tenancy.addresses import client_ip
from proxy.tenancy.estimates import Learnt
from proxy.tenancy.kinds import NO_TOOLS
from proxy.tenancy.limits import Lease, Window
from proxy.tenancy.tenants import Caller
from proxy.translation import pair
from proxy.translation.codecs import ClientProtocol
from proxy.translation.envelope import Scope
from proxy.translation.prepared import Prepared
from proxy.upstream.account import SHARED, Account
from proxy.upstream.attempt import Attempt
from proxy.upstream.backend import Backend, write_key
from proxy.upstream.headers import client_account
from proxy.upstream.pool import Answer, Body

SERVER = "dragoman"
JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"

# Headers of an answer that say what its body is.
_ABOUT_BODY = ("Content-Type", "Content-Disposition")


class Exchange:
    """`client` is the protocol that the client's path speaks; `route` names the endpoint in records; `endpoint`: its
    class in tenants' policies, None for a path that does not exist.

    `admitted`: a backend may be asked (see `admission.py`). `counting`: what the answer used must be known; `spent` is
    that, in the end, and `cost` what it cost, in micro-dollars. `logged_reason`: the true one where the client is told
    another. `turn`: what is to be kept of it; `memory`: what its connection remembers, of a WebSocket. `alias`: the
    pattern of the configuration that the model matched. `failure`: what went wrong, if it did. `tools`: those that the
    request declares.

    `raw`: the client's request, as long as it may have to be read again. `alive`: the backend has begun to answer.
    `resends`: how often the same was asked of the same backend before. `fallback_from`: the upstream in whose place
    another was asked. `answered_in_part`: of several answers to one request, one is complete. `price_beside`: the
    dearest of models that the request itself names beside its own.
    """

    __slots__ = (
        "_backend_headers",
        "_credentials",
        "_extra",
        "admitted",
        "alias",
        "alive",
        "answered_in_part",
        "body_limit",
        "bytes_in",
        "bytes_out",
        "caller",
        "client",
        "client_ip",
        "context",
        "cost",
        "counting",
        "endpoint",
        "failure",
        "fallback_from",
        "first_token",
        "gateway",
        "id",
        "key_id",
        "learnt",
        "lease",
        "logged_reason",
        "loss_policy",
        "memory",
        "model",
        "model_requested",
        "outcome",
        "prepared",
        "price",
        "price_beside",
        "prompt_estimate",
        "raw",
        "reason",
        "refused_losses",
        "request",
        "resends",
        "route",
        "served",
        "spans",
        "spent",
        "status",
        "stop",
        "stream",
        "times",
        "tools",
        "turn",
        "upstream_id",
        "usage",
        "watch",
        "windows",
    )

    def __init__(
        self,
        gateway: Gateway,
        request: BaseRequest,
        client: ClientProtocol,
        route: str,
        endpoint: EndpointClass | None = None,
    ) -> None:
        self.gateway = gateway
        self.request = request
        self.client: ClientProtocol = client
        self.route = route
        self.endpoint = endpoint
        settings = gateway.settings
        trusted = settings.trusted_proxies
        self.client_ip = client_ip(request.remote, request.headers, trusted) if trusted else request.remote
        self.id = trusted_id(request, settings) or ids.request_id()
        self.context = trace_context_of(request, settings)
        tracing = gateway.runtime.span_export is not None
        self.spans = spans.begin(self.context, traces) if tracing and (traces := settings.traces) is not None else None
        self.watch = Watch()
        self.times = Times()
        self.first_token: float | None = None
        self.alias: str | None = None
        self.failure: Failure | None = None
        self.served: Served | None = None
        self.prepared: Prepared | None = None
        self.turn: Turn | None = None
        self.memory: dict[str, bytes] | None = None
        self.loss_policy = UNSAID
        self.model_requested: str | None = None
        self.model: str | None = None
        self.upstream_id: str | None = None
        self.stream = False
        self.status = 0
        self.outcome: Outcome = "proxy_error"
        self.reason: str | None = None
        self.stop: Stop | None = None
        self.usage: Usage | None = None
        self.bytes_in = 0
        self.bytes_out = 0
        self.refused_losses: list[Loss] = []
        self.body_limit = settings.max_body
        self.admitted = False
        self.alive = False
        self.answered_in_part = False
        self.raw: bytes | None = None
        self.resends = 0
        self.fallback_from: str | None = None
        self.counting = False
        self.caller: Caller | None = None
        self.key_id: str | None = None
        self.logged_reason: Reason | None = None
        self.lease: Lease | None = None
        self.windows: Sequence[Window] = ()
        self.prompt_estimate = 0
        self.learnt: Learnt | None = None
        self.price: Price | None = None
        self.price_beside: Price | None = None
        self.spent: Usage | None = None
        self.tools = NO_TOOLS
        self.cost: int | None = None
        self._backend_headers: list[Header] = []
        self._credentials: dict[str, Account] = {}
        self._extra: list[Header] = []

    @property
    def trace(self) -> str:
        """The trace id, whether or not anyone records the trace."""
        return self.context.trace

    @property
    def sampled_trace(self) -> str | None:
        """The trace id for who wants to refer to a trace that can be looked at, such as an exemplar."""
        return self.context.trace if self.spans is not None else None

    @property
    def losses(self) -> list[Loss]:
        """What has been lost, or refused, by now."""
        return self.prepared.losses if self.prepared is not None else self.refused_losses

    @property
    def tenant_name(self) -> str:
        """Empty where there are no tenants."""
        return self.caller.tenant.name if self.caller is not None else ""

    @property
    def begun(self) -> bool:
        """Whether the client has a status already."""
        return self.status != 0

    def seen_open(self) -> Open:
        """As a scrape sees it."""
        served = self.served
        return Open(self.client, served.backend.protocol if served else None, self.stream and self.status == 200)

    # ---- the backend's side

    async def ask(
        self,
        backend: Backend,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        method: str = "POST",
        *,
        prepared: Prepared | None = None,
        resends: int = 0,
    ) -> Answer:
        """Ask a backend: the one way to it. With a key that it refuses, and that has just replaced another, it is asked
        once more with that. `prepared`: what is asked; `resends`: how often it has been asked before. Raises
        `Rejected`."""
        if not self.admitted:
            raise RuntimeError("A backend is asked for an exchange that was not admitted")
        answer = await self._ask(backend, url, headers, body, method, prepared, resends)
        if answer.status != 401 or (older := self._older_key(backend, body)) is None:
            return answer
        answer.close()
        headers[backend.key_header] = write_key(backend.key_header, older)
        return await self._ask(backend, url, headers, body, method, prepared, resends + 1)

    async def _ask(
        self,
        backend: Backend,
        url: URL,
        headers: CIMultiDict[str],
        body: Body,
        method: str,
        prepared: Prepared | None,
        resends: int,
    ) -> Answer:
        served = self.gateway.served.get(backend.name)
        self.times.attempts.append(attempt := Attempt(backend.name, served.health if served is not None else None))
        span = None
        if self.spans is not None:
            span = self.spans.call(attempt, backend, url, prepared, resends + self.resends, self.model).id
        if backend.settings.trace_forward == "traceparent":
            headers.update(self.context.headers(span, sampled=span is not None or self._passes_sampled))
        return await self.gateway.runtime.pool.start(backend, url, headers, body, method, attempt)

    @property
    def _passes_sampled(self) -> bool:
        """Whether a caller that may be believed records the trace, and nobody here has a say in it."""
        return bool(self.context.sampled) and self.gateway.runtime.span_export is None

    def _older_key(self, backend: Backend, body: Body) -> str | None:
        """The key that the upstream had before its present one, where that may still be good."""
        older = backend.older
        if older is None or time.monotonic() > older.until or self.account(backend) is not SHARED:
            return None
        return older.key.get_secret_value() if body is None or isinstance(body, bytes) else None

    def account(self, backend: Backend) -> Account:
        """With whose key the backend is asked for this client. Raises `Rejected` if it may not be."""
        caller = self.caller
        account = client_account(backend, self.request.headers) if caller is None else caller.account(backend.name)
        return self._credentials.get(backend.name, account) if account is SHARED else account

    def change_credential(self, served: Served, model: str) -> bool:
        """Ask the backend with the first of its own keys that is of use for the model. False: with none other than now,
        or none of its own."""
        backend = served.backend
        if (now := self.account(backend)) not in backend.accounts:
            return False
        for account in backend.accounts:
            if not served.health.spares(account.digest, model):
                self._credentials[backend.name] = account
                return account is not now
        return False

    def note_alive(self, served: Served) -> None:
        """The backend has begun to answer."""
        self.alive = True
        served.health.succeeded()

    def forget_answer(self) -> None:
        """Another attempt follows: what the one before said is not told."""
        self.alive = False
        self.upstream_id = None
        self.usage = self.stop = self.spent = self.first_token = self.prepared = None
        self.times.first_event = None
        self._backend_headers = []

    def scope(self, backend: Backend) -> Scope:
        """Whose envelopes this client may bring back to the backend."""
        return self.gateway.scope(backend, self.account(backend), self.tenant_name)

    # ---- what the client gets

    def respond(self, status: int, body: bytes, content_type: str = JSON) -> Reply:
        """A whole reply."""
        self.raw = None
        self.status = status
        self.bytes_out = len(body)
        if status < 400:
            self.outcome = "ok"
            if self.spans is not None:
                self.spans.transcript.tell(body)
        response = Reply(status, self._headers(content_type), body)
        if self.gateway.runtime.draining:
            response.force_close()
        return response

    async def begin(self) -> StreamResponse:
        """The head of an event stream; it is sent when this returns."""
        headers = self._headers(EVENTS)
        headers += (("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))
        return await self._begin(200, CIMultiDict(headers))

    async def begin_copy(self, answer: Answer) -> StreamResponse:
        """The head of a reply whose body is copied from the backend's answer."""
        headers = CIMultiDict(self._headers("application/octet-stream"))
        for name in _ABOUT_BODY:
            if (value := answer.headers.get(name)) is not None:
                headers[name] = header_text(self.scrub(value))
        return await self._begin(answer.status, headers)

    async def _begin(self, status: int, headers: CIMultiDict[str]) -> StreamResponse:
        self.raw = None
        self.status = status
        if self.spans is None:
            response = StreamResponse(status=status, headers=headers)
        else:
            response = RecordedResponse(self.spans.transcript, status, headers)
        if self.gateway.runtime.draining:
            response.force_close()
        await response.prepare(self.request)
        return response

    def refuse(self, error: Error, status: int | None = None) -> Reply:
        """The error in the client's own shape, with the status of its class unless another is given."""
        by_class, body = pair.write_client_error(self.client, self.hide(error), self.id)
        return self.refuse_as_told(error, status or by_class, body)

    def refuse_as_told(self, error: Error, status: int, body: bytes) -> Reply:
        """An error whose body is there already: `error` only tells what its headers say."""
        self.note_error(error)
        self._extra.extend(error_headers(error))
        return self.respond(status, body)

    def note_error(self, error: Error) -> None:
        """Remember for the record that the exchange ended in this error."""
        reason = self.logged_reason or error.reason
        self.reason = reason.value if reason is not None else error.kind.value
        self.failure = failure_of(error, reason)
        self.outcome = self.failure.outcome

    def hide(self, error: Error) -> Error:
        """The error without secrets in its text. A client's own key is its own business, but no harm is done."""
        return error.scrubbed(self.scrub)

    @property
    def scrub(self) -> Callable[[str], str]:
        """Takes secrets out of a text: those of the configuration, and those of the tenant. It does not refer back to
        the exchange, which may come to hold what holds it."""
        caller, scrub = self.caller, self.gateway.scrub
        if caller is None or not caller.tenant.upstream.keys:
            return scrub
        return lambda text: scrub(caller.scrub(text))

    def scrub_all(self, text: str) -> str:
        """The same for records, which must not show a client's own key either."""
        shown = self.scrub(text)
        key = self.account(self.served.backend).key if self.served is not None else None
        return shown if key is None else ManySecrets([key])(shown)

    def add_header(self, name: str, value: str) -> None:
        """A further header for the reply, when it has not begun."""
        self._extra.append((name, header_text(value)))

    # ---- what is known of the backend

    def heard(self, answer: Answer) -> None:
        """Take over what the head of the backend's answer says beside its body."""
        headers = answer.headers
        upstream_id = ids.client_id(headers.get("x-request-id") or headers.get("request-id"))
        self.upstream_id = self.scrub_all(upstream_id) if upstream_id else None
        self._backend_headers = []
        served = self.served
        if served is None or not tells_limits(headers):
            return
        self._note_remaining(served.backend, headers)
        if self.windows or served.backend.settings.ratelimit_headers == "drop":
            return  # the limits of a tenant stand in their place
        self._backend_headers = limits_told(headers, self.client, served.backend.protocol, self.scrub)

    def _note_remaining(self, backend: Backend, headers: Mapping[str, str]) -> None:
        traffic = self.gateway.runtime.metrics.traffic
        for kind, left in remaining(headers, backend.protocol):
            traffic.ratelimit_remaining.put(traffic.upstream(backend.name), kind, value=left)

    # ---- the parts of a reply

    def _headers(self, content_type: str) -> list[Header]:
        headers: list[Header] = [("Content-Type", content_type), ("Server", SERVER), ("x-request-id", self.id)]
        if self.client == "messages":
            headers.append(("request-id", self.id))
        headers.append(("dragoman-trace-id", self.trace))
        if self.served is not None:
            headers.append(("dragoman-upstream", self.served.backend.name))
        if self.model is not None:
            headers.append(("dragoman-upstream-model", header_text(self.model)))
        if self.upstream_id is not None:
            headers.append(("dragoman-upstream-request-id", self.upstream_id))
        if self.times.attempts:
            headers.append(("dragoman-attempts", str(len(self.times.attempts))))
        if self.fallback_from is not None:
            headers.append(("dragoman-fallback", "1"))
        policy = self.loss_policy
        if policy.shown and (told := [loss for loss in self.losses if policy.shows(loss)]):
            headers.append(("dragoman-loss", loss_header(told)))
        if self.windows:
            family: Family = "anthropic" if self.client == "messages" else "openai"
            headers += rate_limits.write_windows(self.windows, family, time.time())
        else:
            headers += self._backend_headers
        headers += self._extra
        return headers
