"""No field of a streamed event is lost in silence (invariant I11 of mapping.md section 20).

As in `test_reply_fields`, for every event of the vendors' types. Their names are decided on too: a documented event
may not be one that the reader takes for unknown.
"""

from collections.abc import Iterator
from typing import Literal

import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

from proxy.canonical.loss import Loss, Path, Rule
from tests.harness.model_replies import render
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.event_places import event_place, event_types, framed
from tests.properties.reply_decisions import ECHO, is_idle, is_lost_whole
from tests.properties.reply_places import ReplyPlace, fields_of, minimal, places, title
from tests.properties.stream_decisions import FAILING, PLACES, TOLD_ELSEWHERE, is_told_elsewhere, says_where
from tests.properties.test_streams import PAIRS, prepared


def outcome(client: Protocol, backend: Protocol, events: list[Json]) -> tuple[bytes, list[Loss], bool]:
    """What the client gets for a stream, what is told as lost, and whether it fails."""
    ready = prepared(client, backend, stream=True)
    translation = ready.translation()
    out = translation.feed(render(backend, events)) + translation.end()
    return out, ready.losses, translation.failed is not None


def undecided(client: Protocol, backend: Protocol, event_type: type[BaseModel]) -> Iterator[str]:
    """What of an event the client never hears of."""
    event = minimal(event_type)
    name = event_name(event)
    with_event, without = framed(backend, event)
    after = outcome(client, backend, with_event)
    assert after[2] == (name in FAILING), name
    if is_unknown(after[1]):
        yield f"{name} is unknown"
    elif after == outcome(client, backend, without) and not is_told_elsewhere(name):
        yield f"{name} tells nothing"
    for place in places(event_place(backend, event_type), ECHO[backend]):
        if not is_told_elsewhere(joined(name, place.path)):
            yield from (f"{name}: {field}" for field in silent_fields(client, backend, name, place))


def silent_fields(client: Protocol, backend: Protocol, event: str, place: ReplyPlace) -> Iterator[str]:
    for name, value, without, with_field in place.replies():
        if is_told_elsewhere(joined(event, (*place.path, name))) or says_where(place, name):
            continue
        if is_idle(client, backend, place, name, value):
            continue
        after = outcome(client, backend, with_field)
        if after == outcome(client, backend, without) and not is_lost_whole(after[1], place):
            yield f"{place.path} {title(place.struct)}.{name} = {value!r:.60}"


def event_name(event: Json) -> str:
    return str(event.get("type", "chunk"))


def joined(event: str, path: Path) -> str:
    return ".".join((event, *(step for step in path if isinstance(step, str))))


def is_unknown(losses: list[Loss]) -> bool:
    """Whether the reader took an event, or a delta, for one that nobody knows."""
    return any(loss.rule is Rule.UNKNOWN_FIELD and loss.path.startswith("stream.") for loss in losses)


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_every_event_and_field_is_mapped_or_told(client: Protocol, backend: Protocol) -> None:
    found = [what for event_type in event_types(backend) for what in undecided(client, backend, event_type)]
    assert found == []


class NewField(ResponseTextDeltaEvent):
    phase: str | None = None


class Choice(ChunkChoice):
    phase: str


class NewFieldBelow(ChatCompletionChunk):
    choices: list[Choice]  # type: ignore[assignment]


class NewEvent(BaseModel):
    type: Literal["response.hologram.projected"]
    delta: str


@pytest.mark.parametrize(
    ("backend", "event_type", "found"),
    [
        ("responses", NewField, ["response.output_text.delta: () NewField.phase"]),
        ("chat", NewFieldBelow, ["chunk: ('choices', 0) Choice.phase"]),
        (
            "responses",
            NewEvent,
            ["response.hologram.projected is unknown", "response.hologram.projected: () NewEvent"],
        ),
    ],
)
def test_what_a_new_sdk_brings_is_found(backend: Protocol, event_type: type[BaseModel], found: list[str]) -> None:
    lines = list(undecided("messages", backend, event_type))
    assert [line for line in lines if not line.startswith(tuple(found))] == []
    assert all(any(line.startswith(start) for line in lines) for start in found)


def test_every_decision_is_about_a_field_that_there_is() -> None:
    paths: set[str] = set()
    names: set[str] = set()
    for backend in PROTOCOLS:
        for event_type in event_types(backend):
            event = event_name(minimal(event_type))
            paths.add(event)
            for place in places(event_place(backend, event_type), ECHO[backend]):
                for name in fields_of(place.struct):
                    paths.add(joined(event, (*place.path, name)))
                    names |= {name, f"{title(place.struct)}.{name}"}
    assert TOLD_ELSEWHERE.keys() - paths == set()
    assert PLACES.keys() - names == set()
