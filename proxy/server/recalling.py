"""What a request of Responses refers to is put in front of its own input, so that any backend can answer it.

Everything is looked up under the caller's own tenant: what another one has kept is not there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.protocols.fields import Wire, invalid, is_object, kind, text
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.server.keeping import reaching
from proxy.state import Item, Key, Store
from proxy.translation.codecs import as_items
from proxy.translation.kept_turns import KeptTurn, continued, read_turn, references

MOST_TURNS = 1000  # in front of one
MOST_ITEMS = 10_000  # of a conversation
_AT_ONCE = 50  # records or items, each of which may be large
_VENDORS = frozenset({"openai", "azure", "anthropic"})  # families
_MARKS = (b'"previous_response_id"', b'"conversation"', b'"item_reference"', b'"rs_')


@dataclass(slots=True)
class Recalled:
    """What a request has referred to. `raw`: the request as it reads without that. `sent`: its own input, as JSON.
    `chain`: the turns before it; `base`: see `KeptTurn`. `conversation`: the one that it is to become part of. `whole`:
    all that a backend is asked with, as JSON, where a connection remembers turns that the store does not know."""

    raw: bytes
    sent: bytes
    previous: str | None = None
    conversation: str | None = None
    chain: list[str] = field(default_factory=list)
    base: tuple[str, int] | None = None
    whole: bytes | None = None
    before: int = 0  # items in front of the request's own


def restated(error: Error, field_name: str, before: int) -> None:
    """Let an error be about the place that the client knows: so many items or messages are not its own."""

    def own(found: re.Match[str]) -> str:
        return f"{field_name}[{max(int(found[1]) - before, 0)}]"

    place = re.compile(rf"\A{field_name}\[(\d+)\]")
    error.message = place.sub(own, error.message)
    if error.param is not None:
        error.param = place.sub(own, error.param)


def may_refer(raw: bytes) -> bool:
    """Whether it is worth decoding a request for."""
    return any(mark in raw for mark in _MARKS)


async def recall(exchange: Exchange, raw: bytes) -> Recalled | None:
    """None for a request that refers to nothing that is kept here. Raises `Rejected`."""
    keeping = exchange.gateway.runtime.keeping
    if keeping is None or not may_refer(raw):
        return None
    try:
        wire = loads(raw)
    except (NotJson, RecursionError):
        return None  # which is told by who reads it
    if not is_object(wire):
        return None
    with reaching(keeping) as store:
        return await _Recalling(exchange, store, wire).recalled()


class _Recalling:
    def __init__(self, exchange: Exchange, store: Store, wire: Wire) -> None:
        self._store = store
        self._wire = wire
        self._tenant = exchange.tenant_name
        self._left = exchange.body_limit  # bytes of what may be put in front
        self._vendor = vendor_of(exchange, wire)
        self._memory = exchange.memory

    async def recalled(self) -> Recalled | None:
        wire = self._wire
        previous = text(wire, "previous_response_id", ())
        conversation = _conversation_id(wire)
        if previous is not None and conversation is not None:
            invalid(("previous_response_id",), "can't be given together with 'conversation': choose one.")
        history: list[object] = []
        found = Recalled(b"", b"[]", previous, conversation)
        if previous is not None:
            turns = await self._turns(previous)
            if turns is None:
                return None
            found.chain = [*turns[-1].chain, previous]
            found.base = turns[0].base
            if found.base is not None:
                history += await self._items(*found.base)
            for turn in turns:
                history += turn.items()
        elif conversation is not None:
            items = await self._conversation(conversation)
            if items is None:
                return None
            history += [loads(item.value) for item in items]
            found.base = conversation, items[-1].position if items else -1
        given = wire.get("input")
        if given is not None and not isinstance(given, str | list):
            invalid(("input",), f"expected a string or an array of items, got {kind(given)}.")
        own = as_items(given)
        resolved = await self._resolved(own, history)
        if previous is None and conversation is None and resolved is own:
            return None
        if resolved is not own:
            wire = {**wire, "input": resolved}
        found.sent = dumps(wire.get("input", []))
        whole = continued(wire, history, foreign=self._vendor is not None)
        found.raw = dumps(whole)
        found.before = len(history)
        if self._memory is not None:
            found.whole = dumps([*history, *resolved])
            if previous in self._memory:
                found.sent, found.chain = found.whole, []  # the store does not know what comes before
        return found

    async def _turns(self, previous: str) -> list[KeptTurn] | None:
        """That turn and all before it, the first one first; None for one that the vendor keeps."""
        if self._memory is not None and (remembered := self._memory.get(previous)) is not None:
            return [self._read(remembered)]
        value = (await self._store.get(self._tenant, "response", [previous])).get(previous)
        if value is None:
            if self._vendor is not None:
                return None
            raise _no_previous(previous)
        elsewhere = upstream_of(value.value)
        if elsewhere is not None:
            if self._vendor is not None and self._vendor.backend.name == elsewhere:
                return None
            raise _not_portable(previous)
        last = self._read(value.value)
        if last.status not in ("completed", "incomplete"):
            message = f"the response '{previous[:128]}' is {last.status}, so it can't be continued."
            invalid(("previous_response_id",), message)
        if len(last.chain) >= MOST_TURNS:
            message = f"has {len(last.chain)} responses before it; at most {MOST_TURNS - 1} can be continued."
            invalid(("previous_response_id",), message)
        turns: list[KeptTurn] = []
        for first in range(0, len(last.chain), _AT_ONCE):
            ids = last.chain[first : first + _AT_ONCE]
            records = await self._store.get(self._tenant, "response", ids)
            for one in ids:
                if one not in records:
                    raise _no_previous(one, previous)
                turns.append(self._read(records[one].value))
        return [*turns, last]

    def _read(self, value: bytes) -> KeptTurn:
        turn = read_turn(value)
        self._take(len(value) - sum(len(one) + 3 for one in turn.chain))  # ids that nobody is sent
        return turn

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            message = "The conversation before this request is too large to be sent again."
            raise Rejected(Error(ErrorClass.TOO_LARGE, message, reason=Reason.BODY_TOO_LARGE))

    async def _conversation(self, conversation: str) -> list[Item] | None:
        key = Key(self._tenant, "conversation", conversation)
        if conversation not in await self._store.get(self._tenant, "conversation", [conversation]):
            if self._vendor is not None:
                return None
            raise no_conversation(conversation)
        return await self._all(key)

    async def _all(self, key: Key, until: int | None = None) -> list[Item]:
        items: list[Item] = []
        page: Sequence[Item] = ()
        while not items or len(page) == _AT_ONCE:
            page = await self._store.items(key, items[-1].position if items else None, _AT_ONCE)
            for item in page:
                if until is not None and item.position > until:
                    return items
                self._take(len(item.value))
                items.append(item)
            if len(items) > MOST_ITEMS:
                invalid(("conversation",), f"has more than {MOST_ITEMS} items, which is more than can be sent.")
            if not page:
                break
        return items

    async def _items(self, conversation: str, until: int) -> list[object]:
        """What a conversation held when a turn was added to it."""
        if conversation not in await self._store.get(self._tenant, "conversation", [conversation]):
            raise no_conversation(conversation)
        found = await self._all(Key(self._tenant, "conversation", conversation), until)
        return [loads(item.value) for item in found]

    async def _resolved(self, own: list[object], history: list[object]) -> list[object]:
        """The request's items, with kept ones in place of those that stand for them; the same list if none do."""
        wanted = references(own)
        if not wanted:
            return own
        known = {item["id"]: item for item in history if is_object(item) and "id" in item}
        missing = {response for one, response, _ in wanted.values() if one not in known}
        records = await self._store.get(self._tenant, "response", sorted(missing)[:_AT_ONCE]) if missing else {}
        for record in records.values():
            if upstream_of(record.value) is None:
                known |= {
                    item["id"]: item for item in self._read(record.value).items() if is_object(item) and "id" in item
                }
        resolved = list(own)
        for at, (one, _, _) in wanted.items():
            if one in known:
                resolved[at] = known[one]
        return resolved


def upstream_of(value: bytes) -> str | None:
    """The upstream that keeps a response in place of the proxy."""
    if not value.startswith(b'{"upstream":'):
        return None
    wire = loads(value)
    return str(wire["upstream"]) if is_object(wire) else None


def keeps_own(served: Served) -> bool:
    """Whether a backend keeps what clients of its own protocol want to be kept."""
    settings = served.backend.settings
    if settings.state != "auto":
        return settings.state == "backend"
    return settings.protocol == "responses" or served.backend.dialect.family in _VENDORS


def vendor_of(exchange: Exchange, wire: Wire) -> Served | None:
    """The backend that the request will go to, if that speaks Responses and keeps them itself."""
    gateway, model = exchange.gateway, wire.get("model")
    route = gateway.settings.route(model) if isinstance(model, str) else None
    if route is None:
        return None
    served = gateway.served[route.targets[0].upstream.name]
    return served if served.backend.protocol == "responses" and keeps_own(served) else None


def _conversation_id(wire: Wire) -> str | None:
    given = wire.get("conversation")
    if is_object(given):
        given = given.get("id")
        if given is None:
            invalid(("conversation", "id"), "this field is required.", code="missing_required_parameter")
    if given is not None and not isinstance(given, str):
        invalid(("conversation",), "expected an id, or an object with one.")
    return given


def _no_previous(missing: str, asked: str | None = None) -> Rejected:
    said = f"Previous response with id '{missing[:128]}' not found."
    if asked is not None:
        said += f" It is part of what '{asked[:128]}' continues, so that can't be continued any more."
    error = Error(
        ErrorClass.INVALID,
        said,
        code="previous_response_not_found",
        param="previous_response_id",
        reason=Reason.STATE_NOT_PORTABLE,
    )
    return Rejected(error)


def _not_portable(previous: str) -> Rejected:
    message = (
        f"Previous response with id '{previous[:128]}' is kept by another backend than the one that this model is at: "
        "send the whole history in 'input'."
    )
    error = Error(
        ErrorClass.INVALID,
        message,
        code="dragoman_state_not_portable",
        param="previous_response_id",
        reason=Reason.STATE_NOT_PORTABLE,
    )
    return Rejected(error)


def no_conversation(conversation: str) -> Rejected:
    """The 404 of a conversation that is not there."""
    message = f"Conversation with id '{conversation[:128]}' not found."
    return Rejected(Error(ErrorClass.NOT_FOUND, message, param="conversation", reason=Reason.MALFORMED))
