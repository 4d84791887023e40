"""Every place of a request where an object can stand, found in the types of the vendors' SDKs.

The walk goes from the type of the whole request down, through lists and unions, so that a field of a new SDK shows
up by itself. A place is met once below each parent type: text of a user and text of a tool's result are two places.
"""

import typing
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import typing_extensions
from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaMessagesRequest

from proxy.canonical.loss import Path
from tests.harness.request_types import ROOTS as REQUEST_TYPES
from tests.harness.request_types import arms_of, fields_of
from tests.harness.wire import Json, Protocol
from tests.properties.field_samples import BEFORE, BEHIND, BESIDE, BEYOND_THE_TYPES, MINIMAL, SAMPLES, SMALLEST

ROOTS: dict[Protocol, Any] = {**REQUEST_TYPES, "messages": BetaMessagesRequest}


@dataclass(frozen=True)
class Place:
    """Objects of the type `struct` stand at `path`; `around` makes the request that holds a given one."""

    struct: Any
    path: Path
    around: Callable[[Json], Json]

    def requests(self, protocol: Protocol) -> Iterator[tuple[str, Json, Json, Json]]:
        """(field, value, the request without it, the request with it) for each field and value."""
        known, _ = fields_of(self.struct)
        tried = {name: values(self.struct, name, hint) for name, hint in known.items() if not is_tag(name, hint)}
        if not self.path:
            tried |= BEYOND_THE_TYPES[protocol]
        for name, samples in tried.items():
            plain = {**minimal(self.struct), **BESIDE.get(f"{title(self.struct)}.{name}", {})}
            for value in samples:
                if plain.get(name) != value:
                    yield name, value, self.around(plain), self.around({**plain, name: value})


def title(struct: Any) -> str:
    """The name of a type, the same in both APIs of Anthropic's SDK."""
    return str(struct.__name__).removeprefix("Beta").removesuffix("Param")


def is_tag(name: str, hint: Any) -> bool:
    """Whether a field says what kind of object it is in."""
    return name in ("type", "role") and all(typing.get_origin(arm) is Literal for arm in arms_of(hint))


@cache
def minimal(struct: Any) -> Json:
    """The smallest legal object of a type."""
    if title(struct) in MINIMAL:
        return MINIMAL[title(struct)]
    known, needed = fields_of(struct)
    tags = {name for name, hint in known.items() if is_tag(name, hint)}
    return {name: values(struct, name, hint)[0] for name, hint in known.items() if name in needed | tags}


def values(struct: Any, name: str, hint: Any) -> list[Json]:
    """Values to try a field with."""
    for key in (f"{title(struct)}.{name}", name):
        if key in SAMPLES:
            return SAMPLES[key]
    return _of_hint(hint)


def _of_hint(hint: Any) -> list[Json]:
    found: list[Json] = []
    for arm in arms_of(hint):
        origin = typing.get_origin(arm)
        if origin is Literal:
            found += typing.get_args(arm)
        elif typing_extensions.is_typeddict(arm):
            found.append(minimal(arm))
        elif isinstance(origin, type) and not issubclass(origin, typing.Mapping):
            found.append([_of_hint(typing.get_args(arm)[0])[0]])
        elif arm is not type(None):
            found += SMALLEST.get(arm, [{"a": "b"}])
    return found


def places(protocol: Protocol, goes_below: Callable[[Place], bool]) -> Iterator[Place]:
    """Every place, the request itself first. Nothing at or below a place is given that `goes_below` denies."""
    seen: set[tuple[Any, Any, str]] = set()
    waiting = deque([Place(ROOTS[protocol], (), lambda request: request)])
    while waiting:
        place = waiting.popleft()
        if not goes_below(place):
            continue
        yield place
        known, _ = fields_of(place.struct)
        for name, hint in known.items():
            for struct, listed in _structs(hint):
                if (place.struct, struct, name) not in seen:
                    seen.add((place.struct, struct, name))
                    waiting.append(_below(place, name, struct, listed=listed))


def _structs(hint: Any) -> Iterator[tuple[Any, bool]]:
    """The object types of a field, and whether they stand in a list."""
    for arm in arms_of(hint):
        if typing_extensions.is_typeddict(arm):
            yield arm, False
        else:
            for inner in typing.get_args(arm):
                yield from ((struct, True) for struct, _ in _structs(inner))


def _below(parent: Place, name: str, struct: Any, *, listed: bool) -> Place:
    outer = {**minimal(parent.struct), **BESIDE.get(f"{title(parent.struct)}.{name}", {})}
    if not listed:
        return Place(struct, (*parent.path, name), lambda inner: parent.around({**outer, name: inner}))
    before, behind = BEFORE.get(title(struct), []), BEHIND.get(name, [])

    def around(inner: Json) -> Json:
        return parent.around({**outer, name: [*before, inner, *behind]})

    return Place(struct, (*parent.path, name, len(before)), around)
