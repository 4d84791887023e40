"""The parts of an answer that are not calls: text, thinking, refusal. One of them is open at a time.

Chat does not say where such a part begins or ends, so its kind decides: content of another kind closes the open part.
"""

from collections.abc import Callable
from typing import Literal

from proxy.canonical.events import Cite, Close, Delta, Event, Open
from proxy.canonical.parts import Citation, Reasoning, Refusal, Text
from proxy.protocols.chat.reply_reasoning import ReasoningDetails
from proxy.protocols.fields import Wire

Kind = Literal["text", "reasoning", "refusal"]


class Prose:
    """Emits the events of prose parts and numbers all parts.

    `kind` and `number` are of the open part (None and -1: none is open); `position` counts the characters of `content`
    as the backend wrote it, by which its citations count. `strips`: whitespace between thinking and answer is nothing.
    """

    __slots__ = (
        "_cited",
        "_details",
        "_emit",
        "_held",
        "_held_logprobs",
        "_next",
        "_spoke",
        "_strips",
        "_texts",
        "_thought",
        "declined",
        "kind",
        "number",
        "position",
    )

    def __init__(self, emit: Callable[[Event], None], *, strips: bool) -> None:
        self._emit = emit
        self._strips = strips
        self._next = 0
        self._held = ""  # whitespace that may turn out to be nothing
        self._held_logprobs: list[object] = []
        self._thought = False
        self._spoke = False
        self._details = ReasoningDetails()
        self._texts: list[tuple[int, int]] = []  # number and first character of each text part
        self._cited: list[Citation] = []
        self.kind: Kind | None = None
        self.number = -1
        self.position = 0
        self.declined = False

    def begin_other(self) -> int:
        """Make room for a part that is no prose; its number. Whitespace before it is nothing (mapping.md 13.2)."""
        self.close()
        self._held = ""
        self._held_logprobs = []
        self._next += 1
        return self._next - 1

    def say(self, text: str, logprobs: list[object] | None = None) -> None:
        """Text of the answer. Whitespace at the start of a part waits until there is something behind it."""
        if self.kind == "text":
            self._emit(Delta(self.number, text, logprobs))
            return
        self._held += text
        self._held_logprobs += logprobs or ()
        if not self._held.isspace():
            self.say_held()

    def say_held(self) -> None:
        """Begin a text part with what was held, if anything."""
        text, logprobs = self._held, self._held_logprobs
        self._held, self._held_logprobs = "", []
        if self._strips and self._thought and not self._spoke:
            text = text.lstrip()
        if not text:
            return
        self._spoke = True
        self._open("text", Text(""))
        self._texts.append((self.number, self.position - len(text)))
        self._emit(Delta(self.number, text, logprobs or None))
        self._place()

    def think(self, text: str, field: str, *, full: bool = True) -> None:
        """Thinking that came under the wire name `field`."""
        if self.kind != "reasoning":
            self._thought = True
            self._open("reasoning", Reasoning("", full, field=field))
        self._emit(Delta(self.number, text))

    def think_in_detail(self, entry: Wire) -> bool:
        """Thinking as an entry of `reasoning_details`; whether it has any text to show."""
        text, another = self._details.take(entry)
        if text:
            if another or self.kind != "reasoning":
                self.close()
                self._details.begin(entry)
            self.think(text, "reasoning_details", full=entry.get("type") != "reasoning.summary")
        return text != ""

    def decline(self, text: str) -> None:
        """The words of a refusal."""
        self.declined = True
        if self.kind != "refusal":
            self._open("refusal", Refusal(""))
        self._emit(Delta(self.number, text))

    def cite(self, citations: list[Citation]) -> None:
        """Citations of the content; those that come before any text wait for one."""
        self._cited += citations
        self._place()

    def close(self) -> None:
        """Close the open part."""
        if self.kind is None:
            return
        native = self._details.complete() if self.kind == "reasoning" else None
        self._emit(Close(self.number, native))
        self.kind = None

    def emit_hidden(self) -> None:
        """Thinking without any text to show, as parts of its own."""
        for native in self._details.rest():
            number = self.begin_other()
            self._emit(Open(number, Reasoning("", native=native, redacted=True, field="reasoning_details")))
            self._emit(Close(number, native))

    def _open(self, kind: Kind, part: Text | Reasoning | Refusal) -> None:
        self.close()
        self.kind = kind
        self.number = self._next
        self._next += 1
        self._emit(Open(self.number, part))

    def _place(self) -> None:
        """Give each citation to the text part that it begins in, and count from that part's start."""
        if not self._texts:
            return
        for citation in self._cited:
            number, first = self._texts[-1]
            start, end = citation.start, citation.end
            if start is not None and end is not None:
                number, first = next((text for text in reversed(self._texts) if text[1] <= start), self._texts[0])
                citation.start, citation.end = max(0, start - first), max(0, end - first)
            self._emit(Cite(number, citation))
        self._cited.clear()
