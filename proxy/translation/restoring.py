"""What carriers bring back stands where it stood, also where the client's protocol has no place for it (5.5).

Chat holds one text a message and its calls behind it, so a carrier says how much of both came before; citations say how
the text was cut.
"""

import hashlib
from dataclasses import dataclass, field

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, HostedCall, Part, Text, Turn
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import PARAGRAPH
from proxy.translation.codecs import read_message_citation
from proxy.translation.position import START, Spot

CITATIONS = "citations"  # kind of carriers


@dataclass(slots=True)
class Cited(HostedCall):
    """A carrier of citations, opened: `blocks` as they were sealed, of the texts right before it."""

    blocks: list[Wire] = field(default_factory=list)


def text_mark(text: str) -> str:
    """By what a text is known again."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def place(parts: list[Part], spots: dict[int, Spot]) -> list[Part]:
    """The parts of a Chat message with what its carriers brought where that was. `spots` has its places, by id."""
    if not any(spot != START for spot in spots.values()):
        return parts
    return _Placing([part for part in parts if id(part) not in spots]).among(
        [(part, spots[id(part)]) for part in parts if id(part) in spots]
    )


class _Placing:
    """What was said and called in a Chat message, in the order that its carriers tell."""

    __slots__ = ("_at", "_called", "_calls", "_placed", "_words")

    def __init__(self, parts: list[Part]) -> None:
        self._words = [part for part in reversed(parts) if not isinstance(part, Call)]
        self._calls = [part for part in reversed(parts) if isinstance(part, Call)]
        self._placed: list[Part] = []
        self._at = 0
        self._called = 0

    def among(self, carriers: list[tuple[Part, Spot]]) -> list[Part]:
        for carrier, spot in carriers:
            self._say(spot.text)
            waiting = [call.id for call in reversed(self._calls)]
            if spot.call in waiting:  # a client may have let go of calls before it
                before = self._called + waiting.index(spot.call)
                self._call(before)
                self._placed.append(carrier)
                self._call(before + 1)
            else:
                self._call(spot.calls)
                self._placed.append(carrier)
        self._say(None)
        self._call(None)
        return self._placed

    def _say(self, until: int | None) -> None:
        """What is said up to so many characters; what has none stays for later."""
        while self._words and (until is None or self._at < until):
            part = self._words.pop()
            if isinstance(part, Text):
                self._say_text(part, until)
            else:
                self._placed.append(part)

    def _say_text(self, part: Text, until: int | None) -> None:
        if self._at and not isinstance(self._placed[-1], Text) and part.text.startswith(PARAGRAPH):
            part = _behind(part, len(PARAGRAPH))  # it only set the text off from what stood before
            self._at += len(PARAGRAPH)
        room = len(part.text) if until is None else until - self._at
        if room < len(part.text):
            self._words.append(_behind(part, max(0, room)))
            part = Text(part.text[: max(0, room)])
        if part.text:
            self._placed.append(part)
        self._at += len(part.text)

    def _call(self, until: int | None) -> None:
        while self._calls and (until is None or self._called < until):
            self._placed.append(self._calls.pop())
            self._called += 1


def _behind(part: Text, count: int) -> Text:
    return Text(part.text[count:], phase=part.phase, cache=part.cache)


def restore_citations(turns: list[Turn], losses: LossReport) -> None:
    """Cut the texts that were cited in as they came, in the turns of one run, in place."""
    before: tuple[Turn, Text] | None = None
    for turn in turns:
        for part in list(turn.parts):
            if isinstance(part, Text):
                before = (turn, part)
            elif isinstance(part, Cited):
                turn.parts = [other for other in turn.parts if other is not part]
                if before is None or not _cut(*before, part):
                    losses.drop(Rule.CITATIONS, part.at)
                before = None


def _cut(turn: Turn, part: Text, cited: Cited) -> bool:
    """Whether the text still ends in what was cited in, and has been cut."""
    counts = [block.get("n") for block in cited.blocks[1:]]
    sizes = [count for count in counts if type(count) is int and count >= 0]
    start = len(part.text) - sum(sizes)
    if len(sizes) < len(counts) or start < 0 or cited.blocks[0].get("h") != text_mark(part.text[start:]):
        return False
    before = part.text[:start].removesuffix(PARAGRAPH)
    texts = [Text(before, phase=part.phase)] if before else []
    for block, size in zip(cited.blocks[1:], sizes, strict=True):
        natives = block.get("c")
        own = [native for native in natives if is_object(native)] if isinstance(natives, list) else []
        citations = [read_message_citation(native) for native in own]
        texts.append(Text(part.text[start : start + size], citations or None, part.phase))
        start += size
    if texts:
        texts[-1].cache = part.cache  # it stands behind the whole text
    index = next(index for index, other in enumerate(turn.parts) if other is part)
    turn.parts = [*turn.parts[:index], *texts, *turn.parts[index + 1 :]]
    return True


def without_shown(turns: list[Turn]) -> None:
    """Leave out what only showed the client what has been restored, in the turns of one run, in place."""
    if not any(isinstance(part, HostedCall) and part.own for turn in turns for part in turn.parts):
        return
    for turn in turns:
        turn.parts = [part for part in turn.parts if not isinstance(part, HostedCall) or part.own]
