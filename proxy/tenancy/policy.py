"""What a tenant may do (operations.md 8.2): each check raises `Rejected` with what the client is told.

A policy is built once for a configuration, never for a request. What a body asks for is looked at only where a rule
could refuse it, so that an open tenant pays nothing.
"""

from collections.abc import Iterator

from proxy.canonical.errors import Error, Reason, Rejected
from proxy.canonical.loss import Path, format_path
from proxy.protocols.fields import Wire, is_object
from proxy.settings.tenants import ClientName, EndpointClass, Tenant
from proxy.tenancy.addresses import in_networks
from proxy.tenancy.model_places import other_models, stored_part
from proxy.tenancy.names import Names, is_plain
from proxy.tenancy.output_limit import limit_output, output_changes
from proxy.tenancy.refusals import denied, malformed, unknown_model
from proxy.tenancy.repeats import TOO_DEEP, refuse_doubles, refuse_repeats
from proxy.tenancy.tool_places import Client
from proxy.tenancy.tool_rules import ToolPolicy
from proxy.translation.passed_body import with_members

_OF_OPENAI: frozenset[ClientName] = frozenset({"chat", "responses"})


class Policy:
    """The rules of one tenant, ready to be asked."""

    __slots__ = ("_models", "_tools", "looks", "tenant")

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._models = Names(tenant.models.names)
        self._tools = ToolPolicy(tenant.tools)
        # Whether it matters what a body says. To a budget it does: of two models in it one may be cheap.
        open_ = self._models.open and self._tools.open and tenant.limits.max_output_tokens is None
        self.looks = not open_ or tenant.limits.budget is not None

    @property
    def default_model(self) -> str | None:
        """The model of a request that names none."""
        return self.tenant.models.default

    @property
    def needs_model(self) -> bool:
        """Whether it matters which model is asked."""
        return not self._models.open

    @property
    def needs_requests(self) -> bool:
        """Whether requests must be seen, so that none may be hidden in a file."""
        return self.looks or self.tenant.limits.counts_tokens

    @property
    def limits_output(self) -> bool:
        """Whether answers may have so many tokens only."""
        return self.tenant.limits.max_output_tokens is not None

    def check_protocol(self, client: Client, *, of_both: bool = False) -> None:
        """The legacy completions are Chat. `of_both`: an endpoint that users of either of OpenAI's protocols need."""
        name: ClientName = "chat" if client == "completions" else client
        protocols = self.tenant.protocols
        if protocols is not None and name not in protocols and not (of_both and protocols & _OF_OPENAI):
            raise Rejected(denied(Reason.PROTOCOL_DENIED, "This key may not use this protocol."))

    def check_endpoint(self, kind: EndpointClass, *, own_key: bool = False) -> None:
        """`own_key`: the backend is asked with a key that no other tenant has. What is stored with a shared one would
        be everybody's, so `stored` must then be listed."""
        endpoints = self.tenant.endpoints
        if kind not in endpoints if endpoints is not None else kind == "stored" and not own_key:
            raise Rejected(denied(Reason.ENDPOINT_DENIED, "This key may not use this endpoint."))

    def check_address(self, ip: str | None) -> None:
        """`ip`: the client's, None if it is not known."""
        networks = self.tenant.ip_allow
        if networks is not None and not in_networks(ip, networks):
            raise Rejected(denied(Reason.IP_DENIED, "This key may not be used from this address."))

    def allows_model(self, name: str) -> bool:
        """`name` is the one that clients use."""
        return self._models.open or (is_plain(name) and self._models.allow(name))

    def check_model(self, name: str, path: Path = ("model",)) -> None:
        """As `allows_model`; what is not allowed does not exist."""
        if not self.allows_model(name):
            raise Rejected(unknown_model(name, format_path(path)))

    def check_named_model(self, wire: Wire, path: Path = ()) -> None:
        """The model of a body, which must be named where it matters: else the vendor would choose one."""
        model = wire.get("model")
        if type(model) is str:
            self.check_model(model, (*path, "model"))
        elif self.needs_model:
            raise Rejected(malformed((*path, "model"), "the name of a model is required with this key."))

    def check_request(self, client: Client, raw: bytes, wire: Wire, *, passed_on: bool = True) -> None:
        """All that a body asks for but its own model. `wire` is `raw`, decoded and unchanged. `passed_on`: a backend
        gets these bytes, and may read them in its own way."""
        if self.looks:
            if passed_on:
                refuse_repeats(raw, wire)
            self._check_parts(client, wire, ())

    def _check_parts(self, client: Client, wire: Wire, path: Path) -> None:
        try:
            for refusal in self.judge(client, wire, path):
                if refusal is not None:
                    raise Rejected(refusal)
        except RecursionError:
            raise Rejected(malformed((), TOO_DEEP)) from None

    def judge(self, client: Client, wire: Wire, path: Path = ()) -> Iterator[Error | None]:
        """What is said of each part of a request that a rule looks at. `path`: where the request stands."""
        if not (self._models.open and self._tools.open):
            hidden = stored_part(client, wire)
            if hidden is not None:
                reason = Reason.TOOL_DENIED if self._models.open else Reason.MODEL_DENIED
                yield denied(reason, "this key may use nothing that can't be looked into.", (*path, *hidden))
            for at, name in other_models(wire):
                yield self._other_model(name, (*path, *at))
            for tool, refusal in self._tools.judge(client, wire, path):
                yield refusal
                for at, name in tool.models:
                    yield self._other_model(name, (*path, *at))

    def _other_model(self, name: object, path: Path) -> Error | None:
        """A word for the vendor's own choice, such as `fallbacks: default`, counts as a name."""
        if self._models.open:
            return None
        if type(name) is not str:
            return malformed(path, "expected the name of a model.")
        return None if self.allows_model(name) else unknown_model(name, format_path(path))

    def limit_output(
        self, client: Client, raw: bytes, wire: Wire, unset: str | None = None, *, fill: bool = True
    ) -> bytes:
        """See `output_limit.limit_output`."""
        return limit_output(self.tenant.limits, client, raw, wire, unset, fill=fill)

    def check_batch(self, raw: bytes, wire: Wire) -> bytes:
        """A batch of Messages: each of its requests as one alone. The body as it may be sent; `wire` too."""
        if not self.looks and self.default_model is None:
            return raw
        refuse_repeats(raw, wire)
        requests = wire.get("requests")
        changed = False
        for index, entry in enumerate(requests if type(requests) is list else ()):
            path: Path = ("requests", index, "params")
            params = entry.get("params") if is_object(entry) else None
            if not is_object(params):
                raise Rejected(malformed(path, "expected an object."))
            refuse_doubles(params, path)
            changes = output_changes(self.tenant.limits, "messages", params, path)
            if params.get("model") is None and self.default_model is not None:
                changes["model"] = self.default_model
            self.check_named_model({**params, **changes}, path)
            self._check_parts("messages", params, path)
            params.update(changes)
            changed = changed or bool(changes)
        return with_members(raw, {"requests": requests}) if changed else raw

    def check_form(self) -> None:
        """A form or another body that nobody looks into, which may name a model."""
        if self.needs_model:
            message = "This key may use certain models only, which can't be seen in a body of this type."
            raise Rejected(denied(Reason.MODEL_DENIED, message))

    def check_hidden_requests(self) -> None:
        """A batch of requests in a file that nobody looks into."""
        if self.needs_requests:
            message = "This key may not use batches: their requests can't be looked into."
            raise Rejected(denied(Reason.ENDPOINT_DENIED, message))
