"""What the benchmark's conversations and replies are made of, in no one's wire format.

Every protocol module writes exactly these, so a pair and its floor carry the same content, and what
arrives on either side can be compared with what was meant to arrive.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]

# The first seven are timed. `first`: a short stream whose first byte is waited for; `held`: one that begins and stays
# open; `turn`: the requests by which the history of `carriers` comes about.
Phase = Literal[
    "small", "agent", "carriers", "burst", "thinking", "arguments", "paced", "first", "held", "turn"
]  # fmt: skip
PHASES: tuple[Phase, ...] = ("small", "agent", "carriers", "burst", "thinking", "arguments", "paced")
STREAMED: tuple[Phase, ...] = ("burst", "thinking", "arguments", "paced", "first", "held")

DELTAS_IN_A_BURST = 300
DELTAS_IN_A_PACED_STREAM = 100
SECONDS_BETWEEN_DELTAS = 0.01


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class User:
    text: str


@dataclass(frozen=True, slots=True)
class Assistant:
    text: str
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Result:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Echoed:
    """An assistant turn as a client keeps it: what a reply held in the client's own protocol, to be sent back as is."""

    items: tuple[Json, ...]


Turn: TypeAlias = User | Assistant | Result | Echoed


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Conversation:
    model: str
    system: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...]
    stream: bool
    thinks: bool = False
    max_tokens: int = 8192


@dataclass(frozen=True, slots=True)
class Digest:
    """What a backend must find in a request: a translator that leaves something out would look fast.

    `thoughts`: assistant turns with reasoning that the backend can read.
    """

    text_chars: int
    calls: int
    results: int
    tools: int
    stream: bool
    thoughts: int = 0

    def __str__(self) -> str:
        counts = f"{self.text_chars} characters, {self.calls} calls, {self.results} results, {self.tools} tools"
        return f"{counts}, {self.thoughts} thoughts, {'streamed' if self.stream else 'whole'}"


@dataclass(frozen=True, slots=True)
class Reply:
    """`pieces` are the text as it is streamed; joined they are the text of the whole reply. So are `thoughts` of the
    reasoning before it, which comes with a `seal`: a signature or the encrypted form. `splits`: how many pieces the
    call's arguments come in.
    """

    pieces: tuple[str, ...] = ()
    call: Call | None = None
    splits: int = 1
    thoughts: tuple[str, ...] = ()
    seal: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def thought(self) -> str:
        return "".join(self.thoughts)

    def argument_pieces(self, dumped: str) -> list[str]:
        """The call's arguments, of which each protocol has its own place for the text, as they are streamed."""
        bounds = [len(dumped) * number // self.splits for number in range(self.splits + 1)]
        return [dumped[start:end] for start, end in pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client must find in a reply. `deltas` is 0 for a whole reply; `ended` means stop reason and end mark."""

    text: str
    calls: tuple[tuple[str, Json], ...]
    deltas: int
    ended: bool
    thought: str = ""

    def __str__(self) -> str:
        ended = "ended" if self.ended else "not ended by its stop reason, usage and end mark"
        calls = f"{len(self.calls)} calls {[name for name, _ in self.calls]}"
        return f"{self.deltas} deltas, {ended}, {calls}, the text {self.text!r}, the thought {self.thought!r}"


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol as the benchmark needs it: both sides written, both sides read back.

    `keep` gives what a client keeps of a whole reply for its next request.
    """

    name: str
    path: str
    headers: dict[str, str]
    write_request: Callable[[Conversation], Json]
    digest_request: Callable[[Json], Digest]
    write_reply: Callable[[Reply], Json]
    write_stream: Callable[[Reply], list[bytes]]
    read_reply: Callable[[Json], Outcome]
    read_stream: Callable[[list[bytes]], Outcome]
    keep: Callable[[Json], Echoed]


def digest_of(conversation: Conversation) -> Digest:
    """Of a conversation without echoed turns."""
    calls = sum(1 for turn in conversation.turns if isinstance(turn, Assistant) and turn.call)
    return Digest(
        text_chars=len(conversation.system)
        + sum(len(turn.text) for turn in conversation.turns if not isinstance(turn, Echoed)),
        calls=calls,
        results=sum(1 for turn in conversation.turns if isinstance(turn, Result)),
        tools=len(conversation.tools),
        stream=conversation.stream,
    )


def outcome_of(reply: Reply, *, streamed: bool) -> Outcome:
    deltas = len(reply.thoughts) + len(reply.pieces) + (reply.splits if reply.call else 0)
    return Outcome(
        text=reply.text,
        calls=((reply.call.name, reply.call.arguments),) if reply.call else (),
        deltas=deltas if streamed else 0,
        ended=True,
        thought=reply.thought,
    )
