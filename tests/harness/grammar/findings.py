"""Collects what is wrong with a stream."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from tests.harness.wire import Json

End: TypeAlias = Literal["clean", "error"]
# The type of a field, or the exact value that it must have. A tuple lists what it may be.
Shape: TypeAlias = Mapping[str, Json]


class Findings:
    def __init__(self, passed_through: bool) -> None:
        self.problems: list[str] = []
        self._passed_through = passed_through

    def always(self, holds: bool, problem: str) -> None:
        """A rule for every stream of the protocol."""
        if not holds and problem not in self.problems:
            self.problems.append(problem)

    def ours(self, holds: bool, problem: str) -> None:
        """A rule for the streams that we write."""
        self.always(holds or self._passed_through, problem)

    def has_shape(self, wire: Json, shape: Shape, what: str, *, always: bool = False) -> bool:
        """Whether an object has these fields in these types."""
        wrong = [name for name, wanted in shape.items() if not fits(wire, name, wanted)]
        (self.always if always else self.ours)(not wrong, f"{what}: missing or wrong: {', '.join(wrong)}")
        return not wrong


def fits(wire: Json, name: str, wanted: Json) -> bool:
    if not isinstance(wire, dict) or name not in wire:
        return False
    value = wire[name]
    if not isinstance(wanted, tuple):
        wanted = (wanted,)
    return any(_is(value, choice) for choice in wanted)


def _is(value: Json, wanted: Json) -> bool:
    if isinstance(wanted, type):
        return isinstance(value, wanted) and not (isinstance(value, bool) and wanted is not bool)
    return type(value) is type(wanted) and bool(value == wanted)
