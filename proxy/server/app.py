"""Which endpoint does what. Anything else is answered too, in the shape that its caller can read.

There is no router and there are no middlewares: a request is one look-up in a table and one call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import NamedTuple

from aiohttp.web import BaseRequest, StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server.admission import Admission
from proxy.server.counting import count_tokens
from proxy.server.exchange import Exchange
from proxy.server.generation import generate, generate_over_websocket
from proxy.server.models import list_models, one_model
from proxy.server.passthrough import class_of, owners_of, pass_through, raw_path
from proxy.server.probes import PROBES
from proxy.server.reply import Reply
from proxy.server.runtime import Runtime
from proxy.server.stored import stored_handler
from proxy.server.stored_access import steps_of
from proxy.server.telling import tell
from proxy.server.websocket import wants_websocket
from proxy.settings.tenants import EndpointClass
from proxy.translation.codecs import ClientProtocol

Handler = Callable[[Exchange], Awaitable[StreamResponse]]

log = logging.getLogger("dragoman")


class Endpoint(NamedTuple):
    """`client`: the protocol that its callers speak; None: their headers tell. `kind`: its class in the policies of
    tenants; None for what does not exist, which is open to anyone. `kept`: of what the proxy keeps itself, for each
    tenant apart."""

    client: ClientProtocol | None
    handle: Handler
    kind: EndpointClass | None
    kept: bool = False


# Paths without their version, which may be left out.
ENDPOINTS: Mapping[tuple[str, str], Endpoint] = {
    ("POST", "/chat/completions"): Endpoint("chat", generate, "generate"),
    ("POST", "/responses"): Endpoint("responses", generate, "generate"),
    ("POST", "/messages"): Endpoint("messages", generate, "generate"),
    ("POST", "/completions"): Endpoint("completions", generate, "generate"),
    ("POST", "/messages/count_tokens"): Endpoint("messages", count_tokens, "count_tokens"),
    ("POST", "/responses/input_tokens"): Endpoint("responses", count_tokens, "count_tokens"),
    ("GET", "/models"): Endpoint(None, list_models, "models"),
}

_VERSION = "/v1"
_SWITCHED = 101  # the status of a WebSocket
_AT_ONCE = 64 * 1024  # bytes of a reply that are left to the system to send
_TABLE = {
    (method, prefix + path): endpoint for (method, path), endpoint in ENDPOINTS.items() for prefix in ("", _VERSION)
}


class App:
    """The handler of the client listener."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one request. Raises only what the connection handler knows: see `Connection`."""
        path = request.path
        endpoint = _TABLE.get((request.method, path))
        if endpoint is None:
            if request.method in ("GET", "HEAD") and (probe := PROBES.get(path)):
                return probe(self._runtime, request)
            endpoint = _kept_endpoint(self._runtime, request) or _endpoint_for(request, path)
        runtime = self._runtime
        client, route = endpoint.client or speaks(request), _route_name(endpoint, path)
        exchange = Exchange(runtime.gateway, request, client, route, endpoint.kind)
        runtime.open.add(exchange)
        try:
            with Admission(exchange) as admission:
                return await _answer(exchange, endpoint, admission)
        finally:
            exchange.watch.stop()
            runtime.open.discard(exchange)
            runtime.load.streams.discard(exchange)
            tell(exchange)


async def _answer(exchange: Exchange, endpoint: Endpoint, admission: Admission) -> StreamResponse:
    """What the endpoint answers, or the error that it ended in."""
    try:
        runtime = exchange.gateway.runtime
        runtime.load.check(exchange.gateway.settings.capacity, len(runtime.open))
        admission.identify(kept=endpoint.kept)
        response = await endpoint.handle(exchange)
        if exchange.bytes_out > _AT_ONCE and isinstance(response, Reply):
            await _write_watched(exchange, response)
        return response
    except Rejected as rejected:
        exchange.refused_losses = rejected.losses
        return _refuse(exchange, rejected.error)
    except asyncio.CancelledError:
        if (error := exchange.watch.overdue()) is None:
            if exchange.status != _SWITCHED or exchange.outcome != "ok":  # a WebSocket may have been closed well
                exchange.outcome = "cancelled"
            raise
        return _refuse(exchange, error)
    except ConnectionError:
        exchange.outcome = "cancelled"
        raise
    except Exception:
        log.exception("Exchange %s failed", exchange.id)
        message = "The proxy failed to handle this request."
        return _refuse(exchange, Error(ErrorClass.INTERNAL, message, reason=Reason.INTERNAL))


async def _write_watched(exchange: Exchange, response: Reply) -> None:
    """Write a reply that does not fit into the socket's buffers: its client may be one that does not read."""
    served = exchange.served
    exchange.watch.wait(served.limits.client_write if served is not None else exchange.gateway.client_write_limit)
    wrote = perf_counter()
    await response.prepare(exchange.request)
    await response.write_eof()
    exchange.times.client += perf_counter() - wrote


def _refuse(exchange: Exchange, error: Error) -> StreamResponse:
    """The error, or the connection's end where a reply has begun that can't hold one: it must be seen to be cut."""
    if not exchange.begun:
        return exchange.refuse(error)
    exchange.note_error(error)
    raise ConnectionAbortedError(error.message)


def speaks(request: BaseRequest) -> ClientProtocol:
    """The protocol of a caller whose path does not tell."""
    path = _unversioned(request.path)
    if path.startswith("/messages"):
        return "messages"
    if path.startswith(("/responses", "/conversations")):
        return "responses"
    if "anthropic-version" in request.headers:
        # It must not make an endpoint of OpenAI's one of Messages, to whose policy it would be subject.
        owners = owners_of("GET", raw_path(request), messages_client=True)
        return "messages" if not owners or "messages" in owners else "chat"
    return "chat"


def _unversioned(path: str) -> str:
    return path.removeprefix(_VERSION) if path.startswith(_VERSION + "/") else path


def _kept_endpoint(runtime: Runtime, request: BaseRequest) -> Endpoint | None:
    """The endpoint of something that the proxy keeps, where it keeps anything."""
    if runtime.keeping is None:
        return None
    found = stored_handler(request.method, steps_of(request))
    return Endpoint(*found, "stored", kept=True) if found is not None else None


def _endpoint_for(request: BaseRequest, path: str) -> Endpoint:
    """The endpoint of a path that is not fixed, or the one that says that there is none."""
    bare = _unversioned(path).rstrip("/") or "/"
    if found := ENDPOINTS.get((request.method, bare)):
        return found
    if (request.method, bare) == ("GET", "/responses") and wants_websocket(request):
        return _SOCKET
    if path in PROBES or any(known == bare for _, known in ENDPOINTS):
        return _WRONG_METHOD
    if bare.startswith("/models/") and request.method == "GET":
        return _ONE_MODEL
    if owners_of(request.method, raw_path(request), messages_client=speaks(request) == "messages"):
        return _PASSED_BY_CLASS[class_of(raw_path(request))]
    return _NOWHERE


async def _refuse_path(exchange: Exchange) -> StreamResponse:
    request = exchange.request
    message = f"There is no endpoint {request.method} {request.path[:200]}."
    raise Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))


async def _refuse_method(exchange: Exchange) -> StreamResponse:
    """A 405: no class of error has this status, so it is given by hand."""
    bare = _unversioned(exchange.request.path).rstrip("/")
    allowed = ", ".join(sorted(method for method, path in ENDPOINTS if path == bare)) or "GET"
    exchange.add_header("Allow", allowed)
    message = f"{exchange.request.method} is not allowed here, only {allowed} is."
    return exchange.refuse(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED), status=405)


_NOWHERE = Endpoint(None, _refuse_path, None)
_WRONG_METHOD = Endpoint(None, _refuse_method, None)
_SOCKET = Endpoint("responses", generate_over_websocket, "generate")
_ONE_MODEL = Endpoint(None, one_model, "models")
_PASSED_CLASSES: tuple[EndpointClass, ...] = ("generate", "stored", "other")
_PASSED_BY_CLASS = {kind: Endpoint(None, pass_through, kind) for kind in _PASSED_CLASSES}


def _route_name(endpoint: Endpoint, path: str) -> str:
    """What records call the endpoint: a closed set, whatever paths callers make up."""
    if endpoint is _NOWHERE:
        return "unmatched"
    bare = _unversioned(path).rstrip("/")
    fixed = endpoint.handle not in (one_model, pass_through) and not endpoint.kept
    return bare if fixed else "/" + bare.split("/")[1]
