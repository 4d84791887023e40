"""What the operator is told of a request that has ended: its record, what was lost, what its tenant has used."""

import logging
from time import perf_counter

from proxy.server import ids
from proxy.server.exchange import Exchange
from proxy.server.failures import DENIALS
from proxy.server.measuring import measure, usage_source
from proxy.settings.tenants import Tenant
from proxy.telemetry.logs import timestamp

log = logging.getLogger("dragoman")
_LONGEST_WORD = 128


def tell(exchange: Exchange) -> None:
    """Called once for each exchange, when it is settled."""
    if exchange.failure is not None and exchange.outcome != "cancelled" and 200 <= exchange.status < 300:
        exchange.outcome = "incomplete"  # the client was told that all is well before it was not
    status = exchange.status or (499 if exchange.outcome == "cancelled" else 500)
    exchange.gateway.runtime.access.record(access_record(exchange, status))
    measure(exchange, status)
    _tell_spans(exchange)
    _tell_losses(exchange)
    if exchange.caller is not None:
        _tell_tenant(exchange, exchange.caller.tenant)


def _tell_spans(exchange: Exchange) -> None:
    """Let the spans of a sampled request go."""
    spans, export = exchange.spans, exchange.gateway.runtime.span_export
    if spans is not None and export is not None:
        from proxy.server.span_building import build

        try:
            told = build(exchange, spans)
        except Exception:  # what is told of an answer must never keep it from its client
            log.exception("The spans of %s can't be told", exchange.id)
            return
        export.offer(told.spans, told.text)
        if told.event is not None:
            export.offer_event(told.event, told.text)


def access_record(exchange: Exchange, status: int) -> dict[str, object]:
    """The access record (operations.md 5): no text of the conversation, no key."""
    times, served, stop = exchange.times, exchange.served, exchange.stop
    fields: dict[str, object] = {
        "ts": timestamp(),
        "level": "info",
        "log": "access",
        "request_id": exchange.id,
        "client_request_id": ids.client_id(exchange.request.headers.get("x-client-request-id")),
        "trace_id": exchange.trace,
        "client_ip": exchange.client_ip,
        "client": exchange.client,
        "backend": served.backend.protocol if served is not None else None,
        "route": exchange.route,
        "model_requested": _named(exchange, exchange.model_requested),
        "model": exchange.alias,
        "upstream": served.backend.name if served is not None else None,
        "upstream_model": _named(exchange, exchange.model),
        "upstream_request_id": exchange.upstream_id,
        "stream": exchange.stream,
        "status": status,
        "outcome": exchange.outcome,
        "reason": exchange.reason,
        "finish_reason": stop.kind if stop is not None else None,
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
        "attempts": len(times.attempts),
        "ms": _spent(exchange),
    }
    if exchange.fallback_from is not None:
        fields["fallback_from"] = exchange.fallback_from
    if exchange.spans is not None:
        fields["span_id"] = exchange.spans.id
    if exchange.key_id is not None:
        fields["tenant"] = exchange.caller.tenant.name if exchange.caller is not None else None
        fields["key_id"] = exchange.key_id
        fields["config_hash"] = exchange.gateway.digest
    if exchange.tools.number:
        fields["tools_n"] = exchange.tools.number
        if exchange.tools.hosted:
            fields["hosted_tools"] = exchange.tools.hosted
    if stop is not None and stop.unknown:
        fields["finish_reason_native"] = _logged(exchange.scrub_all(stop.native or ""))
    if (usage := exchange.usage) is not None:
        fields["tokens"] = {
            "input": usage.prompt,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "reasoning": usage.reasoning,
        }
    if exchange.counting or (times.attempts and exchange.endpoint == "generate"):
        fields["usage_source"] = usage_source(exchange)
    if exchange.cost is not None:
        fields["cost_usd"] = exchange.cost / 1e6
    if exchange.outcome == "cancelled":
        fields["disconnected"] = "streaming" if exchange.begun else "before_first_event"
    if losses := exchange.losses:
        fields["losses"] = sorted({loss.rule.value for loss in losses})
    return fields


def _spent(exchange: Exchange) -> dict[str, float]:
    """Where the time went, in milliseconds."""
    times, started = exchange.times, exchange.times.started
    total = perf_counter() - started
    ms = {"total": round(total * 1000, 1)}
    if exchange.first_token is not None:
        ms["first_token"] = round((exchange.first_token - started) * 1000, 1)
    if times.attempts:
        ms["upstream"] = round(times.upstream * 1000, 1)
    if not times.overlap:
        ms["overhead"] = round(times.overhead(total) * 1000, 1)
    queued = 0.0
    for attempt in times.attempts:
        queued += attempt.queued
    if queued:
        ms["queue"] = round(queued * 1000, 1)
    return ms


def _tell_tenant(exchange: Exchange, tenant: Tenant) -> None:
    runtime = exchange.gateway.runtime
    runtime.sampling.used.add(tenant.name)
    runtime.use_of(tenant).add(exchange.outcome, exchange.usage, exchange.cost)
    if tenant.audit_denials and exchange.reason in DENIALS:
        runtime.audit.note(
            "request.denied",
            actor=tenant.name,
            target=exchange.route,
            result=exchange.reason or "",
            request_id=exchange.id,
        )


def _tell_losses(exchange: Exchange) -> None:
    """Count what was lost, and log what is new with this model."""
    served = exchange.served
    if served is not None and (losses := exchange.losses):
        backend = served.backend.protocol
        exchange.gateway.runtime.metrics.count_losses(losses, exchange.client, backend)
        exchange.gateway.runtime.loss_log.note(losses, exchange.client, backend, _logged(exchange.model) or "")


def _named(exchange: Exchange, name: str | None) -> str | None:
    """The name of a model, in whose place a client may have written a key."""
    if name is None:
        return None
    gateway = exchange.gateway
    told = gateway.shown_names.get(name)
    if told is None:
        told = gateway.shown_names.put(name, gateway.runtime.scrub(_logged(name) or ""))
    return told


def _logged(word: str | None) -> str | None:
    """A client may put anything in a model's name, and a backend in a stop reason, half surrogates among it."""
    if word is None or (word.isascii() and len(word) <= _LONGEST_WORD):
        return word
    return word[:_LONGEST_WORD].encode(errors="replace").decode()
