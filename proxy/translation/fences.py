"""The code fence that models put around JSON when they are asked for it in words (mapping.md 9.1, `json_object`).

One fence goes, the first and only where the answer begins with it; prose stays, what follows the fence too. A stream
has let go of the opening part when the closing one comes, so the two can't depend on what follows them.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.parts import Text

_OPENING = re.compile(r"\s*```[\w-]{0,16}[ \t]*\r?\n")
_TICKS = "```"
# The end of a line that three ticks end; JSON has none, since a string in it has no line break.
_CLOSING = re.compile(r"```[ \t]*(?:(\r?\n)|\r?\Z)")
_MAY_OPEN = re.compile(r"\s*(?:`{0,2}|```[\w-]{0,16}[ \t]*\r?)\Z")


class _Stage(Enum):
    BEFORE = auto()  # only blanks so far, or what may be the opening part
    INSIDE = auto()
    BEHIND = auto()  # only blanks since the closing part
    NONE = auto()  # no fence, or none any more


class _Fence:
    """The texts of one answer: pieces in, pieces without the fence out. JSON may go on from one text to the next."""

    __slots__ = ("_held", "_stage")

    def __init__(self) -> None:
        self._held = ""
        self._stage = _Stage.BEFORE

    def feed(self, piece: str) -> str:
        """What can be told of the text now."""
        text = self._held + piece
        self._held = ""
        if self._stage is _Stage.BEFORE:
            if _MAY_OPEN.match(text):
                self._held = text
                return ""
            opening = _OPENING.match(text)
            self._stage = _Stage.NONE if opening is None else _Stage.INSIDE
            text = text if opening is None else text[opening.end() :]
        out = ""
        if self._stage is _Stage.INSIDE:
            out, text = self._inside(text)
        if self._stage is _Stage.BEHIND:
            if not text.strip():
                self._held = text
                return out
            self._stage = _Stage.NONE
        return out + text

    def _inside(self, text: str) -> tuple[str, str]:
        """(what is inside of the fence, what follows it); what may be the closing part is held back."""
        closing = _CLOSING.search(text)
        if closing is None:
            kept = len(text.rstrip(" \t\r\n`").rstrip())
            self._held = text[kept:]
            return text[:kept], ""
        inside = text[: closing.start()].rstrip()
        if closing[1] is None:  # the line may go on
            self._held = text[len(inside) :]
            return inside, ""
        self._stage = _Stage.BEHIND
        return inside, text[closing.start(1) :]

    def end_of_text(self) -> str:
        """What was held back and is no fence."""
        held, self._held = self._held, ""
        if self._stage is _Stage.INSIDE and held.strip() == _TICKS:
            self._stage = _Stage.BEHIND
        elif self._stage is not _Stage.BEHIND:
            if self._stage is _Stage.BEFORE and held.strip():
                self._stage = _Stage.NONE
            return held
        return ""


class Unfencing:
    """A stage of the reply: its texts without the fence around them."""

    __slots__ = ("_fence", "_open")

    def __init__(self) -> None:
        self._fence = _Fence()
        self._open: set[int] = set()

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events with less text. Log probabilities go with the fence: they speak of other characters."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta() if event.k in self._open:
                    if text := self._fence.feed(event.text):
                        out.append(Delta(event.k, text))
                case Open() if isinstance(event.part, Text):
                    self._open.add(event.k)
                    first = self._fence.feed(event.part.text) if event.part.text else ""
                    out.append(Open(event.k, replace(event.part, text="", logprobs=None)))
                    if first:
                        out.append(Delta(event.k, first))
                case Close() if event.k in self._open:
                    self._open.remove(event.k)
                    if text := self._fence.end_of_text():
                        out.append(Delta(event.k, text))
                    out.append(event)
                case _:
                    out.append(event)
        return out
