"""Conversations (responses.md 15.4): items that responses are added to, kept by the proxy.

Where all backends keep their own, a conversation is theirs, as if there were no store here.
"""

from collections.abc import Awaitable, Callable, Sequence

from aiohttp.web import StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.canonical.loss import LossReport
from proxy.protocols.fields import Wire, array, as_object, invalid
from proxy.server import ids
from proxy.server.admission import admit_request
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import now, reaching
from proxy.server.passthrough import pass_through
from proxy.server.stored_access import all_keep, json_body, kept_by, metadata_of, steps_of, vendor_for
from proxy.server.stored_lists import listed, page_of
from proxy.state import Append, Conflict, Delete, Key, Put, Record, Remove
from proxy.translation import prepare
from proxy.translation.codecs import listed_item

Handler = Callable[[Exchange], Awaitable[StreamResponse]]

_MOST_ITEMS = 20  # in one request
_TRIES = 5


def conversation_handler(method: str, steps: list[str]) -> Handler | None:
    """`steps`: what follows on `/conversations`."""
    match method, steps:
        case "POST", []:
            return _create
        case "GET", [_]:
            return _read
        case "POST", [_]:
            return _change
        case "DELETE", [_]:
            return _delete
        case "POST", [_, "items"]:
            return _add
        case "GET", [_, "items"]:
            return _list
        case "GET", [_, "items", _]:
            return _read_item
        case "DELETE", [_, "items", _]:
            return _delete_item
        case _:
            return None


async def _create(exchange: Exchange) -> StreamResponse:
    if all_keep(exchange.gateway, "responses"):
        return await pass_through(exchange)
    body = await json_body(exchange)
    items, metadata = _items(body, needed=False), metadata_of(body)
    await admit_request(exchange)
    key = Key(exchange.tenant_name, "conversation", ids.kept_id("conv_"))
    shown: Wire = {
        "id": key.id,
        "object": "conversation",
        "created_at": int(now()),
        "metadata": metadata or {},
    }
    expires = _expires(exchange)
    with reaching(kept_by(exchange)) as store:
        await store.commit(Put(key, dumps(shown), expires, version=0), Append(key, _dumped(items), expires))
    return exchange.respond(200, dumps(shown))


async def _read(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    return exchange.respond(200, found.value)


async def _change(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    body = await json_body(exchange)
    if "metadata" not in body:
        invalid(("metadata",), "this field is required.", code="missing_required_parameter")
    metadata = metadata_of(body)
    await admit_request(exchange)
    key = _key(exchange)
    with reaching(kept_by(exchange)) as store:
        for _ in range(_TRIES):
            shown = dumps({**as_object(loads(found.value), ()), "metadata": metadata or {}})
            try:
                await store.commit(Put(key, shown, _expires(exchange), version=found.version))
            except Conflict:  # somebody else has changed it meanwhile
                found = await _own(exchange)
            else:
                return exchange.respond(200, shown)
    message = "The conversation is being changed by others. Try again."
    raise Rejected(Error(ErrorClass.CONFLICT, message, reason=Reason.MALFORMED))


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
    return exchange.respond(200, dumps({"id": key.id, "object": "conversation.deleted", "deleted": True}))


async def _add(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    items = _items(await json_body(exchange), needed=True)
    await admit_request(exchange)
    key = _key(exchange)
    with reaching(kept_by(exchange)) as store:
        try:
            await store.commit(Append(key, _dumped(items), _expires(exchange)))
        except Conflict:
            raise _not_found(key) from None
    return exchange.respond(200, listed(items, more=False))


async def _list(exchange: Exchange) -> StreamResponse:
    page = page_of(exchange)
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    key, after = _key(exchange), None
    with reaching(kept_by(exchange)) as store:
        if page.after is not None:
            before = await store.item(key, page.after)
            if before is None:
                invalid(("after",), f"no item has the id '{page.after[:128]}'.")
            after = before.position
        items = await store.items(key, after, page.limit + 1, newest=page.newest)
    shown = [as_object(loads(item.value), ()) for item in items[: page.limit]]
    return exchange.respond(200, listed(shown, more=len(items) > page.limit))


async def _read_item(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    item_id = steps_of(exchange.request)[3]
    with reaching(kept_by(exchange)) as store:
        item = await store.item(_key(exchange), item_id)
    if item is None:
        raise _no_item(item_id)
    return exchange.respond(200, item.value)


async def _delete_item(exchange: Exchange) -> StreamResponse:
    found = await _found(exchange)
    if isinstance(found, Served):
        return await pass_through(exchange, found)
    await admit_request(exchange)
    item_id = steps_of(exchange.request)[3]
    with reaching(kept_by(exchange)) as store:
        try:
            await store.commit(Remove(_key(exchange), item_id))
        except Conflict:
            raise _no_item(item_id) from None
    return exchange.respond(200, found.value)


# ---- where it is


def _key(exchange: Exchange) -> Key:
    return Key(exchange.tenant_name, "conversation", steps_of(exchange.request)[1])


async def _own(exchange: Exchange) -> Record:
    key = _key(exchange)
    with reaching(kept_by(exchange)) as store:
        record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
    if record is None:
        raise _not_found(key)
    return record


async def _found(exchange: Exchange) -> Record | Served:
    """The conversation, or the backend that may know it. Raises `Rejected` for one that nobody has."""
    try:
        return await _own(exchange)
    except Rejected as rejected:
        vendor = vendor_for(exchange, None) if rejected.error.kind is ErrorClass.NOT_FOUND else None
        if vendor is None:
            raise
        return vendor


def _expires(exchange: Exchange) -> float:
    state = exchange.gateway.settings.state
    return now() + (state.ttl if state is not None else 0.0)


def _not_found(key: Key) -> Rejected:
    message = f"Conversation with id '{key.id[:128]}' not found."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))


def _no_item(item_id: str) -> Rejected:
    message = f"Item with id '{item_id[:128]}' not found in this conversation."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, reason=Reason.MALFORMED))


# ---- what a request says


def _items(body: Wire, *, needed: bool) -> list[Wire]:
    """As lists show them, each with an id of its own. Raises `Rejected` for what could not be sent to a model."""
    given = array(body, "items", ())
    if given is None:
        if needed:
            invalid(("items",), "this field is required.", code="missing_required_parameter")
        return []
    if len(given) > _MOST_ITEMS:
        invalid(("items",), f"has {len(given)} items; at most {_MOST_ITEMS} are added at once.")
    try:
        prepare.read(
            "responses", {"model": "none", "input": given}, dumps({"model": "none", "input": given}), LossReport()
        )
    except Rejected as rejected:
        error = rejected.error
        error.message = error.message.replace("input", "items", 1)
        error.param = error.param.replace("input", "items", 1) if error.param is not None else None
        raise
    wires = [as_object(item, ("items", at)) for at, item in enumerate(given)]
    return [
        listed_item({name: value for name, value in wire.items() if name != "id"}, ids.kept_id("")) for wire in wires
    ]


def _dumped(items: Sequence[Wire]) -> list[tuple[str, bytes]]:
    return [(str(item["id"]), dumps(item)) for item in items]
