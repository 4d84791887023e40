"""One answer of a model: the endpoints that all three protocols are about (operations.md 1)."""

import asyncio
import logging
import time
from functools import partial
from time import perf_counter

from aiohttp.web import StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.server.admission import Admitted, admit
from proxy.server.answers import Passed, note_estimate
from proxy.server.attempts import Attempts
from proxy.server.background import begin_job, wants_background
from proxy.server.bodies import read_json
from proxy.server.chat_turns import begin_completion
from proxy.server.exchange import EVENTS, Exchange
from proxy.server.fan_out import FanOut, whole_choices
from proxy.server.gateway import Served
from proxy.server.recalling import Recalled, recall, restated
from proxy.server.relay import Relay
from proxy.server.response_turns import ResponseTurn, begin_response, warm_up
from proxy.server.stored_streams import resume
from proxy.server.thread_turns import recall_thread
from proxy.server.websocket import converse
from proxy.server.whole import ask_whole
from proxy.settings import ModelRoute
from proxy.settings.tenants import Tenant
from proxy.translation import fan_out, pair
from proxy.translation.pair import Options, Peek
from proxy.translation.passed_body import with_members
from proxy.translation.prepared import Prepared
from proxy.upstream.backend import Backend
from proxy.upstream.headers import request_headers

log = logging.getLogger("dragoman")

_MOST_METADATA = 16  # pairs that OpenAI takes
_TAKES_METADATA = frozenset({"openai", "azure"})  # families; others refuse what they do not know


async def generate(exchange: Exchange) -> StreamResponse:
    """Read, route, translate, ask, and answer. Raises `Rejected`."""
    return await generate_from(exchange, await read_json(exchange))


async def generate_over_websocket(exchange: Exchange) -> StreamResponse:
    """The same, as often as the client asks over its connection."""
    return await converse(exchange, generate_from)


async def generate_from(exchange: Exchange, raw: bytes) -> StreamResponse:
    """The answer to a request that has been read. Raises `Rejected`."""
    try:
        return await _generate(exchange, raw)
    finally:
        if exchange.turn is not None:
            exchange.turn.left()


async def _generate(exchange: Exchange, raw: bytes) -> StreamResponse:
    match exchange.client:
        case "responses":
            recalled = await recall(exchange, raw)
            name, before = "input", recalled.before if recalled is not None else 0
            work = _respond(exchange, raw if recalled is None else recalled.raw, recalled)
        case "messages":
            raw, before = await recall_thread(exchange, raw)
            name, work = "messages", _admit_and_answer(exchange, raw)
        case _:
            return await _admit_and_answer(exchange, raw)
    try:
        return await work
    except Rejected as rejected:
        if before:
            restated(rejected.error, name, before)
        raise


async def _respond(exchange: Exchange, raw: bytes, recalled: Recalled | None) -> StreamResponse:
    """A request of Responses, with what it referred to in its place."""
    if (asked := wants_background(exchange, raw, recalled)) is not None:
        job = await begin_job(exchange, asked, recalled, _answer)
        return await resume(exchange, job.key, -1) if job.streams else exchange.respond(200, dumps(job.response))
    if (warmed := await warm_up(exchange, raw, recalled)) is not None:
        return warmed
    admitted = await admit(exchange, raw)
    exchange.turn = begin_response(exchange, admitted.served, admitted.seen, recalled)
    return await _answer(exchange, admitted)


async def _admit_and_answer(exchange: Exchange, raw: bytes) -> StreamResponse:
    admitted = await admit(exchange, raw)
    if exchange.client == "chat":
        exchange.turn = begin_completion(exchange, admitted.served, admitted.seen)
    return await _answer(exchange, admitted)


async def _answer(exchange: Exchange, admitted: Admitted) -> StreamResponse:
    """Translate, ask, and answer, in as many attempts as it takes. Raises `Rejected`."""
    attempts = Attempts(exchange, admitted)
    try:
        return await attempts.run(partial(_attempt, exchange, attempts))
    except Passed as passed:
        return exchange.refuse_as_told(passed.error, passed.status, passed.body)


async def _attempt(exchange: Exchange, attempts: Attempts) -> StreamResponse:
    """The answer of the target whose turn it is. Raises `Rejected` and `Passed` if the client has heard nothing yet."""
    began = perf_counter()
    prepared, served = _prepare(exchange, attempts)
    exchange.times.request += perf_counter() - began
    if prepared.prewarm:
        body = fan_out.immediate(prepared) if prepared.choices > 1 else prepared.immediate()
        return exchange.respond(200, body, EVENTS if prepared.stream else "application/json")
    headers = request_headers(
        served.backend,
        exchange.request.headers,
        exchange.id,
        account=exchange.account(served.backend),
        same_protocol=prepared.same_protocol,
        openai_client=exchange.client != "messages",
        betas=prepared.betas,
    )
    if prepared.choices > 1:
        headers.pop("Idempotency-Key", None)  # so many requests are not one
    caller = exchange.caller
    if caller is not None and caller.tenant.forward_metadata:
        prepared.body = with_metadata(prepared.body, served.backend, caller.tenant)
    prepared.context.now = int(time.time())
    attempts.begin()
    answering = _stream if prepared.stream else _whole
    response = await answering(exchange, served, prepared, headers)
    exchange.gateway.remember(prepared)
    return response


def with_metadata(body: bytes, backend: Backend, tenant: Tenant) -> bytes:
    """The body with what the tenant's policy tells backends of it. OpenAI's alone have a place; the client's own
    metadata stays, and comes first."""
    if backend.dialect.family not in _TAKES_METADATA or backend.protocol == "messages":
        return body
    wire = loads(body)
    told = wire.get("metadata") if type(wire) is dict else None
    metadata = dict(told) if type(told) is dict else {}
    for name in tenant.forward_metadata:
        if len(metadata) < _MOST_METADATA:
            metadata.setdefault(name, tenant.metadata[name])
    return with_members(body, {"metadata": metadata})


def _prepare(exchange: Exchange, attempts: Attempts) -> tuple[Prepared, Served]:
    """The parsed request lives only in here: keeping it while the backend is asked costs memory and cache."""
    seen, served = attempts.take_seen(), attempts.served
    try:
        return _prepare_for(exchange, attempts, served, seen), served
    except Rejected as rejected:
        if served.responses is None or not pair.wants_responses(rejected):
            raise
        served = exchange.served = served.responses
        return _prepare_for(exchange, attempts, served, pair.peek(exchange.client, seen.raw)), served


def _prepare_for(exchange: Exchange, attempts: Attempts, served: Served, seen: Peek) -> Prepared:
    route = attempts.route
    target = exchange.gateway.target(route, attempts.model, served)
    exchange.model = target.model
    options = _options(exchange, route, served, target.model)
    if exchange.fallback_from is not None:
        _turn_again(exchange, served, seen)
    turn = exchange.turn
    if turn is not None:
        turn.bind(seen, same_protocol=seen.client == target.protocol)
    prepared = exchange.prepared = pair.prepare(seen, target, options)
    if turn is not None:
        turn.adorn(prepared)
    return prepared


def _turn_again(exchange: Exchange, served: Served, seen: Peek) -> None:
    """What the first target would have kept by itself is kept here if another one answers in its place."""
    if exchange.client == "responses" and not isinstance(exchange.turn, ResponseTurn):
        exchange.turn = begin_response(exchange, served, seen, None)
    elif exchange.client == "chat" and exchange.turn is None:
        exchange.turn = begin_completion(exchange, served, seen)


def _options(exchange: Exchange, route: ModelRoute, served: Served, model: str) -> Options:
    """The strictest of what the model's entry and the request itself say. `model`: the backend's name for it."""
    gateway, scope = exchange.gateway, exchange.scope(served.backend)
    return Options(
        exchange.id,
        strict=exchange.loss_policy.strict or exchange.request.headers.get("dragoman-strict") == "1",
        refused=exchange.loss_policy.refused,
        response_model=route.response_model,
        native_finish_reason=route.native_finish_reason,
        responses_done=route.responses_done,
        reasoning_field=route.reasoning_field,
        always_stream=served.backend.settings.always_stream_upstream,
        scope=scope,
        remembered=gateway.recall(scope),
        refused_fields=gateway.refused_fields.fields(served.backend.name, scope.origin, model),
        count_usage=exchange.counting,
    )


async def _stream(exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> StreamResponse:
    relaying = Relay if prepared.choices == 1 else FanOut
    relay = relaying(exchange, served, prepared, headers)
    try:
        return await relay.run()
    except Rejected as rejected:
        return await relay.fail(rejected.error)
    except Passed as passed:
        if not relay.committed:
            raise
        return await relay.fail(passed.error)
    except asyncio.CancelledError:
        if (error := exchange.watch.overdue()) is None:
            raise
        return await relay.fail(error)
    except ConnectionError:
        raise
    except Exception:
        if not relay.committed:
            raise
        # A bug of ours must not leave a stream that a client could take for a finished one.
        log.exception("A stream failed after it had begun")
        return await relay.fail(
            Error(ErrorClass.INTERNAL, "The proxy failed to translate the answer.", reason=Reason.INTERNAL)
        )
    finally:
        relay.close()


async def _whole(exchange: Exchange, served: Served, prepared: Prepared, headers: CIMultiDict[str]) -> StreamResponse:
    if prepared.choices > 1:
        return exchange.respond(200, await whole_choices(exchange, served, prepared, headers))
    exchange.watch.wait_in_all(served.limits.total_whole)
    body = None
    while body is None:
        body = await ask_whole(exchange, served, prepared, headers, exchange.watch)
    exchange.usage, exchange.stop = prepared.usage, prepared.stop
    note_estimate(exchange, prepared)
    if exchange.turn is not None:
        body = await exchange.turn.end_whole(body)
    return exchange.respond(200, body)
