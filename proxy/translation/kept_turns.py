"""Turns of Responses that a server keeps: what is kept of one, and how a request reads with what was kept before it.

A kept turn is what the client sent and what it was told, so it is history that any backend can be asked with.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast

from proxy.canonical.errors import Error
from proxy.canonical.jsontext import Fragment, dumps, loads
from proxy.protocols.fields import Wire, as_object, is_object
from proxy.translation.codecs import as_items, failure_of, place_of, sent_items

_RESPONSE = re.compile(rb'"response"\s*:\s*')  # in an event, its first: only plain values stand before it
_WITH_RESPONSE = re.compile(
    rb"^data:[ \t]*(\{.*\"type\"\s*:\s*"
    rb"\"response\.(?:created|queued|in_progress|completed|incomplete|failed)\".*\})\r?$",
    re.MULTILINE,
)
# Fields of a request that say what is kept, and that no backend is to see.
REFERRING = ("previous_response_id", "conversation")


Job = Literal["whole", "streamed"]


class KeptTurn(NamedTuple):
    """`response`: as the client was told it. `input`: as the client sent it. `chain`: the ids of the turns before it,
    the first one first. `base`: the conversation before it, and the position of the last item that it had.
    `job`: how a response was made that nobody waited for; the events of a streamed one can be read once more."""

    response: Wire
    input: object
    chain: list[str]
    base: tuple[str, int] | None = None
    job: Job | None = None

    @property
    def status(self) -> object:
        """Where the response stands."""
        return self.response.get("status")

    def items(self) -> list[object]:
        """What the turn adds to a conversation."""
        output = self.response.get("output")
        return [*as_items(self.input), *(output if isinstance(output, list) else ())]


class Ending(NamedTuple):
    """The event that ends a stream: what stands before the response in it, the response, and what stands behind it."""

    head: bytes
    response: bytes
    tail: bytes


def write_turn(
    response: bytes, sent: bytes, chain: Sequence[str], base: tuple[str, int] | None = None, job: Job | None = None
) -> bytes:
    """A turn as it is kept. `response` and `sent`, the request's input, are JSON."""
    wire: Wire = {"response": Fragment(response), "input": Fragment(sent), "chain": list(chain)}
    if base is not None:
        wire["base"] = base
    if job is not None:
        wire["job"] = job
    return dumps(wire)


def read_turn(value: bytes) -> KeptTurn:
    """A turn that was kept."""
    wire = as_object(loads(value), ())
    chain, base = wire.get("chain"), wire.get("base")
    return KeptTurn(
        as_object(wire["response"], ()),
        wire.get("input"),
        list(map(str, chain)) if isinstance(chain, list) else [],
        (str(base[0]), int(base[1])) if isinstance(base, list) else None,
        cast("Job | None", wire.get("job")),
    )


def last_event(out: bytes) -> int:
    """Where in a stream's last bytes the event begins that ends it well; -1 when none does."""
    return max(_begins(out, b"event: response.completed"), _begins(out, b"event: response.incomplete"))


def _begins(out: bytes, line: bytes) -> int:
    """Where the last such line stands. What a model said can't look like it: its line ends are escaped."""
    at = out.rfind(line)
    while at >= 0:
        if out[at + len(line) : at + len(line) + 1] in (b"\n", b"\r") and (at == 0 or out[at - 1 : at] == b"\n"):
            return at
        at = out.rfind(line, 0, at)
    return -1


def ending_of(event: bytes) -> Ending | None:
    """The parts of what begins with that event; None when no response is to be found in it."""
    first = _RESPONSE.search(event)
    end = event.find(b"\n\n")
    if first is None or end < 0:
        return None
    closing = event.rindex(b"}", 0, end)
    return Ending(event[: first.end()], event[first.end() : closing], event[closing:])


def continued(wire: Wire, history: Sequence[object], *, foreign: bool) -> Wire:
    """The request with this before its own input. `foreign`: ids of items mean nothing to who will read it."""
    rest = {name: value for name, value in wire.items() if name not in REFERRING}
    own = as_items(wire.get("input")) if isinstance(wire.get("input"), str | list) else []
    return {**rest, "input": [*sent_items(history, keep_ids=not foreign), *own]}


def told_response(response: bytes, told: Mapping[str, object]) -> bytes:
    """A response that a backend wrote, with what only the proxy knows."""
    return dumps({**as_object(loads(response), ()), **told})


def told_events(out: bytes, told: Mapping[str, object]) -> bytes:
    """The same of all responses in whole events."""
    return _WITH_RESPONSE.sub(lambda event: b"data: " + _told_event(event[1], told), out)


def _told_event(event: bytes, told: Mapping[str, object]) -> bytes:
    """With the response behind all else, as `ending_of` counts on."""
    wire = as_object(loads(event), ())
    response = wire.pop("response", None)
    return dumps({**wire, "response": {**response, **told}}) if is_object(response) else event


def references(items: Sequence[object]) -> dict[int, tuple[str, str, int]]:
    """Items that stand for kept ones: by their place, the id that they name, and the response and place that it is of.

    Beside those that say so, reasoning without what a backend needs of it: its client counts on its id.
    """
    found: dict[int, tuple[str, str, int]] = {}
    for at, item in enumerate(items):
        if not is_object(item) or not isinstance(item_id := item.get("id"), str):
            continue
        bare = item.get("type") == "reasoning" and not item.get("encrypted_content")
        if (bare or item.get("type") == "item_reference" or item.keys() <= {"id"}) and (place := place_of(item_id)):
            found[at] = (item_id, *place)
    return found


RUNNING = frozenset({"queued", "in_progress"})  # what a response is before its end
_NUMBER = re.compile(rb'("sequence_number"\s*:\s*)(\d{1,15})')  # in an event, its first
_CREATED = re.compile(
    rb"\A(?:event: response\.created\r?\n)?data:[^\n]*\"type\"\s*:\s*\"response\.created\"[^\n]*\n\r?\n"
)


def shifted(out: bytes, by: int) -> bytes:
    """Whole events with higher numbers."""
    return b"".join(
        _NUMBER.sub(lambda found: found[1] + b"%d" % (int(found[2]) + by), event, count=1) for event in events_of(out)
    )


def events_of(out: bytes) -> list[bytes]:
    """The events of whole ones, without comments."""
    events = [event + b"\n\n" for event in out.split(b"\n\n") if event.strip()]
    return [event for event in events if not event.startswith(b":")]


def number_of(event: bytes) -> int | None:
    """The number of an event."""
    found = _NUMBER.search(event)
    return int(found[2]) if found is not None else None


def without_created(out: bytes) -> bytes:
    """A stream's first events without the one that says that there is a response: it has been told already."""
    return _CREATED.sub(b"", out, count=1)


def response_event(event_type: str, number: int, response: Wire) -> bytes:
    """An event that tells where a response stands."""
    wire = {"type": event_type, "sequence_number": number, "response": response}
    return b"event: %b\ndata: %b\n\n" % (event_type.encode(), dumps(wire))


def failure_events(number: int, response: Wire, error: Error) -> tuple[bytes, Wire]:
    """The events that end a stream with an error, of which the first has this number; and the failed response."""
    told, kept = failure_of(error)
    failed = {**response, "status": "failed", "error": kept}
    wire = {"type": "error", "sequence_number": number, "error": told}
    return b"event: error\ndata: %b\n\n" % dumps(wire) + response_event("response.failed", number + 1, failed), failed
