"""Responses that are kept: in the store, or at a backend of which the store only knows that it has them."""

import re

from aiohttp.web import StreamResponse

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.canonical.reply import ReplyContext
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire, flag, invalid, is_object
from proxy.server import ids
from proxy.server.admission import admit
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import Keeping, now, unavailable
from proxy.server.recalling import Recalled, keeps_own, no_conversation
from proxy.server.turns import Turn
from proxy.settings.snapshot import StateSettings
from proxy.state import Append, Conflict, Key, Put, StoreFailed, Write
from proxy.translation import pair
from proxy.translation.codecs import echo_of, listed_items, queued_response, write_usage
from proxy.translation.kept_turns import (
    ending_of,
    failure_events,
    last_event,
    number_of,
    response_event,
    told_events,
    told_response,
    write_turn,
)
from proxy.translation.pair import Peek
from proxy.translation.passed_body import with_members
from proxy.translation.prepared import Prepared

_MULTI_AGENT = "responses_multi_agent"  # a feature of the vendor's own (responses.md 17)
_ENCRYPTED = "reasoning.encrypted_content"
_ID = re.compile(rb'"id"\s*:\s*"(resp_[^"\\]{1,256})"')


def begin_response(exchange: Exchange, served: Served, seen: Peek, recalled: Recalled | None) -> Turn | None:
    """What is to be kept of a request of Responses; None for nothing."""
    runtime = exchange.gateway.runtime
    if _MULTI_AGENT in exchange.request.headers.get("OpenAI-Beta", "") and served.backend.protocol != "responses":
        message = "OpenAI-Beta: several agents are not to be had with this model."
        raise Rejected(Error(ErrorClass.UNSUPPORTED, message, reason=Reason.LOSS_REFUSED))
    keeping, settings = runtime.keeping, exchange.gateway.settings.state
    if keeping is None or settings is None:
        return None
    store = seen.wire.get("store")
    remembers = exchange.memory is not None and store is False
    if recalled is None and not remembers and served.backend.protocol == "responses" and keeps_own(served):
        others = [one for one in exchange.gateway.served.values() if one.backend.protocol == "responses"]
        return (
            VendorTurn(exchange, keeping, settings, served.backend.name) if store is not False and others[1:] else None
        )
    if recalled is None and not remembers and store is False:
        return None
    return ResponseTurn(exchange, keeping, settings, seen, recalled)


class ResponseTurn(Turn):
    """A response in the store. It must be kept where the client has asked for that in words, or is in a conversation;
    where it only has not said otherwise, it is told that it was not."""

    def __init__(
        self, exchange: Exchange, keeping: Keeping, settings: StateSettings, seen: Peek, recalled: Recalled | None
    ) -> None:
        self._keeping = keeping
        self._settings = settings
        self._recalled = recalled or Recalled(b"", b"")
        store = seen.wire.get("store")
        self._stores = store is not False
        self._must = store is True or self._recalled.conversation is not None
        self._sent = self._recalled.sent if recalled is not None else dumps(seen.wire.get("input"))
        self._key = Key(exchange.tenant_name, "response", ids.kept_id("resp_"))
        self._passes = False
        self._memory = exchange.memory
        conversation = self._recalled.conversation
        self._told: Wire = {
            "id": self._key.id,
            "store": self._stores,
            "previous_response_id": self._recalled.previous,
            "conversation": {"id": conversation} if conversation is not None else None,
        }

    def bind(self, seen: Peek, *, same_protocol: bool) -> None:
        self._passes = same_protocol
        if not same_protocol:
            seen.wire.pop("store", None)  # it is not the backend's to do, so nothing is lost
            return
        include = seen.wire.get("include")
        wanted = [one for one in include if one != _ENCRYPTED] if isinstance(include, list) else []
        seen.raw = with_members(seen.raw, {"store": False, "include": [*wanted, _ENCRYPTED]})

    def adorn(self, prepared: Prepared) -> None:
        context = prepared.context
        context.reply_id = self._key.id
        context.echo = {**context.echo, **{name: value for name, value in self._told.items() if name != "id"}}

    def told(self, out: bytes) -> bytes:
        return told_events(out, self._told) if self._passes else out

    def parted(self, out: bytes) -> tuple[bytes, bytes]:
        at = last_event(out)
        return (out[:at], out[at:]) if at >= 0 else (out, b"")

    async def end_stream(self, out: bytes) -> bytes:
        out = self.told(out)
        ending = ending_of(out)
        if ending is None:
            return out
        try:
            kept = await self._keep(ending.response)
        except Rejected as rejected:
            self.failed = rejected.error
            response = loads(ending.response)
            events, _ = failure_events(number_of(out) or 0, response if is_object(response) else {}, rejected.error)
            return events
        return out if kept is ending.response else ending.head + kept + ending.tail

    async def end_whole(self, body: bytes) -> bytes:
        return await self._keep(told_response(body, self._told) if self._passes else body)

    async def _keep(self, response: bytes) -> bytes:
        """The response that the client is told: the same, unless it could not be kept. Raises `Rejected`."""
        self._remember(response)
        writes = self._writes(response)
        if not writes:
            return response
        try:
            self._check_size(writes)
            await self._keeping.store.commit(*writes)
        except Conflict:
            raise no_conversation(self._recalled.conversation or "") from None
        except StoreFailed as error:
            self._keeping.failed(error)
            if self._must:
                raise unavailable(error) from error
            return told_response(response, {"store": False})
        self._keeping.works()
        return response

    def _remember(self, response: bytes) -> None:
        """The newest response of a connection can be continued in it, whether or not it is kept."""
        if self._memory is not None:
            self._memory.clear()
            whole = self._recalled.whole or self._sent
            if not self._stores and len(response) + len(whole) <= self._settings.most:
                self._memory[self._key.id] = write_turn(response, whole, ())

    async def warmed(self, wire: Wire, model: str) -> bytes:
        """The events of a response that only prepares what a later one continues (responses.md 16.1)."""
        context = ReplyContext("", model, int(now()), reply_id=self._key.id)
        context.echo = {**echo_of(wire), **{name: value for name, value in self._told.items() if name != "id"}}
        begun = {**queued_response(context), "status": "in_progress"}
        ended = {**begun, "status": "completed", "completed_at": context.now, "usage": write_usage(Usage())}
        kept = loads(await self._keep(dumps(ended)))
        events = (("created", begun), ("in_progress", begun), ("completed", kept if is_object(kept) else ended))
        return b"".join(
            response_event(f"response.{name}", number, shown) for number, (name, shown) in enumerate(events)
        )

    def _writes(self, response: bytes) -> list[Write]:
        recalled, expires = self._recalled, now() + self._settings.ttl
        writes: list[Write] = []
        if recalled.conversation is not None:
            owner = self._key._replace(kind="conversation", id=recalled.conversation)
            writes.append(Append(owner, self._items(response), expires))
        if self._stores:
            value = write_turn(response, self._sent, recalled.chain, recalled.base)
            writes.append(Put(self._key, value, expires, version=0))
        return writes

    def _items(self, response: bytes) -> list[tuple[str, bytes]]:
        """What the turn adds to its conversation. Ids of a client's items are its own, and may stand there already."""
        sent = loads(self._sent)
        anew = [
            {name: value for name, value in item.items() if name != "id"} if is_object(item) else item
            for item in (sent if isinstance(sent, list) else ())
        ]
        items = listed_items(anew if isinstance(sent, list) else sent, self._key.id.removeprefix("resp_"))
        wire = loads(response)
        output = wire.get("output") if is_object(wire) else None
        items += [item for item in (output if isinstance(output, list) else ()) if is_object(item)]
        return [(str(item.get("id")), dumps(item)) for item in items]

    def _check_size(self, writes: list[Write]) -> None:
        for write in writes:
            values = [write.value] if isinstance(write, Put) else []
            if isinstance(write, Append):
                values = [value for _, value in write.items]
            if any(len(value) > self._settings.most for value in values):
                raise StoreFailed("a response is larger than state.max_stored")


class VendorTurn(Turn):
    """A response at a backend: which one that is must be known once its id comes back."""

    def __init__(self, exchange: Exchange, keeping: Keeping, settings: StateSettings, upstream: str) -> None:
        self._keeping = keeping
        self._settings = settings
        self._upstream = upstream
        self._tenant = exchange.tenant_name
        self._id: str | None = None

    def bind(self, seen: Peek, *, same_protocol: bool) -> None:
        """The backend is to see it all."""

    def adorn(self, prepared: Prepared) -> None:
        """The backend tells it."""

    def told(self, out: bytes) -> bytes:
        self._note(out)
        return out

    async def end_stream(self, out: bytes) -> bytes:
        self._note(out)
        await self._keep()
        return out

    async def end_whole(self, body: bytes) -> bytes:
        self._note(body)
        await self._keep()
        return body

    def _note(self, out: bytes) -> None:
        if self._id is None and (found := _ID.search(out)):
            self._id = found[1].decode("ascii", "replace")

    async def _keep(self) -> None:
        """Without the store the first backend of Responses is asked, as if there were none."""
        if self._id is None:
            return
        value = dumps({"upstream": self._upstream})
        put = Put(Key(self._tenant, "response", self._id), value, now() + self._settings.ttl, version=0)
        try:
            await self._keeping.store.commit(put)
        except Conflict:
            return  # what a backend says must not take the place of what is there
        except StoreFailed as error:
            self._keeping.failed(error)


async def warm_up(exchange: Exchange, raw: bytes, recalled: Recalled | None) -> StreamResponse | None:
    """The answer to a request that is to prepare state alone; None for any other. Raises `Rejected`."""
    keeping, settings = exchange.gateway.runtime.keeping, exchange.gateway.settings.state
    if exchange.memory is None or b'"generate"' not in raw:
        return None
    wire = loads(raw)
    if not is_object(wire) or flag(wire, "generate", ()) is not False:
        return None
    if keeping is None or settings is None:
        invalid(("generate",), "can't be false here: nothing is kept that a later request could continue.")
    admitted = await admit(exchange, with_members(raw, {"generate": True}))
    pair.read_request(admitted.seen)
    turn = ResponseTurn(exchange, keeping, settings, admitted.seen, recalled)
    response = await exchange.begin()
    await response.write_eof(await turn.warmed(admitted.seen.wire, admitted.seen.model))
    exchange.outcome = "ok"
    return response
