"""What the metrics are told of a request that has ended: sums and look-ups alone, for it is a part of every request."""

from time import perf_counter

from proxy.canonical.errors import Reason
from proxy.canonical.usage import Usage
from proxy.server.exchange import Exchange
from proxy.telemetry.series import NONE
from proxy.telemetry.traffic import Traffic
from proxy.upstream.attempt import Attempt

_RETRYABLE = frozenset({0, 408, 409, 429})


def measure(exchange: Exchange, status: int) -> None:
    """`status`: as its record has it."""
    traffic = exchange.gateway.runtime.metrics.traffic
    times, client, outcome, served = exchange.times, exchange.client, exchange.outcome, exchange.served
    total = perf_counter() - times.started
    backend = served.backend.protocol if served is not None else NONE
    upstream = traffic.upstream(served.backend.name if served is not None else None)
    model, trace = traffic.model(exchange.alias), exchange.sampled_trace
    traffic.requests.add(client, backend, model, str(status), outcome)
    stream = "true" if exchange.stream else "false"
    traffic.duration.of(client, backend, model, stream).observe(total, trace)
    traffic.request_bytes.of(client).observe(exchange.bytes_in)
    traffic.response_bytes.of(client).observe(exchange.bytes_out)
    if exchange.stream and exchange.first_token is not None:
        traffic.first_token.of(client, backend, model).observe(exchange.first_token - times.started, trace)
    if not times.overlap:
        traffic.overhead.of(client, backend).observe(times.overhead(total))
    if exchange.failure is not None and outcome not in ("ok", "cancelled"):
        traffic.errors.add(exchange.failure.origin, exchange.failure.kind, upstream)
    elif outcome == "cancelled":
        traffic.disconnects.add(client, "streaming" if exchange.begun else "before_first_event")
    if times.attempts:
        _measure_backend(exchange, traffic, backend, upstream, model, trace)
    if exchange.prepared is not None and exchange.losses:
        asked, answered = exchange.prepared.unknown_fields()
        if asked:
            traffic.unknown_fields.add(client, "request", value=asked)
        if answered:
            traffic.unknown_fields.add(backend, "response", value=answered)


def usage_source(exchange: Exchange) -> str:
    """How the tokens of an answer are known: one that broke off may have told a part."""
    usage = exchange.usage
    if usage is None:
        return "none"
    if usage.estimated:
        return "estimated"
    return "reported" if exchange.outcome == "ok" else "partial"


def _measure_backend(
    exchange: Exchange, traffic: Traffic, backend: str, upstream: str, model: str, trace: str | None
) -> None:
    times, client = exchange.times, exchange.client
    last = times.attempts[-1]
    for attempt in times.attempts:
        name, code = traffic.upstream(attempt.upstream), str(attempt.code) if attempt.code else NONE
        traffic.upstream_duration.of(name, model, code).observe(attempt.lasted, trace)
        traffic.attempts.add(name, _result(attempt, exchange if attempt is last else None))
        if attempt.repeated:
            traffic.retries.add(name, "connection")
    if exchange.endpoint == "generate":
        traffic.usage_source.add(usage_source(exchange))
    if (usage := exchange.usage) is not None:
        _count_tokens(traffic, model, upstream, usage)
    if exchange.cost is not None:
        traffic.cost.add(model, upstream, value=exchange.cost / 1e6)
    if times.request:
        traffic.translate.of(client, backend, "request").observe(times.request)
    if times.reply:
        traffic.translate.of(client, backend, "response").observe(times.reply)
    if times.first_event is not None:
        traffic.first_event.of(upstream, model).observe(times.first_event)
    if times.stream:
        traffic.translate.of(client, backend, "stream").observe(times.stream)
        traffic.stall.of(upstream).observe(times.stall)
        if not times.overlap and (gap := times.gap) is not None:
            traffic.inter_token.of(backend, model).observe(gap)


def _count_tokens(traffic: Traffic, model: str, upstream: str, usage: Usage) -> None:
    add = traffic.tokens.add
    add(model, upstream, "input", value=usage.input_fresh)
    add(model, upstream, "output", value=max(0, usage.output - usage.reasoning))
    add(model, upstream, "cache_read", value=usage.cache_read)
    add(model, upstream, "cache_write", value=usage.cache_write)
    add(model, upstream, "reasoning", value=usage.reasoning)


def _result(attempt: Attempt, ended: Exchange | None) -> str:
    """What came of an attempt. `ended`: the exchange, if it was its last: what broke it off may be a time limit."""
    if attempt.slow_connect and not attempt.code:
        return "timeout_connect"
    if attempt.failed == "timeout":
        return "timeout_first_event"
    if attempt.failed is not None and 200 <= attempt.code < 300:
        return "retryable"
    if ended is not None and ended.reason == Reason.UPSTREAM_TIMEOUT:
        return "timeout_idle" if attempt.code else "timeout_first_event"
    if 200 <= attempt.code < 300:
        broke = ended is not None and ended.failure is not None and ended.failure.origin == "upstream"
        return "fatal" if broke else "ok"
    return "retryable" if attempt.code in _RETRYABLE or attempt.code >= 500 else "fatal"
