"""What the metrics are told of a request that has ended: sums and look-ups alone, for it is a part of every request."""

from time import perf_counter

from proxy.canonical.errors import Reason
from proxy.canonical.usage import Usage
from proxy.server.exchange import Exchange
from proxy.telemetry.paths import Path, Tokens
from proxy.telemetry.series import NONE
from proxy.telemetry.traffic import Traffic
from proxy.upstream.attempt import Attempt

_RETRYABLE = frozenset({0, 408, 409, 429})


def measure(exchange: Exchange, status: int) -> None:
    """`status`: as its record has it."""
    traffic = exchange.gateway.runtime.metrics.traffic
    times, client, outcome, served = exchange.times, exchange.client, exchange.outcome, exchange.served
    total = perf_counter() - times.started
    backend, upstream = (NONE, None) if served is None else (served.backend.protocol, served.backend.name)
    path, trace = (
        traffic.path(client, backend, upstream, exchange.alias, stream=exchange.stream),
        exchange.sampled_trace,
    )
    path.requests(status, outcome).value += 1
    path.duration.observe(total, trace)
    path.request_bytes.observe(exchange.bytes_in)
    path.response_bytes.observe(exchange.bytes_out)
    if exchange.stream and exchange.first_token is not None:
        path.first_token.observe(exchange.first_token - times.started, trace)
    if not times.overlap:
        path.overhead.observe(times.overhead(total))
    if exchange.failure is not None and outcome not in ("ok", "cancelled"):
        traffic.errors.add(exchange.failure.origin, exchange.failure.kind, path.upstream)
    elif outcome == "cancelled":
        traffic.disconnects.add(client, "streaming" if exchange.begun else "before_first_event")
    if times.attempts:
        _measure_backend(exchange, traffic, path, upstream, trace)
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


def _measure_backend(exchange: Exchange, traffic: Traffic, path: Path, upstream: str | None, trace: str | None) -> None:
    times = exchange.times
    last = times.attempts[-1]
    for attempt in times.attempts:
        asked = path
        if attempt.upstream != upstream:
            asked = traffic.path(path.client, path.backend, attempt.upstream, exchange.alias, stream=exchange.stream)
        asked.upstream_duration(attempt.code).observe(attempt.lasted, trace)
        asked.attempts(_result(attempt, exchange if attempt is last else None)).value += 1
        if attempt.repeated:
            traffic.retries.add(asked.upstream, "connection")
    if exchange.endpoint == "generate":
        traffic.usage_source.add(usage_source(exchange))
    if (usage := exchange.usage) is not None:
        _count_tokens(path.tokens, usage)
    if exchange.cost is not None:
        traffic.cost.add(path.model, path.upstream, value=exchange.cost / 1e6)
    if times.request:
        path.translate_request.observe(times.request)
    if times.reply:
        path.translate_response.observe(times.reply)
    if times.first_event is not None:
        path.first_event.observe(times.first_event)
    if times.stream:
        path.translate_stream.observe(times.stream)
        path.stall.observe(times.stall)
        if not times.overlap and (gap := times.gap) is not None:
            path.inter_token.observe(gap)


def _count_tokens(tokens: Tokens, usage: Usage) -> None:
    tokens.input.value += usage.input_fresh
    tokens.output.value += max(0, usage.output - usage.reasoning)
    tokens.cache_read.value += usage.cache_read
    tokens.cache_write.value += usage.cache_write
    tokens.reasoning.value += usage.reasoning


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
