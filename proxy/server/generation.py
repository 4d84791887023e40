"""One answer of a model: the endpoints that all three protocols are about (operations.md 1)."""

import asyncio
import logging
import time

from aiohttp.web import StreamResponse
from multidict import CIMultiDict

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server.answers import Passed, note_estimate
from proxy.server.bodies import read_json
from proxy.server.exchange import EVENTS, Exchange
from proxy.server.fan_out import FanOut, whole_choices
from proxy.server.gateway import Served
from proxy.server.relay import Relay
from proxy.server.whole import ask_whole
from proxy.settings import LossPolicy, ModelRoute
from proxy.translation import fan_out, pair
from proxy.translation.pair import Options, Peek, Prepared
from proxy.upstream.headers import request_headers

log = logging.getLogger("dragoman")


async def generate(exchange: Exchange) -> StreamResponse:
    """Read, route, translate, ask, and answer. Raises `Rejected`."""
    prepared, served = _prepare(exchange, await read_json(exchange))
    if prepared.prewarm:
        body = fan_out.immediate(prepared) if prepared.choices > 1 else prepared.immediate()
        return exchange.respond(200, body, EVENTS if prepared.stream else "application/json")
    headers = request_headers(
        served.backend,
        exchange.request.headers,
        exchange.id,
        same_protocol=prepared.same_protocol,
        openai_client=exchange.client != "messages",
        betas=prepared.betas,
    )
    if prepared.choices > 1:
        headers.pop("Idempotency-Key", None)  # so many requests are not one
    prepared.context.now = int(time.time())
    try:
        answering = _stream if prepared.stream else _whole
        response = await answering(exchange, served, prepared, headers)
    except Passed as passed:
        return exchange.refuse_as_told(passed.error, passed.status, passed.body)
    exchange.gateway.remember(served.backend, exchange.request.headers, prepared)
    return response


def _prepare(exchange: Exchange, raw: bytes) -> tuple[Prepared, Served]:
    """The parsed request lives only in here: keeping it while the backend is asked costs memory and cache."""
    seen = pair.peek(exchange.client, raw)
    gateway = exchange.gateway
    exchange.model_requested = seen.model
    exchange.stream = seen.stream
    route = gateway.route(seen.model)
    exchange.loss_policy = route.loss or LossPolicy()
    served = exchange.served = gateway.served[route.upstream.name]
    try:
        return _prepare_for(exchange, route, served, seen), served
    except Rejected as rejected:
        if served.responses is None or not pair.wants_responses(rejected):
            raise
        served = exchange.served = served.responses
        return _prepare_for(exchange, route, served, pair.peek(exchange.client, raw)), served


def _prepare_for(exchange: Exchange, route: ModelRoute, served: Served, seen: Peek) -> Prepared:
    gateway = exchange.gateway
    target = gateway.target(route, seen.model, served)
    exchange.model = target.model
    options = _options(exchange, route, served, gateway.refused_fields.fields(served.backend.name, target.model))
    prepared = exchange.prepared = pair.prepare(seen, target, options)
    return prepared


def _options(exchange: Exchange, route: ModelRoute, served: Served, refused_fields: frozenset[str]) -> Options:
    """The strictest of what the model's entry and the request itself say."""
    return Options(
        exchange.id,
        strict=exchange.loss_policy.strict or exchange.request.headers.get("dragoman-strict") == "1",
        refused=exchange.loss_policy.refused,
        response_model=route.response_model,
        native_finish_reason=route.native_finish_reason,
        responses_done=route.responses_done,
        reasoning_field=route.reasoning_field,
        always_stream=route.upstream.always_stream_upstream,
        scope=(scope := exchange.gateway.scope(served.backend, exchange.request.headers)),
        remembered=exchange.gateway.recall(scope.origin),
        refused_fields=refused_fields,
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
    return exchange.respond(200, body)
