"""The code fence that models put around JSON when they are asked for it in words (mapping.md 9.1, `json_object`).

One fence around the whole text is removed, and nothing else: prose is the model's own.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.parts import Text

_OPENING = re.compile(r"\s*```[\w-]{0,16}[ \t]*\r?\n")
_MAY_OPEN = re.compile(r"\s*(?:`{0,2}|```[\w-]{0,16}[ \t]*\r?)\Z")


class _Fence:
    """One text: pieces in, pieces without the fence out."""

    __slots__ = ("_begun", "_fenced", "_held")

    def __init__(self) -> None:
        self._held = ""
        self._begun = False  # whether there is a fence has been seen
        self._fenced = False

    def feed(self, piece: str) -> str:
        text = self._held + piece
        if not self._begun:
            if _MAY_OPEN.match(text):
                self._held = text
                return ""
            self._begun = True
            opening = _OPENING.match(text)
            if opening is not None:
                self._fenced = True
                text = text[opening.end() :]
        kept = _closing(text) if self._fenced else len(text)
        self._held = text[kept:]
        return text[:kept]

    def end(self) -> str:
        """What was held back and is no fence."""
        return "" if self._fenced and self._held.strip() == "```" else self._held


def _closing(text: str) -> int:
    """Where that end of the text begins which may be the closing fence."""
    at = len(text.rstrip())
    ticks = 0
    while ticks < 3 and at and text[at - 1] == "`":
        at, ticks = at - 1, ticks + 1
    return len(text[:at].rstrip())


class Unfencing:
    """A stage of the reply: its texts without the fence around them."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[int, _Fence] = {}

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events with less text. Log probabilities go with the fence: they speak of other characters."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta() if event.k in self._texts:
                    if text := self._texts[event.k].feed(event.text):
                        out.append(Delta(event.k, text))
                case Open() if isinstance(event.part, Text):
                    fence = self._texts[event.k] = _Fence()
                    first = fence.feed(event.part.text) if event.part.text else ""
                    out.append(Open(event.k, replace(event.part, text="", logprobs=None)))
                    if first:
                        out.append(Delta(event.k, first))
                case Close() if event.k in self._texts:
                    if text := self._texts.pop(event.k).end():
                        out.append(Delta(event.k, text))
                    out.append(event)
                case _:
                    out.append(event)
        return out
