"""Answers of backends that are kept for a minute, since clients ask for them again and again."""

import time
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

KEPT_FOR = 60.0  # seconds


class Kept(Generic[Key, Value]):
    """At most `most` values; the oldest go first."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Key, tuple[Value, float]] = {}

    def get(self, key: Key) -> Value | None:
        """The value that was put there within the last minute."""
        value, until = self._values.get(key, (None, 0.0))
        return value if until > time.monotonic() else None

    def put(self, key: Key, value: Value) -> Value:
        """Keep `value`, and give it back."""
        self._values.pop(key, None)
        while len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[key] = value, time.monotonic() + KEPT_FOR
        return value
