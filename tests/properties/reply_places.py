"""Every place of a reply where an object can stand, found in the types of the vendors' SDKs; see `request_places`."""

import typing
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from anthropic.types.beta import BetaMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from proxy.canonical.loss import Path
from tests.harness.request_types import arms_of
from tests.harness.wire import Json, Protocol

ROOTS: dict[Protocol, type[BaseModel]] = {"chat": ChatCompletion, "responses": Response, "messages": BetaMessage}
SMALLEST: dict[Any, list[Json]] = {
    str: ["x", "y"],
    int: [7, 8],
    float: [0.5, 0.25],
    bool: [True, False],
    object: [{"a": "b"}],
}
SAMPLES: dict[str, list[Json]] = {
    "model": ["x", "y"],
    "Choice.index": [0],  # no other is asked for (7.4)
    "MessageDeltaUsage.input_tokens": [20],
    "ResponseUsage.input_tokens": [5000],
    "MessageDeltaUsage.output_tokens": [20, 21],
    "arguments": ['{"a":1}', '{"a":2}'],
    "url": ["https://e.test/a", "https://e.test/b"],
    "FunctionToolCall.name": ["look", "seek"],
    "service_tier": ["priority"],
    "created_at": [1790000000.0, 1790000001.0],
    "start_index": [0, 1],
    "end_index": [2, 3],
    "title": ["A title", "Another"],
    "document_title": ["A title", "Another"],
    "file_id": ["file_1", "file_2"],
    "object": [],
}
# The smallest object of a type, where it is not what the type needs alone.
MINIMAL: dict[str, Json] = {
    "ChatCompletionMessage": {"role": "assistant", "content": "words"},
    "ResponseOutputText": {"type": "output_text", "text": "words", "annotations": []},
    "TextBlock": {"type": "text", "text": "words"},
    "ChoiceDelta": {"content": "words"},
    "ChoiceDeltaToolCall": {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    },
    "CitationsDelta": {
        "type": "citations_delta",
        "citation": {"type": "web_search_result_location", "url": "https://e.test/a", "title": "A title"},
    },
    "ResponseOutputTextAnnotationAddedEvent": {
        "type": "response.output_text.annotation.added",
        "item_id": "x",
        "output_index": 7,
        "content_index": 7,
        "annotation_index": 0,
        "annotation": {"type": "url_citation", "url": "https://e.test/a", "start_index": 0, "end_index": 2},
    },
}

# Fields that others need beside them.
BESIDE: dict[str, Json] = {
    "Message.stop_details": {"stop_reason": "refusal"},
    "Message.stop_sequence": {"stop_reason": "stop_sequence"},
    "Delta.stop_details": {"stop_reason": "refusal"},
    "Delta.stop_sequence": {"stop_reason": "stop_sequence"},
    "Response.incomplete_details": {"status": "incomplete"},
}


@dataclass(frozen=True)
class ReplyPlace:
    """Objects of the type `struct` stand at `path`; `around` makes the reply, or the stream, that holds a given one."""

    struct: type[BaseModel]
    path: Path
    around: Callable[[Json], Json]

    def replies(self) -> Iterator[tuple[str, Json, Json, Json]]:
        """(field, value, the reply without it, the reply with it) for each field and value."""
        for name, hint in fields_of(self.struct).items():
            plain = {**minimal(self.struct), **BESIDE.get(f"{title(self.struct)}.{name}", {})}
            for value in () if is_tag(name, hint) else values(self.struct, name, hint):
                if plain.get(name) != value and (value != [] or name in plain):
                    yield name, value, self.around(plain), self.around({**plain, name: value})


def title(struct: type[BaseModel]) -> str:
    """The name of a type, the same in both APIs of Anthropic's SDK."""
    return struct.__name__.removeprefix("Beta")


def fields_of(struct: type[BaseModel]) -> dict[str, Any]:
    """Types by wire name."""
    return {field.alias or name: field.annotation for name, field in struct.model_fields.items()}


def is_reply(struct: type[BaseModel]) -> bool:
    """Whether a type is that of a whole reply."""
    return struct in ROOTS.values()


def is_tag(name: str, hint: Any) -> bool:
    """Whether a field says what kind of object it is in."""
    return name in ("type", "role", "object") and all(typing.get_origin(arm) is Literal for arm in arms_of(hint))


@cache
def minimal(struct: type[BaseModel]) -> Json:
    """The smallest legal object of a type."""
    if title(struct) in MINIMAL:
        return MINIMAL[title(struct)]
    made: dict[str, Json] = {}
    for name, field in struct.model_fields.items():
        wire = field.alias or name
        if is_tag(wire, field.annotation):
            made[wire] = typing.get_args(arms_of(field.annotation)[0])[0]
        elif field.is_required():
            made[wire] = None if type(None) in arms_of(field.annotation) else values(struct, wire, field.annotation)[0]
    return made


def values(struct: type[BaseModel], name: str, hint: Any) -> list[Json]:
    """Values to try a field with."""
    for key in (f"{title(struct)}.{name}", name):
        if key in SAMPLES:
            return SAMPLES[key]
    return of_hint(hint)


def of_hint(hint: Any) -> list[Json]:
    found: list[Json] = []
    for arm in arms_of(hint):
        origin = typing.get_origin(arm)
        if origin is Literal:
            found += typing.get_args(arm)
        elif isinstance(arm, type) and issubclass(arm, BaseModel):
            found.append(minimal(arm))
        elif origin is list:
            found += [*([entry] for entry in of_hint(typing.get_args(arm)[0])), []]
        elif arm is not type(None):
            found += SMALLEST.get(arm, [{"a": "b"}])
    return found


def places(root: ReplyPlace, echo: Container[str]) -> Iterator[ReplyPlace]:
    """Every place within a given one, it first; one below each parent type, and none below a reply's fields in `echo`,
    where the types of what was said stand too.
    """
    seen: set[tuple[Any, Any, str]] = set()
    waiting = deque([root])
    while waiting:
        place = waiting.popleft()
        yield place
        for name, hint in fields_of(place.struct).items():
            for struct, listed in _structs(hint):
                if (place.struct, struct, name) not in seen and not (is_reply(place.struct) and name in echo):
                    seen.add((place.struct, struct, name))
                    waiting.append(_below(place, name, struct, listed=listed))


def _structs(hint: Any) -> Iterator[tuple[type[BaseModel], bool]]:
    for arm in arms_of(hint):
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            yield arm, False
        elif typing.get_origin(arm) is list:
            yield from ((struct, True) for struct, _ in _structs(typing.get_args(arm)[0]))


def _below(parent: ReplyPlace, name: str, struct: type[BaseModel], *, listed: bool) -> ReplyPlace:
    outer = {**minimal(parent.struct), **BESIDE.get(f"{title(parent.struct)}.{name}", {})}
    path: Path = (*parent.path, name, 0) if listed else (*parent.path, name)

    def around(inner: Json) -> Json:
        return parent.around({**outer, name: [inner] if listed else inner})

    return ReplyPlace(struct, path, around)
