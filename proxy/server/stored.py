"""Endpoints of what is kept: responses by id. What the store does not know, a backend may (`passthrough.py`)."""

from collections.abc import Awaitable, Callable

from aiohttp.web import StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import invalid
from proxy.server.admission import admit_request
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import reaching
from proxy.server.passthrough import pass_through
from proxy.server.recalling import upstream_of
from proxy.server.stored_access import kept_by, steps_of, vendor_for
from proxy.server.stored_completions import completion_handler
from proxy.server.stored_conversations import conversation_handler
from proxy.server.stored_lists import cut, page_of
from proxy.server.stored_streams import resume
from proxy.state import Conflict, Delete, Key, Put, Record
from proxy.translation.codecs import ClientProtocol, listed_items
from proxy.translation.kept_turns import RUNNING, read_turn, write_turn

Handler = Callable[[Exchange], Awaitable[StreamResponse]]


def stored_handler(method: str, steps: list[str]) -> tuple[ClientProtocol, Handler] | None:
    """What answers for something that is kept, and in which protocol; None for a path that nothing kept has."""
    client: ClientProtocol = "responses"
    if steps[:1] == ["conversations"]:
        handler = conversation_handler(method, steps[1:])
    elif steps[:2] == ["chat", "completions"]:
        client, handler = "chat", completion_handler(method, steps[2:])
    else:
        handler = _response_handler(method, steps)
    return None if handler is None else (client, handler)


def _response_handler(method: str, steps: list[str]) -> Handler | None:
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
    turn, query = read_turn(found.value), exchange.request.rel_url.query
    if query.get("stream") != "true":
        return exchange.respond(200, dumps(turn.response))
    if turn.job != "streamed":
        message = "Only the stream of a response that was created with background=true and stream=true can be resumed."
        raise Rejected(Error(ErrorClass.INVALID, message, param="stream", reason=Reason.MALFORMED))
    after = query.get("starting_after", "-1")
    if not after.removeprefix("-").isdigit():
        invalid(("starting_after",), "expected the sequence number of an event.")
    return await resume(exchange, _key(exchange), int(after[:15]))


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
    with reaching(keeping) as store:
        try:
            await store.commit(Delete(key))
        except Conflict:  # another request was faster
            raise _not_found(key.id) from None
    keeping.changed(key)
    if (job := keeping.jobs.get(key)) is not None:
        job.cancel()
    return exchange.respond(200, dumps({"id": key.id, "object": "response", "deleted": True}))


async def _cancel(exchange: Exchange) -> StreamResponse:
    found = await _response(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    keeping, key = kept_by(exchange), _key(exchange)
    record: Record | None = found
    while record is not None:
        turn = read_turn(record.value)
        if turn.job is None:
            message = "Only a response that was created with background=true can be cancelled."
            raise Rejected(Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED))
        if turn.status not in RUNNING:
            return exchange.respond(200, dumps(turn.response))
        cancelled = dumps({**turn.response, "status": "cancelled"})
        value = write_turn(cancelled, dumps(turn.input), turn.chain, turn.base, turn.job)
        with reaching(keeping) as store:
            try:
                await store.commit(Put(key, value, record.expires, version=record.version))
            except Conflict:  # it has moved on meanwhile
                record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
                continue
        keeping.changed(key)
        if (job := keeping.jobs.get(key)) is not None:
            job.cancel()
        return exchange.respond(200, cancelled)
    raise _not_found(key.id)


def _key(exchange: Exchange) -> Key:
    return Key(exchange.tenant_name, "response", steps_of(exchange.request)[1])


async def _response(exchange: Exchange) -> Record | Served:
    """The response that the path names, or the backend that may know it. Raises `Rejected` for one that nobody has."""
    keeping, key = kept_by(exchange), _key(exchange)
    with reaching(keeping) as store:
        record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
    if record is not None and upstream_of(record.value) is None:
        await admit_request(exchange)
        return record
    upstream = upstream_of(record.value) if record is not None else None
    vendor = vendor_for(exchange, upstream)
    if vendor is None:
        raise _not_found(key.id)
    return vendor


def _not_found(response_id: str) -> Rejected:
    message = f"Response with id '{response_id[:128]}' not found."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))
