"""What carriers bring back stands where it stood, also where the client's protocol has no place for it (5.5).

Chat holds one text a message, so a carrier says how much of it came before; citations say how the text was cut.
"""

import hashlib
from dataclasses import dataclass, field

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import HostedCall, Part, Text, Turn
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import PARAGRAPH
from proxy.translation.codecs import read_message_citation

CITATIONS = "citations"  # kind of carriers


@dataclass(slots=True)
class Cited(HostedCall):
    """A carrier of citations, opened: `blocks` as they were sealed, of the texts right before it."""

    blocks: list[Wire] = field(default_factory=list)


def text_mark(text: str) -> str:
    """By what a text is known again."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def place(parts: list[Part], offsets: dict[int, int]) -> list[Part]:
    """The parts of a Chat message with its carriers where they were. `offsets`: characters before a part, by its id."""
    carriers = [part for part in parts if id(part) in offsets]
    if not carriers:
        return parts
    placed: list[Part] = []
    at = 0
    for part in parts:
        if id(part) in offsets:
            continue
        if not isinstance(part, Text):
            placed.append(part)
            continue
        rest = part
        while carriers and offsets[id(carriers[0])] <= at + len(rest.text):
            before = offsets[id(carriers[0])] - at
            if before > 0:
                placed.append(Text(rest.text[:before]))
                rest = _behind(rest, before)
                at = offsets[id(carriers[0])]
            placed.append(carriers.pop(0))
        if placed and not isinstance(placed[-1], Text) and rest.text.startswith(PARAGRAPH) and at:
            rest = _behind(rest, len(PARAGRAPH))
            at += len(PARAGRAPH)
        if rest.text:
            placed.append(rest)
        at += len(rest.text)
    return placed + carriers


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
    texts: list[Part] = [Text(before)] if before else []
    for block, size in zip(cited.blocks[1:], sizes, strict=True):
        natives = block.get("c")
        own = [native for native in natives if is_object(native)] if isinstance(natives, list) else []
        citations = [read_message_citation(native) for native in own]
        texts.append(Text(part.text[start : start + size], citations or None))
        start += size
    index = next(index for index, other in enumerate(turn.parts) if other is part)
    turn.parts = [*turn.parts[:index], *texts, *turn.parts[index + 1 :]]
    return True


def without_shown(turns: list[Turn]) -> None:
    """Leave out what only showed the client what has been restored, in the turns of one run, in place."""
    if not any(isinstance(part, HostedCall) and part.own for turn in turns for part in turn.parts):
        return
    for turn in turns:
        turn.parts = [part for part in turn.parts if not isinstance(part, HostedCall) or part.own]
