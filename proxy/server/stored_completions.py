"""Kept Chat completions by id, and all that there are (chat_completions.md 11)."""

from collections.abc import Awaitable, Callable

from aiohttp.web import StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire, invalid
from proxy.server.admission import admit_request
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import reaching
from proxy.server.passthrough import pass_through
from proxy.server.stored_access import all_keep, json_body, kept_by, metadata_of, steps_of, vendor_for
from proxy.server.stored_lists import cut, listed, page_of
from proxy.state import Conflict, Delete, Key, Put, Record
from proxy.translation.kept_completions import shown_completion, shown_messages, with_metadata

Handler = Callable[[Exchange], Awaitable[StreamResponse]]

_AT_ONCE = 100
_LOOKED_AT = 5000  # completions, for one page of those that a filter lets through


def completion_handler(method: str, steps: list[str]) -> Handler | None:
    """`steps`: what follows on `/chat/completions`."""
    match method, steps:
        case "GET", []:
            return _list
        case "GET", [_]:
            return _read
        case "POST", [_]:
            return _change
        case "DELETE", [_]:
            return _delete
        case "GET", [_, "messages"]:
            return _messages
        case _:
            return None


async def _list(exchange: Exchange) -> StreamResponse:
    if all_keep(exchange.gateway, "chat"):
        return await pass_through(exchange)
    page = page_of(exchange, default="asc")
    await admit_request(exchange)
    found: list[Wire] = []
    after, looked = page.after, 0
    with reaching(kept_by(exchange)) as store:
        while len(found) <= page.limit and looked < _LOOKED_AT:
            ids = await store.page(exchange.tenant_name, "chat", after, _AT_ONCE, newest=page.newest)
            records = await store.get(exchange.tenant_name, "chat", ids) if ids else {}
            shown = (shown_completion(records[one].value) for one in ids if one in records)
            found += [one for one in shown if _passes(exchange, one)]
            looked += len(ids)
            if len(ids) < _AT_ONCE:
                break
            after = ids[-1]
    return exchange.respond(200, listed(found[: page.limit], more=len(found) > page.limit))


def _passes(exchange: Exchange, completion: Wire) -> bool:
    """Whether it is one that the query is about."""
    metadata = completion.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    for name, value in exchange.request.rel_url.query.items():
        if name == "model" and completion.get("model") != value:
            return False
        if name.startswith("metadata[") and known.get(name.removeprefix("metadata[").rstrip("]")) != value:
            return False
    return True


async def _read(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    return exchange.respond(200, dumps(shown_completion(found.value)))


async def _messages(exchange: Exchange) -> StreamResponse:
    page = page_of(exchange, default="asc")
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    return exchange.respond(200, cut(shown_messages(found.value, _key(exchange).id), page))


async def _change(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    body = await json_body(exchange)
    if "metadata" not in body:
        invalid(("metadata",), "this field is required.", code="missing_required_parameter")
    value = with_metadata(found.value, metadata_of(body))
    await admit_request(exchange)
    with reaching(kept_by(exchange)) as store:
        try:
            await store.commit(Put(_key(exchange), value, found.expires, version=found.version))
        except Conflict:
            message = "The completion is being changed by others. Try again."
            raise Rejected(Error(ErrorClass.CONFLICT, message, reason=Reason.MALFORMED)) from None
    return exchange.respond(200, dumps(shown_completion(value)))


async def _delete(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    key = _key(exchange)
    with reaching(kept_by(exchange)) as store:
        try:
            await store.commit(Delete(key))
        except Conflict:
            raise _not_found(key) from None
    return exchange.respond(200, dumps({"id": key.id, "object": "chat.completion.deleted", "deleted": True}))


def _key(exchange: Exchange) -> Key:
    return Key(exchange.tenant_name, "chat", steps_of(exchange.request)[2])


async def _found(exchange: Exchange) -> Record | Served:
    """The completion, or the backend that may know it. Raises `Rejected` for one that nobody has."""
    key = _key(exchange)
    with reaching(kept_by(exchange)) as store:
        record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
    if record is not None:
        return record
    vendor = vendor_for(exchange, None, "chat")
    if vendor is None:
        raise _not_found(key)
    return vendor


def _not_found(key: Key) -> Rejected:
    message = f"Chat completion with id '{key.id[:128]}' not found."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))
