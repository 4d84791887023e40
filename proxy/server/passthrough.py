"""Endpoints that nobody translates: they go to a backend that has them, streamed both ways, or are answered 404.

A JSON body that names a model goes where that model goes; anything else, such as an uploaded file or an id, goes to
the first upstream of the protocol that the endpoint belongs to.
"""

from collections.abc import AsyncIterator
from urllib.parse import unquote

from aiohttp.web import BaseRequest, RequestPayloadError, StreamResponse
from yarl import URL

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads, loads_exact
from proxy.server.answers import Passed, refuse_errors
from proxy.server.bodies import invite, read_body, too_large
from proxy.server.exchange import JSON, Exchange
from proxy.server.gateway import Served
from proxy.upstream.dialects import Protocol
from proxy.upstream.headers import request_headers
from proxy.upstream.pool import Answer

# Protocols whose backends have the endpoint, by the beginning of its path; the first that fits counts.
_OWNERS: tuple[tuple[str, tuple[Protocol, ...]], ...] = (
    ("/messages/batches", ("messages",)),
    ("/responses/", ("responses",)),
    ("/conversations", ("responses",)),
    ("/chat/completions/", ("chat",)),
    ("/embeddings", ("chat", "responses")),
    ("/moderations", ("chat", "responses")),
    ("/audio/", ("chat", "responses")),
    ("/images/", ("chat", "responses")),
    ("/files", ("chat", "responses")),
    ("/uploads", ("chat", "responses")),
    ("/vector_stores", ("chat", "responses")),
    ("/batches", ("chat", "responses")),
)
_METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH"})


def owners_of(method: str, path: str, *, messages_client: bool) -> tuple[Protocol, ...]:
    """The protocols whose backends may have this endpoint; none for one that nobody is known to have."""
    if method not in _METHODS or any(step in (".", "..") for step in unquote(path).split("/")):
        return ()
    for beginning, owners in _OWNERS:
        if path == beginning.rstrip("/") or path.startswith(beginning.rstrip("/") + "/"):
            return ("messages",) if messages_client and beginning == "/files" else owners
    return ()


async def pass_through(exchange: Exchange) -> StreamResponse:
    """Forward the request and its answer as they are. Raises `Rejected`."""
    path = raw_path(exchange.request)
    owners = owners_of(exchange.request.method, path, messages_client=exchange.client == "messages")
    body, served = await _read(exchange, owners)
    exchange.served = served
    query = exchange.request.rel_url.raw_query_string
    url = served.backend.address(path + (f"?{query}" if query else ""))
    exchange.watch.wait(served.limits.first_event_whole)
    answer = await _start(exchange, served, url, body)
    try:
        await refuse_errors(exchange, served, answer, same_protocol=True)
        return await _copy(exchange, served, answer)
    except Passed as passed:
        return exchange.refuse_as_told(passed.error, passed.status, passed.body)
    finally:
        answer.close()


def raw_path(request: BaseRequest) -> str:
    """The path as the client encoded it, without the version."""
    path = request.rel_url.raw_path
    return path.removeprefix("/v1") if path.startswith("/v1/") else path


class _Upload:
    """A body that is passed on while it comes. `failed` is what was wrong with it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.failed: Rejected | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as far as it is allowed to go."""
        exchange, content = self._exchange, self._exchange.request.content
        limit = exchange.gateway.settings.max_body
        try:
            while chunk := await content.readany():
                exchange.bytes_in += len(chunk)
                if exchange.bytes_in > limit:
                    self.failed = too_large(limit)
                    raise self.failed
                yield chunk
        except RequestPayloadError as error:
            message = "The request's body is not valid HTTP."
            self.failed = Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))
            raise self.failed from error


async def _read(exchange: Exchange, owners: tuple[Protocol, ...]) -> tuple[bytes | _Upload | None, Served]:
    """The body and where it goes. A form with files is not looked into, nor what comes compressed and is no JSON."""
    request = exchange.request
    if not request.body_exists:
        return None, _first(exchange, owners)
    compressed = request.headers.get("Content-Encoding") is not None and request.content_type != JSON
    if compressed or request.content_type.startswith("multipart/"):
        if (request.content_length or 0) > exchange.gateway.settings.max_body:
            raise too_large(exchange.gateway.settings.max_body)
        await invite(request)
        return _Upload(exchange), _first(exchange, owners)
    raw = await read_body(exchange)
    try:
        wire = loads(raw)
    except NotJson as error:
        if request.content_type == JSON:
            message = f"The request body is not valid JSON: {error}"
            raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED)) from error
        wire = None
    if type(wire) is not dict or type(name := wire.get("model")) is not str:
        return raw, _first(exchange, owners)
    return _routed(exchange, owners, raw, name)


def _routed(exchange: Exchange, owners: tuple[Protocol, ...], raw: bytes, name: str) -> tuple[bytes, Served]:
    """The body with the backend's name for its model, and that backend."""
    gateway = exchange.gateway
    exchange.model_requested = name
    route = gateway.route(name)
    if route.upstream.protocol not in owners:
        raise Rejected(_nobody(exchange))
    exchange.model = route.model or name
    if exchange.model != name:
        wire = loads_exact(raw)
        raw = dumps({**wire, "model": exchange.model}) if type(wire) is dict else raw
    return raw, gateway.served[route.upstream.name]


def _first(exchange: Exchange, owners: tuple[Protocol, ...]) -> Served:
    for served in exchange.gateway.served.values():
        if served.backend.protocol in owners:
            return served
    raise Rejected(_nobody(exchange))


def _nobody(exchange: Exchange) -> Error:
    request = exchange.request
    message = f"{request.method} {request.path[:200]} is not translated, and no backend here has it."
    return Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED)


async def _start(exchange: Exchange, served: Served, url: URL, body: bytes | _Upload | None) -> Answer:
    request = exchange.request
    headers = request_headers(served.backend, request.headers, exchange.id, same_protocol=True)
    headers["Accept"] = "*/*"
    headers.pop("Content-Type", None)
    if body is not None and (content_type := request.headers.get("Content-Type")):
        headers["Content-Type"] = content_type  # with the boundary of its parts
    pool = exchange.gateway.pool
    if not isinstance(body, _Upload):
        return await pool.start(served.backend, url, headers, body, request.method)
    for name in ("Content-Encoding", "Content-Length"):
        if name in request.headers:
            headers[name] = request.headers[name]
    try:
        return await pool.start(served.backend, url, headers, body.chunks(), request.method)
    except Rejected:
        if body.failed is not None:
            raise body.failed from None
        raise


async def _copy(exchange: Exchange, served: Served, answer: Answer) -> StreamResponse:
    """The answer's body as it comes."""
    response = await exchange.begin_copy(answer)
    watch, limits = exchange.watch, served.limits
    watch.wait(limits.idle)
    while chunk := await answer.readany():
        watch.wait(limits.client_write)
        await response.write(chunk)
        exchange.bytes_out += len(chunk)
        watch.wait(limits.idle)
    answer.finish()
    exchange.outcome = "ok"
    await response.write_eof()
    return response
