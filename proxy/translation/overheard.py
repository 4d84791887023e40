"""What a client asked and was told, read back from the bytes that went to and fro, for who records conversations.

It looks at the client's side alone, so it is the same for what was translated and for what passed through.
"""

from typing import NamedTuple, TypeGuard

from proxy.canonical.errors import InexactNumber, Rejected
from proxy.canonical.fold import Fold
from proxy.canonical.jsontext import NotJson, loads, loads_exact
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect
from proxy.protocols.fields import Wire, as_object, is_object
from proxy.translation.codecs import BACKENDS, CLIENTS, BackendProtocol, ClientProtocol
from proxy.translation.reading import DONE
from proxy.translation.sse import EventTooLarge, SseReader

_UNREADABLE = (NotJson, Rejected, EventTooLarge, RecursionError)


class Names(NamedTuple):
    """What an answer is called, where it says so. `status`: of a response that may not be complete. `tier`,
    `fingerprint`: OpenAI's `service_tier` and `system_fingerprint`."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    tier: str | None = None
    fingerprint: str | None = None


def names_in(body: bytes, *, streamed: bool) -> Names:
    """What an answer, or the beginning of a stream, says of itself."""
    try:
        wire = _first_event(body) if streamed else loads_exact(body)
    except _UNREADABLE:
        return Names()
    if not is_object(wire):
        return Names()
    for name in ("message", "response"):  # where streams of Messages and of Responses have it
        if is_object(inner := wire.get(name)):
            wire = inner
    return Names(*(_word(wire, name) for name in ("id", "model", "status", "service_tier", "system_fingerprint")))


def _first_event(body: bytes) -> object:
    events = SseReader().feed(body)
    return loads_exact(events[0][1]) if events else None


def _word(wire: Wire, name: str) -> str | None:
    value = wire.get(name)
    return value if type(value) is str else None


# What refers to more than the request holds: readers refuse it, who have to translate all of the conversation.
_REFERENCES = ("previous_response_id", "conversation", "prompt", "background", "thread")


def request_of(client: ClientProtocol, body: bytes) -> Request | None:
    """As much of it as it holds itself; None for what can't be read."""
    read = CLIENTS[client].read_request
    try:
        try:
            return read(_by_itself(loads(body)), LossReport())
        except InexactNumber:
            return read(_by_itself(loads_exact(body)), LossReport(), exact=True)
    except _UNREADABLE:
        return None


def reply_of(client: ClientProtocol, body: bytes, *, streamed: bool) -> Reply | None:
    """None for what is no answer or was not told to its end, and for text completions, which nobody reads."""
    if not _is_read(client):
        return None
    try:
        return _streamed(client, body) if streamed else _whole(client, body)
    except _UNREADABLE:
        return None


def _by_itself(value: object) -> Wire:
    wire = _object(value)
    for name in _REFERENCES:
        wire.pop(name, None)
    items = wire.get("input")
    if type(items) is list:
        wire["input"] = [item for item in items if not is_object(item) or item.get("type") != "item_reference"]
    return wire


def _object(value: object) -> Wire:
    return as_object(value, ())


def _is_read(client: ClientProtocol) -> TypeGuard[BackendProtocol]:
    return client in BACKENDS


def _whole(client: BackendProtocol, body: bytes) -> Reply:
    read = BACKENDS[client].read_reply
    try:
        return read(_object(loads(body)), Spelling(), Dialect(), LossReport())
    except InexactNumber:
        return read(_object(loads_exact(body)), Spelling(), Dialect(), LossReport(), exact=True)


def _streamed(client: BackendProtocol, body: bytes) -> Reply | None:
    fold, sse = Fold(), SseReader()
    reader = BACKENDS[client].stream_reader(fold.emit, Spelling(), Dialect(), LossReport())
    reader.exact = True
    for name, payload in (*sse.feed(body), *sse.end()):
        if payload == DONE:
            reader.done()
        else:
            reader.feed(_object(loads_exact(payload)), name)
    reader.end()
    return fold.reply() if fold.finished and fold.error is None else None
