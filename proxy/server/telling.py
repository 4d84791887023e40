"""What the operator is told of a request that has ended: its record, what was lost, what its tenant has used."""

import time

from proxy.canonical.errors import Reason
from proxy.canonical.usage import Usage
from proxy.server import ids
from proxy.server.exchange import Exchange
from proxy.settings.tenants import Tenant
from proxy.telemetry.logs import timestamp
from proxy.telemetry.losses import note_on_span

# What a policy or a limit refuses, in difference to what is wrong with a request.
_DENIALS = frozenset(
    {
        Reason.IP_DENIED,
        Reason.PROTOCOL_DENIED,
        Reason.ENDPOINT_DENIED,
        Reason.MODEL_DENIED,
        Reason.TOOL_DENIED,
        Reason.HOSTED_TOOL_DENIED,
        Reason.MCP_DENIED,
        Reason.BODY_TOO_LARGE,
        Reason.RPM,
        Reason.RPD,
        Reason.TPM,
        Reason.TPD,
        Reason.CONCURRENCY,
        Reason.BUDGET,
    }
)


def tell(exchange: Exchange) -> None:
    """Called once for each exchange, when it is settled."""
    exchange.gateway.runtime.access.record(access_record(exchange))
    _tell_losses(exchange)
    if exchange.caller is not None:
        _tell_tenant(exchange, exchange.caller.tenant)


def access_record(exchange: Exchange) -> dict[str, object]:
    """The access record (operations.md 5): no text of the conversation, no key."""
    now = time.monotonic()
    fields: dict[str, object] = {
        "ts": timestamp(),
        "level": "info",
        "log": "access",
        "request_id": exchange.id,
        "client_request_id": ids.client_id(exchange.request.headers.get("x-client-request-id")),
        "trace_id": exchange.trace,
        "client_ip": exchange.client_ip,
        "client": exchange.client,
        "backend": exchange.served.backend.protocol if exchange.served is not None else None,
        "route": exchange.route,
        "model_requested": _logged(exchange.model_requested),
        "upstream": exchange.served.backend.name if exchange.served is not None else None,
        "upstream_model": _logged(exchange.model),
        "upstream_request_id": exchange.upstream_id,
        "stream": exchange.stream,
        "status": exchange.status or (499 if exchange.outcome == "client_left" else 500),
        "outcome": exchange.outcome,
        "reason": exchange.reason,
        "finish_reason": exchange.stop.kind if exchange.stop is not None else None,
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
        "ms": {"total": round((now - exchange.started) * 1000, 1)},
    }
    if exchange.key_id is not None:
        fields["tenant"] = exchange.caller.tenant.name if exchange.caller is not None else None
        fields["key_id"] = exchange.key_id
        fields["config_hash"] = exchange.gateway.digest
    if exchange.first_token is not None:
        fields["ms"] = {
            "total": round((now - exchange.started) * 1000, 1),
            "first_token": round((exchange.first_token - exchange.started) * 1000, 1),
        }
    if exchange.stop is not None and exchange.stop.unknown:
        fields["finish_reason_native"] = _logged(exchange.scrub_all(exchange.stop.native or ""))
    if (usage := exchange.usage) is not None:
        fields["tokens"] = {
            "input": usage.prompt,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "reasoning": usage.reasoning,
        }
    if exchange.counting:
        fields["usage_source"] = _usage_source(exchange.usage)
        if exchange.cost is not None:
            fields["cost_usd"] = exchange.cost / 1e6
    if losses := exchange.losses:
        fields["losses"] = sorted({loss.rule.value for loss in losses})
    return fields


def _tell_tenant(exchange: Exchange, tenant: Tenant) -> None:
    runtime = exchange.gateway.runtime
    runtime.use_of(tenant).add(exchange.outcome, exchange.usage, exchange.cost)
    if tenant.audit_denials and exchange.reason in _DENIALS:
        runtime.audit.note(
            "request.denied",
            actor=tenant.name,
            target=exchange.route,
            result=exchange.reason or "",
            request_id=exchange.id,
        )


def _tell_losses(exchange: Exchange) -> None:
    """Count what was lost, put it on the span, and log what is new with this model."""
    served = exchange.served
    if served is not None and (losses := exchange.losses):
        backend = served.backend.protocol
        exchange.gateway.runtime.metrics.count_losses(losses, exchange.client, backend)
        note_on_span(losses)
        exchange.gateway.runtime.loss_log.note(losses, exchange.client, backend, _logged(exchange.model) or "")


def _usage_source(usage: Usage | None) -> str:
    if usage is None:
        return "none"
    return "estimated" if usage.estimated else "reported"


def _logged(word: str | None) -> str | None:
    """A client may put anything in a model's name, and a backend in a stop reason, half surrogates among it."""
    return None if word is None else word[:128].encode(errors="replace").decode()
