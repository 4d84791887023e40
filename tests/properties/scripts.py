"""Scripts of what a backend says: a list of parts in order with a stop and a usage. Hypothesis makes them.

Chat's whole reply has one text and one reasoning, so scripts for a Chat backend keep its order.
"""

import json
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from tests.harness.wire import Protocol


@dataclass(frozen=True)
class Part:
    """kind: text, refusal, reasoning, call, or what has no text: redacted (thinking), hosted (a search and its result).
    `pieces` joined are the text, the thinking (none: it is omitted) or the arguments. `cited`: a text with a citation.
    `cut`: a call that the limit left without the end of its arguments.
    """

    kind: str
    pieces: tuple[str, ...]
    number: int = 0
    cited: bool = False
    cut: bool = False

    @property
    def whole(self) -> str:
        return "".join(self.pieces)

    @property
    def call_id(self) -> str:
        return f"call_{self.number:03}"

    @property
    def name(self) -> str:
        return f"tool_{self.number}"


@dataclass(frozen=True)
class Script:
    """stop: end, length or tool."""

    parts: tuple[Part, ...]
    stop: str
    fresh: int = 20
    read: int = 5
    write: int = 3
    output: int = 9
    reasoning: int = 4

    @property
    def calls(self) -> list[Part]:
        return [part for part in self.parts if part.kind == "call"]

    def text(self, kind: str) -> str:
        return "".join(part.whole for part in self.parts if part.kind == kind)

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.write


WORDS = st.text(
    alphabet=st.one_of(st.sampled_from('ab \n"\\{}é€😀'), st.characters(codec="utf-8")), min_size=1, max_size=12
).filter(lambda text: bool(text.strip()))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
)


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    places = [0, *cuts, len(text)]
    return tuple(text[start:stop] for start, stop in pairwise(places) if start < stop)


KINDS: dict[Protocol, list[str]] = {
    "chat": ["text", "reasoning", "redacted", "call", "call", "refusal"],
    "messages": ["text", "text", "reasoning", "redacted", "call", "call", "hosted"],
    "responses": ["text", "text", "reasoning", "redacted", "call", "call", "hosted", "refusal"],
}
# Texts of an answer may be empty or blank; Chat has one text, which is nothing then.
TEXTS: dict[Protocol, st.SearchStrategy[str]] = {
    "chat": st.one_of(WORDS, st.sampled_from(["\n", "  "])),
    "messages": st.one_of(WORDS, st.sampled_from(["", "\n", "  "])),
    "responses": st.one_of(WORDS, st.sampled_from(["", "\n", "  "])),
}
CHAT_ORDER = ("reasoning", "redacted", "text", "refusal", "call")


@st.composite
def scripts(draw: st.DrawFn, backend: Protocol) -> Script:
    kinds = draw(st.lists(st.sampled_from(KINDS[backend]), max_size=6))
    if backend == "chat":
        kinds = [kind for kind in CHAT_ORDER for _ in range(kinds.count(kind) if kind == "call" else kind in kinds)]
    elif "refusal" in kinds:  # the last that a model says
        kinds = [kind for kind in kinds if kind != "refusal"] + ["refusal"]
    parts = [draw(part_of(backend, kind, number)) for number, kind in enumerate(kinds)]
    stop = "tool" if "call" in kinds else "end"
    if "refusal" not in kinds and draw(st.booleans()):
        stop = "length"
        if kinds and kinds[-1] == "call" and (kept := draw(st.integers(0, len(parts[-1].whole) - 1))):
            cut = parts[-1].whole[:kept]
            parts[-1] = Part("call", draw(pieces_of(cut)), parts[-1].number, cut=True)
    counts = st.integers(0, 10_000)
    output = draw(counts)
    return Script(tuple(parts), stop, draw(counts), draw(counts), draw(counts), output, draw(st.integers(0, output)))


@st.composite
def part_of(draw: st.DrawFn, backend: Protocol, kind: str, number: int) -> Part:
    match kind:
        case "text":
            text = draw(TEXTS[backend])
            return Part(kind, draw(pieces_of(text)), number, cited=bool(text.strip()) and draw(st.booleans()))
        case "call":
            return Part(kind, draw(st.one_of(st.just(("{}",)), ARGUMENTS.flatmap(pieces_of))), number)
        case "reasoning":
            omitted = backend != "chat" and draw(st.booleans())
            return Part(kind, () if omitted else draw(WORDS.flatmap(pieces_of)), number)
        case "refusal":
            return Part(kind, draw(WORDS.flatmap(pieces_of)), number)
        case _:
            return Part(kind, (), number)
