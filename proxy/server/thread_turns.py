"""Threads of Messages (messages.md 13.4), kept for five minutes after their last use.

Whoever goes on with one takes it first, so that of two that try only one does. Nobody depends on a thread that could
not be kept: its client is told that there is none, and sends the whole conversation, as the vendor's SDKs do.
"""

import logging
from dataclasses import dataclass

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, array, as_object, invalid, is_object, mapping, need_text
from proxy.server import ids
from proxy.server.exchange import Exchange
from proxy.server.keeping import Keeping, now
from proxy.server.recalling import keeps_own
from proxy.server.turns import Turn
from proxy.state import Conflict, Key, Put, Record, StoreFailed, Write
from proxy.translation.kept_threads import (
    CREATE_ONLY,
    continued_thread,
    reply_blocks,
    reply_with_id,
    streamed_blocks,
    with_message_id,
    write_thread,
)
from proxy.translation.pair import Peek
from proxy.translation.prepared import Prepared

KEPT_FOR = 300.0  # seconds after the last use
_IN_FLIGHT_FOR = 900.0  # seconds that a request may take before another may have the thread
_CONTINUED = b'{"continued":true}'

log = logging.getLogger("dragoman")


async def recall_thread(exchange: Exchange, raw: bytes) -> tuple[bytes, int]:
    """The request as it reads without its thread, whose turn the exchange then has, and how many messages are in front
    of its own. Raises `Rejected`."""
    keeping, settings = exchange.gateway.runtime.keeping, exchange.gateway.settings.state
    if keeping is None or settings is None or b'"thread"' not in raw:
        return raw, 0
    try:
        wire = loads(raw)
    except (NotJson, RecursionError):
        return raw, 0  # which is told by who reads it
    if not is_object(wire) or wire.get("thread") is None or _at_vendor(exchange, wire):
        return raw, 0
    thread = mapping(wire, "thread", ()) or {}
    rest = {name: value for name, value in wire.items() if name != "thread"}
    taken: _Taken | None = None
    before = 0
    match need_text(thread, "type", ("thread",)):
        case "create":
            pass
        case "continue":
            previous = need_text(thread, "previous_message_id", ("thread",))
            for name in CREATE_ONLY:
                if rest.get(name) is not None:
                    invalid((name,), "can't be given to a thread that was made with its own.")
            taken = await _take(keeping, Key(exchange.tenant_name, "thread", previous))
            kept = as_object(loads(taken.value), ())
            before = len(array(kept, "messages", ()) or ())
            rest = continued_thread(rest, kept)
        case other:
            invalid(("thread", "type"), f"'{other[:40]}' is not one of 'create', 'continue'.")
    exchange.turn = ThreadTurn(exchange.tenant_name, keeping, settings.most, rest, taken)
    return dumps(rest), before


def _at_vendor(exchange: Exchange, wire: Wire) -> bool:
    gateway, model = exchange.gateway, wire.get("model")
    route = gateway.settings.route(model) if isinstance(model, str) else None
    if route is None:
        return False
    served = gateway.served[route.targets[0].upstream.name]
    return served.backend.protocol == "messages" and keeps_own(served)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A thread that nobody else can go on with now. `version`: of its record, as it says that it is taken."""

    key: Key
    value: bytes
    version: int


async def _take(keeping: Keeping, key: Key) -> _Taken:
    try:
        record = (await keeping.store.get(key.tenant, key.kind, [key.id])).get(key.id)
        if record is None:
            raise _refused("thread_not_found", key)
        value = _free(record, key)
        flight = now() + _IN_FLIGHT_FOR
        taken = dumps({"in_flight_until": flight, "thread": loads(value)})
        await keeping.store.commit(Put(key, taken, flight + KEPT_FOR, version=record.version))
    except Conflict:
        raise _refused("thread_continue_in_flight", key) from None
    except StoreFailed as error:
        keeping.failed(error)
        raise _refused("thread_not_found", key) from error
    return _Taken(key, value, record.version + 1)


def _free(record: Record, key: Key) -> bytes:
    """The thread, if nobody has gone on with it, or is about to."""
    if record.value == _CONTINUED:
        raise _refused("thread_already_continued", key)
    wire = as_object(loads(record.value), ())
    until = wire.get("in_flight_until")
    if not isinstance(until, int | float):
        return record.value
    if until > now():
        raise _refused("thread_continue_in_flight", key)
    return dumps(wire["thread"])


def _refused(code: str, key: Key) -> Rejected:
    said = {
        "thread_not_found": "is not known; send the whole conversation",
        "thread_already_continued": "has been continued already; send the whole conversation",
        "thread_continue_in_flight": "is being continued by another request",
    }
    kind = ErrorClass.NOT_FOUND if code == "thread_not_found" else ErrorClass.INVALID
    message = f"thread.previous_message_id: the thread of '{key.id[:128]}' {said[code]}."
    return Rejected(Error(kind, message, reason=Reason.STATE_NOT_PORTABLE, details={"error_code": code}))


class ThreadTurn(Turn):
    """A request of a thread, and what there is to go on with after its reply."""

    def __init__(self, tenant: str, keeping: Keeping, most: int, wire: Wire, taken: _Taken | None) -> None:
        self._keeping = keeping
        self._most = most
        self._wire = wire
        self._taken = taken
        self._key = Key(tenant, "thread", ids.kept_id("msg_"))
        self._passes = False
        self._heard: list[bytes] = []
        self._size = 0

    def bind(self, seen: Peek, *, same_protocol: bool) -> None:  # noqa: ARG002  what it was about is gone already
        self._passes = same_protocol

    def adorn(self, prepared: Prepared) -> None:
        prepared.context.reply_id = self._key.id

    def told(self, out: bytes) -> bytes:
        if self._passes and not self._heard:
            out = with_message_id(out, self._key.id)
        self._size += len(out)
        if self._size <= self._most:
            self._heard.append(out)
        return out

    async def end_stream(self, out: bytes) -> bytes:
        out = self.told(out)
        await self._keep(streamed_blocks(b"".join(self._heard)) if self._size <= self._most else None)
        return out

    async def end_whole(self, body: bytes) -> bytes:
        if self._passes:
            body = reply_with_id(body, self._key.id)
        await self._keep(reply_blocks(body))
        return body

    def left(self) -> None:
        """Let another request have the thread where this one has come to nothing."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._keeping.later(self._give_back(taken))

    async def _give_back(self, taken: _Taken) -> None:
        put = Put(taken.key, taken.value, now() + KEPT_FOR, version=taken.version)
        try:
            await self._keeping.store.commit(put)
        except (Conflict, StoreFailed):
            log.info("A thread could not be given back; its client will send the whole conversation")

    async def _keep(self, blocks: list[object] | None) -> None:
        taken, self._taken = self._taken, None
        expires = now() + KEPT_FOR
        writes: list[Write] = []
        if taken is not None:
            writes.append(Put(taken.key, _CONTINUED, expires, version=taken.version))
        if blocks is not None and len(value := write_thread(self._wire, blocks)) <= self._most:
            writes.append(Put(self._key, value, expires, version=0))
        try:
            await self._keeping.store.commit(*writes)
        except Conflict:
            log.info("A thread was taken by another request; its client will send the whole conversation")
        except StoreFailed as error:
            self._keeping.failed(error)
        else:
            self._keeping.works()
