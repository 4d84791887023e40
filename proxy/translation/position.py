"""Where in a Chat answer one is: the protocol tells what was said and what was called, but not in which order.

So what travels in a carrier says how much of both came before it, and stands there again when it comes back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.canonical.events import Delta
from proxy.canonical.parts import Call, ReplyPart, Text
from proxy.protocols.openai_completions import PARAGRAPH, Paragraphs


@dataclass(frozen=True, slots=True)
class Spot:
    """`text`: characters of the content that come before; `calls`: calls that do; `call`: the id of the one behind."""

    text: int = 0
    calls: int = 0
    call: str = ""


START = Spot()


class Position:
    """Counts as the parts of an answer come."""

    __slots__ = ("_paragraphs", "_silent", "_speaks", "calls", "text")

    def __init__(self) -> None:
        self._paragraphs = Paragraphs()
        self._silent: set[int] = set()  # texts without any characters yet
        self._speaks: set[int] = set()
        self.text = 0
        self.calls = 0

    def open(self, k: int, part: ReplyPart) -> None:
        """Note the next part."""
        self._paragraphs.open(part)
        if isinstance(part, Text):
            self._silent.add(k)
            self.grow(k, part.text)
        elif isinstance(part, Call):
            self.calls += 1

    def grow(self, k: int, text: str) -> None:
        """Note that a part grew; only texts count."""
        if k not in self._speaks:
            if not text or k not in self._silent:
                return
            self._silent.remove(k)
            self._speaks.add(k)
            if self._paragraphs.begin(k):
                self.text += len(PARAGRAPH)
        self.text += len(text)

    def grow_all(self, deltas: Iterable[Delta]) -> None:
        """The same for what comes by the thousand."""
        speaks = self._speaks
        for delta in deltas:
            if delta.k in speaks:
                self.text += len(delta.text)
            else:
                self.grow(delta.k, delta.text)

    @property
    def spot(self) -> Spot:
        """Where one is now."""
        return Spot(self.text, self.calls)
