"""The spans of one exchange that has ended, made from what `spans.py` kept of it (operations.md 3.1).

They are built at once with their moments, which costs less than to have them open while the request runs. Loaded only
where spans are sent. Nothing that a client or a model wrote goes in, but names of models and ids, unless a policy lets
content be recorded.
"""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util.types import AnyValue

from proxy import __version__
from proxy.canonical.usage import Usage
from proxy.server.exchange import Exchange
from proxy.server.recording import content_of
from proxy.server.spans import Call, Spans
from proxy.settings.telemetry import ON_SPANS, WITH_EVENTS
from proxy.telemetry import semconv
from proxy.telemetry.losses import loss_events
from proxy.telemetry.span_export import RESOURCE
from proxy.translation.overheard import names_in

_Attributes = dict[str, str | int | float | bool | Sequence[str]]

_SCOPE = InstrumentationScope("dragoman", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)
_FAILED = Status(StatusCode.ERROR)
_LONGEST = 128  # characters of a name that a client or a backend gave


class Built(NamedTuple):
    """The server's span first, then one for each request to a model; and the event that holds its content, if any is
    to be recorded so. `text`: characters of content."""

    spans: list[ReadableSpan]
    event: ReadableLogRecord | None = None
    text: int = 0


def build(exchange: Exchange, spans: Spans) -> Built:
    """What is told of an exchange that has ended."""
    ended = perf_counter()
    context, trace = exchange.context, int(exchange.trace, 16)
    state = TraceState(context.state)
    own = SpanContext(trace, int(spans.id, 16), False, _SAMPLED, state)
    parent = None
    if context.parent is not None:
        parent = SpanContext(trace, int(context.parent, 16), True, _SAMPLED, state)
    name, attributes = _server(exchange)
    built = [
        ReadableSpan(
            name,
            own,
            parent,
            RESOURCE,
            attributes,
            events=[Event(name, told, spans.unix_ns(at)) for name, told, at in _events(exchange, spans, ended)],
            kind=SpanKind.SERVER,
            status=_FAILED if semconv.ERROR_TYPE in attributes else _UNSET,
            start_time=spans.unix_ns(spans.started),
            end_time=spans.unix_ns(ended),
            instrumentation_scope=_SCOPE,
        )
    ]
    operation = _operation(exchange)
    if operation is None or not spans.calls:
        return Built(built)
    switch = traces.content if (traces := exchange.gateway.settings.traces) is not None else "NO_CONTENT"
    content = content_of(exchange, spans)
    event = None
    for call in spans.calls:
        attributes = _inference(exchange, spans, call, operation)
        if content and call is spans.calls[-1]:
            if switch in WITH_EVENTS:
                event = _event(SpanContext(trace, int(call.id, 16), False, _SAMPLED, state), attributes, content)
            if switch in ON_SPANS:
                attributes.update(content)
        model = attributes.get(semconv.REQUEST_MODEL)
        built.append(
            ReadableSpan(
                f"{operation} {model}" if model else operation,
                SpanContext(trace, int(call.id, 16), False, _SAMPLED, state),
                own,
                RESOURCE,
                attributes,
                kind=SpanKind.CLIENT,
                status=_FAILED if semconv.ERROR_TYPE in attributes else _UNSET,
                start_time=spans.unix_ns(call.attempt.started),
                end_time=spans.unix_ns(call.attempt.ended or ended),
                instrumentation_scope=_SCOPE,
            )
        )
    return Built(built, event, sum(map(len, content.values())))


def _event(span: SpanContext, attributes: _Attributes, content: Mapping[str, str]) -> ReadableLogRecord:
    """What was said, as the conventions' event: structures in place of JSON texts."""
    told: dict[str, AnyValue] = {**attributes}
    told.update((name, json.loads(text)) for name, text in content.items())
    now = time.time_ns()
    record = LogRecord(
        timestamp=now,
        observed_timestamp=now,
        context=set_span_in_context(NonRecordingSpan(span), Context()),
        attributes=told,
        event_name=semconv.DETAILS_EVENT,
    )
    return ReadableLogRecord(record, RESOURCE, _SCOPE)


def _server(exchange: Exchange) -> tuple[str, _Attributes]:
    """The name and the attributes. A request that was refused is no error of the server, nor is a client that left."""
    request = exchange.request
    method = request.method if request.method in semconv.METHODS else semconv.OTHER
    route = _route(exchange)
    attributes: _Attributes = {
        semconv.METHOD: method,
        semconv.SCHEME: "http",
        semconv.REQUEST_ID: exchange.id,
        semconv.CLIENT_PROTOCOL: exchange.client,
    }
    if route is not None:
        attributes[semconv.ROUTE] = route
        attributes[semconv.URL_PATH] = route  # ids and whatever else a caller puts into a path stay out
    if exchange.status:
        attributes[semconv.STATUS] = exchange.status
    if exchange.caller is not None:
        attributes[semconv.TENANT] = exchange.caller.tenant.name
    if exchange.served is not None:
        attributes[semconv.BACKEND_PROTOCOL] = exchange.served.backend.protocol
        attributes[semconv.UPSTREAM] = exchange.served.backend.name
    if losses := exchange.losses:
        attributes[semconv.LOSS_COUNT] = len(losses)
    if exchange.status >= 500:
        attributes[semconv.ERROR_TYPE] = exchange.reason or str(exchange.status)
    elif _broke(exchange):
        attributes[semconv.ERROR_TYPE] = exchange.reason or semconv.OTHER
    verb = "HTTP" if method == semconv.OTHER else method
    return (verb if route is None else f"{verb} {route}"), attributes


def _shown(exchange: Exchange, word: str) -> str:
    """A word of a client's or a backend's: without secrets, well-formed, and not longer than a name is."""
    return exchange.scrub_all(word)[:_LONGEST].encode(errors="replace").decode()


def _route(exchange: Exchange) -> str | None:
    """Of a closed set, whatever paths callers make up; None for what does not exist."""
    if exchange.route == "unmatched":
        return None
    whole = exchange.request.path.rstrip("/").endswith(exchange.route)
    return f"/v1{exchange.route}" if whole else f"/v1{exchange.route}/{{rest}}"


def _broke(exchange: Exchange) -> bool:
    """Whether an error was told inside a stream that had begun well."""
    return 0 < exchange.status < 400 and exchange.reason is not None and exchange.outcome != "cancelled"


def _events(exchange: Exchange, spans: Spans, ended: float) -> list[tuple[str, Mapping[str, str | int], float]]:
    """(name, attributes, moment)"""
    events: list[tuple[str, Mapping[str, str | int], float]] = [
        (semconv.LOSS_EVENT, told, ended) for told in loss_events(exchange.losses, partial(_shown, exchange))
    ]
    events += [
        (semconv.RETRY_EVENT, {semconv.ATTEMPT: call.number}, call.attempt.started)
        for call in spans.calls
        if call.resends
    ]
    events += [
        (semconv.FALLBACK_EVENT, {semconv.FALLBACK_FROM: one, semconv.FALLBACK_TO: other, semconv.REASON: cause}, at)
        for one, other, cause, at in spans.fallbacks
    ]
    if exchange.outcome == "cancelled":
        events.append((semconv.DISCONNECTED_EVENT, {}, ended))
    return sorted(events, key=lambda event: event[2])


def _operation(exchange: Exchange) -> str | None:
    """What a model is asked for; None where none is, such as for a count of tokens."""
    match exchange.endpoint:
        case "generate":
            return semconv.CHAT
        case "other" if exchange.route == "/embeddings":
            return semconv.EMBEDDINGS
        case "stored" if exchange.route == "/responses" and exchange.request.method == "GET":
            return semconv.FETCH if exchange.request.path.count("/") <= _FETCHED else None
        case _:
            return None


_FETCHED = 3  # slashes in the path of a stored response; its parts have more


def _inference(exchange: Exchange, spans: Spans, call: Call, operation: str) -> _Attributes:
    backend = call.backend
    attributes: _Attributes = {
        semconv.OPERATION: operation,
        semconv.PROVIDER: semconv.provider(backend.dialect.family, backend.name),
        semconv.REQUEST_ID: exchange.id,
        semconv.CLIENT_PROTOCOL: exchange.client,
        semconv.BACKEND_PROTOCOL: backend.protocol,
        semconv.UPSTREAM: backend.name,
        semconv.ATTEMPT: call.number,
        **spans.asked_for,
    }
    if spans.tier is not None and attributes[semconv.PROVIDER] in semconv.OPENAI:
        attributes[semconv.REQUEST_TIER] = spans.tier
    if spans.stops and spans.transcript.content:
        attributes[semconv.STOP_SEQUENCES] = tuple(_shown(exchange, stop) for stop in spans.stops)
    if call is spans.calls[-1] and not exchange.times.overlap:
        attributes[semconv.OVERHEAD] = round(exchange.times.overhead(perf_counter() - spans.started) * 1000, 3)
    if call.model is not None:
        attributes[semconv.REQUEST_MODEL] = _shown(exchange, call.model)
    if call.prepared is not None and call.prepared.upstream_stream:
        attributes[semconv.STREAM] = True
    if exchange.caller is not None:
        attributes[semconv.TENANT] = exchange.caller.tenant.name
    if call.host is not None:
        attributes[semconv.SERVER_ADDRESS] = call.host
        attributes[semconv.SERVER_PORT] = call.port or 443
    if call.resends:
        attributes[semconv.RESEND_COUNT] = call.resends
    if call.attempt.code:
        attributes[semconv.STATUS] = call.attempt.code
    failed = call.attempt.failed
    if failed is not None or not 200 <= call.attempt.code < 300:
        told = str(call.attempt.code) if call.attempt.code >= 300 else failed or exchange.reason or semconv.OTHER
        attributes[semconv.ERROR_TYPE] = told
        return attributes
    _add_answer(exchange, spans, call, operation, attributes)
    return attributes


def _add_answer(exchange: Exchange, spans: Spans, call: Call, operation: str, attributes: _Attributes) -> None:
    answers = [each for each in spans.calls if each.prepared is call.prepared and 200 <= each.attempt.code < 300]
    last = call is answers[-1]
    alone = len(answers) == 1 and exchange.prepared is call.prepared
    if exchange.outcome != "ok" and last:
        attributes[semconv.ERROR_TYPE] = exchange.reason or exchange.outcome
    if last and alone and exchange.stop is not None:
        attributes[semconv.FINISH_REASONS] = (semconv.FINISH[exchange.stop.kind],)
    if alone and exchange.first_token is not None:
        attributes[semconv.FIRST_CHUNK] = exchange.first_token - call.attempt.started
    if last and exchange.outcome in ("ok", "incomplete", "cancelled"):
        _add_names(exchange, spans, operation, attributes)
    usage = exchange.usage if alone else _used(call, answers)
    if usage is not None and not usage.estimated and operation != semconv.FETCH:
        attributes[semconv.INPUT_TOKENS] = usage.prompt
        attributes[semconv.OUTPUT_TOKENS] = usage.output
        attributes[semconv.CACHE_READ_TOKENS] = usage.cache_read
        attributes[semconv.CACHE_WRITE_TOKENS] = usage.cache_write
        attributes[semconv.REASONING_TOKENS] = usage.reasoning


def _add_names(exchange: Exchange, spans: Spans, operation: str, attributes: _Attributes) -> None:
    """What the answer is called, as its client sees it."""
    transcript = spans.transcript
    names = names_in(transcript.told, streamed=transcript.streamed)
    openai = attributes[semconv.PROVIDER] in semconv.OPENAI
    for name, value in (
        (semconv.RESPONSE_ID, names.id),
        (semconv.RESPONSE_MODEL, names.model),
        (semconv.RESPONSE_STATUS, names.status if operation == semconv.FETCH else None),
        (semconv.RESPONSE_TIER, names.tier if openai else None),
        (semconv.FINGERPRINT, names.fingerprint if openai else None),
    ):
        if value:
            attributes[name] = _shown(exchange, value)


def _used(call: Call, answers: list[Call]) -> Usage | None:
    """What one of several answers used, as far as it told."""
    rounds = call.prepared.rounds() if call.prepared is not None else []
    return rounds[answers.index(call)].told if len(rounds) == len(answers) else None
