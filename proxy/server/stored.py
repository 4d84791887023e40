"""Endpoints of what is kept: responses by id. What the store does not know, a backend may (`passthrough.py`)."""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from aiohttp.web import BaseRequest, StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps
from proxy.server.admission import admit_request
from proxy.server.exchange import Exchange
from proxy.server.gateway import Gateway, Served
from proxy.server.keeping import Keeping, unavailable
from proxy.server.passthrough import pass_through, raw_path
from proxy.server.recalling import keeps_own, upstream_of
from proxy.server.stored_lists import cut, page_of
from proxy.state import Conflict, Delete, Key, Record, StoreFailed
from proxy.translation.codecs import listed_items
from proxy.translation.kept_turns import read_turn

Handler = Callable[[Exchange], Awaitable[StreamResponse]]


def steps_of(request: BaseRequest) -> list[str]:
    """The steps of the path, without the version."""
    return [unquote(step) for step in raw_path(request).rstrip("/").split("/")[1:]]


def stored_handler(method: str, steps: list[str]) -> Handler | None:
    """What answers for something that is kept; None for a path that nothing kept has."""
    match method, steps:
        case "GET", ["responses", _]:
            return _read
        case "DELETE", ["responses", _]:
            return _delete
        case "GET", ["responses", _, "input_items"]:
            return _input_items
        case "POST", ["responses", _, "cancel"]:
            return _cancel
        case _:
            return None


async def _read(exchange: Exchange) -> StreamResponse:
    found = await _response(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    if exchange.request.rel_url.query.get("stream") == "true":
        message = "Only the stream of a response that was created with background=true and stream=true can be resumed."
        raise Rejected(Error(ErrorClass.INVALID, message, param="stream", reason=Reason.MALFORMED))
    return exchange.respond(200, dumps(read_turn(found.value).response))


async def _input_items(exchange: Exchange) -> StreamResponse:
    page = page_of(exchange)
    found = await _response(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    turn = read_turn(found.value)
    items = listed_items(turn.input, str(turn.response.get("id")).removeprefix("resp_"))
    return exchange.respond(200, cut(items, page))


async def _delete(exchange: Exchange) -> StreamResponse:
    found = await _response(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    keeping, key = kept_by(exchange), _key(exchange)
    try:
        await keeping.store.commit(Delete(key))
    except Conflict:  # another request was faster
        raise _not_found(key.id) from None
    except StoreFailed as error:
        raise unavailable(error) from error
    return exchange.respond(200, dumps({"id": key.id, "object": "response", "deleted": True}))


async def _cancel(exchange: Exchange) -> StreamResponse:
    found = await _response(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    message = "Only a response that was created with background=true can be cancelled."
    raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))


def kept_by(exchange: Exchange) -> Keeping:
    """The store, which there is where these endpoints are. Raises `Rejected` where it has been taken away."""
    keeping = exchange.gateway.runtime.keeping
    if keeping is None:
        raise _not_found("")
    return keeping


def _key(exchange: Exchange) -> Key:
    return Key(exchange.tenant_name, "response", steps_of(exchange.request)[1])


async def _response(exchange: Exchange) -> Record | Served:
    """The response that the path names, or the backend that may know it. Raises `Rejected` for one that nobody has."""
    keeping, key = kept_by(exchange), _key(exchange)
    try:
        record = (await keeping.store.get(key.tenant, key.kind, [key.id])).get(key.id)
    except StoreFailed as error:
        keeping.failed(error)
        raise unavailable(error) from error
    if record is not None and upstream_of(record.value) is None:
        await admit_request(exchange)
        return record
    upstream = upstream_of(record.value) if record is not None else None
    vendor = vendor_for(exchange, upstream)
    if vendor is None:
        raise _not_found(key.id)
    return vendor


def vendor_for(exchange: Exchange, upstream: str | None) -> Served | None:
    """The backend that may have what the store does not: the one that is known to, or the only one that there is."""
    vendors = vendors_of(exchange.gateway)
    if upstream is not None:
        vendors = [one for one in vendors if one.backend.name == upstream]
    if len(vendors) != 1:
        return None
    caller = exchange.caller
    if caller is not None:
        try:
            caller.policy.check_endpoint("stored", own_key=exchange.account(vendors[0].backend).key is not None)
        except Rejected:
            return None  # it has no such thing, for this caller
    return vendors[0]


def vendors_of(gateway: Gateway) -> list[Served]:
    """The backends of Responses that keep what they answer."""
    return [one for one in gateway.served.values() if one.backend.protocol == "responses" and keeps_own(one)]


def _not_found(response_id: str) -> Rejected:
    message = f"Response with id '{response_id[:128]}' not found."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))
