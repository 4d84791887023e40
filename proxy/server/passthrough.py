"""Endpoints that nobody translates: they go to a backend that has them, streamed both ways, or are answered 404.

A JSON body that names a model goes where that model goes; anything else, such as an uploaded file or an id, goes to
the first upstream of the protocol that the endpoint belongs to.
"""

from collections.abc import AsyncIterator
from functools import partial
from time import perf_counter
from urllib.parse import unquote

from aiohttp.web import BaseRequest, RequestPayloadError, StreamResponse
from yarl import URL

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.usage import Usage
from proxy.server.admission import admit, admit_without_model
from proxy.server.answers import Passed, refuse_errors
from proxy.server.attempts import Attempts
from proxy.server.bodies import invite, read_body, too_large
from proxy.server.exchange import JSON, Exchange
from proxy.server.gateway import Served
from proxy.server.told_usage import Told
from proxy.settings.tenants import EndpointClass
from proxy.tenancy.refusals import denied
from proxy.tenancy.tenants import Caller
from proxy.translation.passed_body import renamed
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
# What of these is kept in a vendor's account, for all who share its key; and what neither is nor asks a model.
_STORED = (
    "/messages/batches",
    "/responses",
    "/conversations",
    "/chat/completions",
    "/files",
    "/uploads",
    "/vector_stores",
    "/batches",
)
_COMPACT = "/responses/compact"
_BATCH_OF_MESSAGES = "/messages/batches"
_BATCHES = "/batches"  # of requests in a file
_OF_REQUESTS = (_BATCH_OF_MESSAGES, _BATCHES)
# Their price can't be told from what they answer.
_UNPRICED = ("/audio", "/images")
_METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH"})


def owners_of(method: str, path: str, *, messages_client: bool) -> tuple[Protocol, ...]:
    """The protocols whose backends may have this endpoint; none for one that nobody is known to have, and for a path
    that some server would take for another."""
    plain = unquote(path).replace("\\", "/")
    if method not in _METHODS or ";" in plain or not plain.isprintable():
        return ()
    if any(step in ("", ".", "..") for step in plain.rstrip("/").split("/")[1:]):
        return ()
    for beginning, owners in _OWNERS:
        if path == beginning.rstrip("/") or path.startswith(beginning.rstrip("/") + "/"):
            return ("messages",) if messages_client and beginning == "/files" else owners
    return ()


def class_of(path: str) -> EndpointClass:
    """The class, in tenants' policies, of an endpoint that is passed through."""
    if _plain(path) == _COMPACT:
        return "generate"
    return "stored" if path.startswith(_STORED) else "other"


def _plain(path: str) -> str:
    """How a backend reads the path."""
    return unquote(path).rstrip("/")


async def pass_through(exchange: Exchange, to: Served | None = None) -> StreamResponse:
    """Forward the request and its answer as they are. `to`: where, if that is known. Raises `Rejected`."""
    path = raw_path(exchange.request)
    owners = owners_of(exchange.request.method, path, messages_client=exchange.client == "messages")
    _check_price(exchange, path)
    body, served, attempts = await _read(exchange, owners, path, to)
    exchange.served = served
    try:
        if attempts is None:
            return await _answer(exchange, served, path, body)
        return await attempts.run(partial(_attempt, exchange, attempts, path))
    except Passed as passed:
        return exchange.refuse_as_told(passed.error, passed.status, passed.body)


async def _attempt(exchange: Exchange, attempts: Attempts, path: str) -> StreamResponse:
    """The answer of the target whose turn it is, to a request that names a model. Raises `Rejected` and `Passed`."""
    seen, exchange.model = attempts.take_seen(), attempts.model
    attempts.begin()
    return await _answer(exchange, attempts.served, path, renamed(seen.raw, seen.model, attempts.model))


async def _answer(exchange: Exchange, served: Served, path: str, body: "bytes | _Upload | None") -> StreamResponse:
    """One backend's answer. Raises `Rejected` and `Passed` if the client has heard nothing yet."""
    query = exchange.request.rel_url.raw_query_string
    url = served.backend.address(path + (f"?{query}" if query else ""))
    exchange.watch.wait(served.limits.first_event_whole)
    exchange.watch.wait_in_all(served.limits.total)  # what it holds of its tenant's limits would end before it does
    if exchange.counting:  # whatever comes of it, the backend may have read the prompt
        exchange.spent = Usage(input_fresh=exchange.prompt_estimate, estimated=True)
    try:
        answer = await _start(exchange, served, url, body)
    except (Rejected, Passed):
        exchange.spent = None
        raise
    try:
        return await _copy(exchange, served, answer)
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
        limit = exchange.body_limit
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


def _check_price(exchange: Exchange, path: str) -> None:
    """A budget that can't see what something costs must not let it through."""
    caller = exchange.caller
    budget = caller.tenant.limits.budget if caller is not None else None
    if budget is not None and budget.hard and path.startswith(_UNPRICED):
        message = "This key's team has a budget, and what this endpoint costs can't be told."
        raise Rejected(denied(Reason.ENDPOINT_DENIED, message))


async def _read(
    exchange: Exchange, owners: tuple[Protocol, ...], path: str, to: Served | None
) -> tuple[bytes | _Upload | None, Served, Attempts | None]:
    """The body and where it goes; what names a model may go to several. A form with files is not looked into, nor what
    comes compressed and is no JSON."""
    request, caller = exchange.request, exchange.caller
    served = to or _first(exchange, owners)
    if not request.body_exists:
        await admit_without_model(exchange, served)
        return None, served, None
    compressed = request.headers.get("Content-Encoding") is not None and request.content_type != JSON
    if compressed or request.content_type.startswith("multipart/"):
        if (request.content_length or 0) > exchange.body_limit:
            raise too_large(exchange.body_limit)
        if caller is not None:
            _not_looked_into(exchange, caller, path)
        await admit_without_model(exchange, served)
        await invite(request)
        return _Upload(exchange), served, None
    raw = await read_body(exchange)
    try:
        wire = loads(raw)
    except NotJson as error:
        if request.content_type == JSON:
            message = f"The request body is not valid JSON: {error}"
            raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED)) from error
        wire = None
    named = type(wire) is dict and (type(wire.get("model")) is str or exchange.endpoint == "generate")
    if caller is not None and (not named or _plain(path) in _OF_REQUESTS):
        raw = _looked_into(exchange, caller, path, raw, wire)
    if named:
        attempts = await _routed(exchange, owners, raw)
        return None, attempts.served, attempts
    await admit_without_model(exchange, served)
    return raw, served, None


def _looked_into(exchange: Exchange, caller: Caller, path: str, raw: bytes, wire: object) -> bytes:
    """The body of a request that names no model itself, or of several requests. Raises `Rejected`."""
    policy = caller.policy
    if type(wire) is not dict:
        _not_looked_into(exchange, caller, path)
    elif _plain(path) == _BATCH_OF_MESSAGES:
        if caller.tenant.limits.counts_tokens:
            policy.check_hidden_requests()
        return policy.check_batch(raw, wire)
    elif _plain(path) == _BATCHES:
        policy.check_hidden_requests()
    else:
        policy.check_request(exchange.client, raw, wire)
        if exchange.endpoint != "stored":
            policy.check_named_model(wire)  # the vendor would choose one
    return raw


def _not_looked_into(exchange: Exchange, caller: Caller, path: str) -> None:
    """A body that nobody reads may hold what the policy is about. Raises `Rejected` where that matters."""
    if exchange.endpoint == "generate" or _plain(path) in _OF_REQUESTS:
        caller.policy.check_hidden_requests()
    elif exchange.endpoint == "other":
        caller.policy.check_form()


async def _routed(exchange: Exchange, owners: tuple[Protocol, ...], raw: bytes) -> Attempts:
    """The attempts at the targets of its model."""
    # A compaction is what OpenAI lets nobody limit.
    admitted = await admit(exchange, raw, fill=False, owners=owners)
    if admitted.served.backend.protocol not in owners:
        raise Rejected(_nobody(exchange))
    return Attempts(exchange, admitted)


def _first(exchange: Exchange, owners: tuple[Protocol, ...]) -> Served:
    """The first of them that the caller may ask."""
    known = [served for served in exchange.gateway.served.values() if served.backend.protocol in owners]
    if not known:
        raise Rejected(_nobody(exchange))
    caller = exchange.caller
    return next((served for served in known if caller is None or caller.may_ask(served.backend.name)), known[0])


def _nobody(exchange: Exchange) -> Error:
    request = exchange.request
    message = f"{request.method} {request.path[:200]} is not translated, and no backend here has it."
    return Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED)


async def _start(exchange: Exchange, served: Served, url: URL, body: bytes | _Upload | None) -> Answer:
    """An answer that is no error. Raises `Rejected` and `Passed`."""
    asked = perf_counter()
    try:
        answer = await _ask(exchange, served, url, body)
    finally:
        exchange.times.upstream += perf_counter() - asked
    try:
        await refuse_errors(exchange, served, answer, same_protocol=True)
    except BaseException:
        answer.close()
        raise
    return answer


async def _ask(exchange: Exchange, served: Served, url: URL, body: bytes | _Upload | None) -> Answer:
    request = exchange.request
    account = exchange.account(served.backend)
    headers = request_headers(served.backend, request.headers, exchange.id, account=account, same_protocol=True)
    headers["Accept"] = "*/*"
    headers.pop("Content-Type", None)
    if body is not None and (content_type := request.headers.get("Content-Type")):
        headers["Content-Type"] = content_type  # with the boundary of its parts
    if not isinstance(body, _Upload):
        return await exchange.ask(served.backend, url, headers, body, request.method)
    for name in ("Content-Encoding", "Content-Length"):
        if name in request.headers:
            headers[name] = request.headers[name]
    try:
        return await exchange.ask(served.backend, url, headers, body.chunks(), request.method)
    except Rejected:
        if body.failed is not None:
            raise body.failed from None
        raise


async def _copy(exchange: Exchange, served: Served, answer: Answer) -> StreamResponse:
    """The answer's body as it comes."""
    response = await exchange.begin_copy(answer)
    told = Told()
    watch, limits, times = exchange.watch, served.limits, exchange.times
    watch.wait(limits.idle)
    asked = perf_counter()
    try:
        while chunk := await answer.readany():
            times.upstream += perf_counter() - asked
            if exchange.counting:
                told.hear(chunk)
            watch.wait(limits.client_write)
            wrote = perf_counter()
            await response.write(chunk)
            times.client += (asked := perf_counter()) - wrote
            exchange.bytes_out += len(chunk)
            watch.wait(limits.idle)
    finally:
        if exchange.counting:
            exchange.spent = told.usage(exchange.prompt_estimate)
    answer.finish()
    exchange.outcome = "ok"
    await response.write_eof()
    return response
