"""Events that differ from the one before in their text alone, as most of a long answer do.

The bytes around the text of a delta are remembered. Where the next event has the same bytes around a JSON string, its
reader would do with it what it did with the last one, so that only the string has to be parsed.
"""

from collections.abc import Sequence

from proxy.canonical.events import Delta, Event
from proxy.canonical.jsontext import dumps, loads_plain

_NOTHING = b"\n"  # no payload begins with it
_TRIES = 4  # servers that number or pad their events never repeat one


class Repeats:
    """`head` and `tail` stand around the text of the last delta, which was one of part `k` and came under `name`; `key`
    is what stands right before such a text, b"" where it is not worth trying.
    """

    __slots__ = ("_key", "_tries", "head", "k", "name", "tail")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._tries = _TRIES if key else 0
        self.head = _NOTHING
        self.tail = b""
        self.name = ""
        self.k = -1

    def text_of(self, payload: bytes) -> str | None:
        """The text of an event that has these bytes at both ends; None where more than the text is another."""
        try:
            text = loads_plain(payload[len(self.head) : len(payload) - len(self.tail)])
        except ValueError:
            return None
        if type(text) is not str:
            return None
        self._tries = _TRIES
        return text

    @property
    def learns(self) -> bool:
        """Whether it is worth to look at another event."""
        return self._tries > 0

    def learn(self, name: str, payload: bytes, told: Sequence[Event]) -> None:
        """Take note of an event that was parsed, and of what its reader told."""
        self.head = _NOTHING
        delta = told[0] if len(told) == 1 else None
        if type(delta) is not Delta or delta.logprobs is not None:
            return
        self._tries -= 1
        text = dumps(delta.text)
        head, _, tail = payload.partition(text)
        if head.rstrip(b" ").endswith(self._key) and text not in tail:
            self.head, self.tail, self.name, self.k = head, tail, name, delta.k
