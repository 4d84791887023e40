"""Events that differ from the one before in their text alone, as most of a long answer do.

The bytes around the text of a delta are remembered. Where the next event has the same bytes around a JSON string, its
reader would do with it what it did with the last one, so that only the string has to be parsed. Where events are
numbered, the next number is part of the bytes that are expected: no reader looks at it.
"""

import re
from collections.abc import Sequence

from proxy.canonical.events import Delta, Event
from proxy.canonical.jsontext import dumps, loads_plain

_NOTHING = b"\n"  # no payload begins with it
_TRIES = 4  # servers that pad their events never repeat one
_NUMBER = re.compile(rb'"sequence_number": ?([1-9][0-9]{0,14})(?=[,}])')


class Repeats:
    """`head` and `tail` stand around the text of the last delta, which was one of part `k` and came under `name`; `key`
    is what stands right before such a text, and `mark` somewhere in each event that is worth a look.
    """

    __slots__ = (
        "_after",
        "_before",
        "_begin",
        "_end",
        "_key",
        "_leads",
        "_mark",
        "_number",
        "_tries",
        "head",
        "k",
        "name",
        "numbered",
        "tail",
    )

    def __init__(self, key: bytes, mark: bytes = b"") -> None:
        self._key = key
        self._mark = mark
        self._tries = _TRIES
        self.head = _NOTHING
        self.tail = b""
        self._begin, self._end = 0, -1  # where the text stands between the two
        self.name = ""
        self.k = -1
        self.numbered = False
        self._before = self._after = b""  # around the number, in its end of the event
        self._number = 0  # of the expected event
        self._leads = False  # the number stands before the text

    def text_of(self, payload: bytes) -> str | None:
        """The text of an event that has these bytes at both ends; None where more than the text is another."""
        try:
            text = loads_plain(payload[self._begin : self._end])
        except ValueError:
            return None
        if type(text) is str:
            self._tries = _TRIES
            return text
        return None

    @property
    def knows(self) -> bool:
        """Whether an event is expected."""
        return self.head is not _NOTHING

    @property
    def learns(self) -> bool:
        """Whether it is worth to look at another event."""
        return self._tries > 0

    def forget(self) -> None:
        """An event came that may be of another kind: what is like an older one is not like the last one."""
        self.head = _NOTHING

    def learn(self, name: str, payload: bytes, told: Sequence[Event]) -> None:
        """Take note of an event that was parsed, and of what its reader told."""
        self.forget()
        delta = told[0] if len(told) == 1 else None
        if type(delta) is not Delta or delta.logprobs is not None or self._mark not in payload:
            return
        self._tries -= 1
        text = dumps(delta.text)
        head, _, tail = payload.partition(text)
        # Where there are two of the key, the text may be the other one's, in another spelling.
        if head.rstrip(b" ").endswith(self._key) and tail and text not in tail and payload.count(self._key) == 1:
            self.head, self.tail, self.name, self.k = head, tail, name, delta.k
            self._begin, self._end = len(head), -len(tail)
            self._learn_number()

    def _learn_number(self) -> None:
        leading, trailing = _NUMBER.search(self.head), _NUMBER.search(self.tail)
        found = leading or trailing
        self.numbered = found is not None
        if found is not None:
            self._leads = leading is not None
            self._before, self._after = found.string[: found.start(1)], found.string[found.end(1) :]
            self._number = int(found[1])
            self.count()

    def count(self) -> None:
        """Expect the event after the one that a numbered stream was expected to bring."""
        self._number += 1
        around = b"%b%d%b" % (self._before, self._number, self._after)
        if self._leads:
            self.head = around
            self._begin = len(around)
        else:
            self.tail = around
            self._end = -len(around)
