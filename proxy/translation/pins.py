"""What of a request only the backend knows that made it (operations.md 11, "State pins the target").

Signatures of thinking are not among it: Claude's hold on every platform that has it, and others make none. What a
translation can't open it drops, and tells so.
"""

from collections.abc import Iterator

from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire, is_object
from proxy.translation.envelope import is_envelope

_FIELDS = ("previous_response_id", "conversation", "container")
_LISTS = ("messages", "input", "tools", "system")
_IDS = ("file_id", "container_id")
_INNER = ("content", "output", "source", "file")  # where such ids stand below a message
_SEALED = frozenset({"reasoning", "compaction"})
_DEPTH = 6


def pin_of(wire: Wire, *, passed: bool) -> Path | None:
    """Where the request first refers to what a backend keeps, or has sealed; None if all that it needs is in it.
    `passed`: it goes to that backend as it is, sealed thinking and all."""
    for name in _FIELDS:
        value = wire.get(name)
        if value is not None and not (is_object(value) and not value.get("id")):  # a container that is yet to be made
            return (name,)
    for name in _LISTS:
        if (found := next(_within(wire.get(name), (name,), passed, _DEPTH), None)) is not None:
            return found
    return None


def _within(value: object, at: Path, passed: bool, depth: int) -> Iterator[Path]:
    if type(value) is list:
        for index, each in enumerate(value):
            if type(each) is list or type(each) is dict:
                yield from _within(each, (*at, index), passed, depth - 1)
    elif is_object(value) and depth >= 0:
        yield from ((*at, name) for name in _referring(value, passed))
        for name in _INNER:
            if name in value:
                yield from _within(value[name], (*at, name), passed, depth - 1)


def _referring(value: Wire, passed: bool) -> Iterator[str]:
    kind = value.get("type")
    if kind == "item_reference":
        yield "id"
    for name in _IDS:
        if type(value.get(name)) is str:
            yield name
    if kind == "code_interpreter" and type(value.get("container")) is str:
        yield "container"
    if passed and type(kind) is str and kind in _SEALED:
        sealed = value.get("encrypted_content")
        if type(sealed) is str and not is_envelope(sealed):
            yield "encrypted_content"
