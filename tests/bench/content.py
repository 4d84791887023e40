"""The conversations and replies of the benchmark, in no one's wire format.

Every protocol module writes exactly these, so a pair and its floor carry the same content, and what
arrives on either side can be compared with what was meant to arrive.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Phase = Literal["small", "agent", "burst"]

PHASES: tuple[Phase, ...] = ("small", "agent", "burst")

DELTAS_IN_A_BURST = 300

PROSE = (
    "the parser reads a header and keeps every field in order until its value is known; café naïve — "
    "queue retry window cursor branch commit review schema column index lock worker stream buffer token "
    'returns raises expects "quoted" path/to/file.py line 42 == None and so on.\n'
)
WORDS = PROSE.split(" ")


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


Turn: TypeAlias = User | Assistant | Result


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
    max_tokens: int = 4096


@dataclass(frozen=True, slots=True)
class Digest:
    """What a backend must find in a request: a translator that leaves something out would look fast."""

    text_chars: int
    calls: int
    results: int
    tools: int
    stream: bool

    def __str__(self) -> str:
        counts = f"{self.text_chars} characters, {self.calls} calls, {self.results} results, {self.tools} tools"
        return f"{counts}, {'streamed' if self.stream else 'whole'}"


@dataclass(frozen=True, slots=True)
class Reply:
    """`pieces` are the text as it is streamed; joined they are the text of the whole reply."""

    pieces: tuple[str, ...]
    call: Call | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client must find in a reply. `deltas` is 0 for a whole reply; `ended` means stop reason and end mark."""

    text: str
    calls: tuple[tuple[str, Json], ...]
    deltas: int
    ended: bool

    def __str__(self) -> str:
        ended = "ended" if self.ended else "not ended by its stop reason, usage and end mark"
        return f"{self.deltas} deltas, {ended}, {len(self.calls)} calls, the text {self.text!r}"


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol as the benchmark needs it: both sides written, both sides read back."""

    name: str
    path: str
    headers: dict[str, str]
    write_request: Callable[[Conversation], Json]
    digest_request: Callable[[Json], Digest]
    write_reply: Callable[[Reply], Json]
    write_stream: Callable[[Reply], list[bytes]]
    read_reply: Callable[[Json], Outcome]
    read_stream: Callable[[list[bytes]], Outcome]


def digest_of(conversation: Conversation) -> Digest:
    calls = sum(1 for turn in conversation.turns if isinstance(turn, Assistant) and turn.call)
    return Digest(
        text_chars=len(conversation.system) + sum(len(turn.text) for turn in conversation.turns),
        calls=calls,
        results=sum(1 for turn in conversation.turns if isinstance(turn, Result)),
        tools=len(conversation.tools),
        stream=conversation.stream,
    )


def outcome_of(reply: Reply, *, streamed: bool) -> Outcome:
    return Outcome(
        text=reply.text,
        calls=((reply.call.name, reply.call.arguments),) if reply.call else (),
        deltas=len(reply.pieces) if streamed else 0,
        ended=True,
    )


@cache
def conversation(phase: Phase) -> Conversation:
    prose = random.Random(f"request {phase}")
    if phase == "agent":
        return Conversation("bench-agent", _text(prose, 5_000), _agent_turns(prose), _tools(prose, 20), stream=False)
    turns = (User(_text(prose, 120)), Assistant(_text(prose, 250)), User(_text(prose, 150)))
    return Conversation(f"bench-{phase}", _text(prose, 250), turns, (), stream=phase == "burst")


@cache
def reply(phase: Phase) -> Reply:
    prose = random.Random(f"reply {phase}")
    match phase:
        case "small":
            return Reply((_text(prose, 300),))
        case "agent":
            return Reply((_text(prose, 200),), _call(prose, 99))
        case "burst":
            return Reply(tuple(prose.choice(WORDS) + " " for _ in range(DELTAS_IN_A_BURST)))


def _agent_turns(prose: random.Random) -> tuple[Turn, ...]:
    """29 turns, with the system text 30 Chat messages: two tasks of six and seven rounds of a call and its result."""
    turns: list[Turn] = [User(_text(prose, 900))]
    for number in range(13):
        if number == 6:
            turns += [Assistant(_text(prose, 700)), User(_text(prose, 500))]
        call = _call(prose, number)
        turns += [Assistant(_text(prose, 150), call), Result(call.id, _text(prose, 1_850))]
    return tuple(turns)


def _call(prose: random.Random, number: int) -> Call:
    arguments: Json = {
        "path": f"src/module_{number}/reader.py",
        "query": _text(prose, 120),
        "limit": 10 + number,
        "options": {"recursive": True, "exclude": ["build", "dist"], "context": None},
    }
    return Call(f"call_{number:04d}{prose.getrandbits(80):020x}", f"tool_{number % 20:02d}_search", arguments)


def _tools(prose: random.Random, count: int) -> tuple[Tool, ...]:
    return tuple(
        Tool(
            name=f"tool_{number:02d}_search",
            description=_text(prose, 350),
            schema={
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": _text(prose, 90)},
                    "query": {"type": "string", "description": _text(prose, 90)},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": _text(prose, 60)},
                    "mode": {"type": "string", "enum": ["exact", "regex", "fuzzy"], "description": _text(prose, 60)},
                    "options": {
                        "type": "object",
                        "properties": {
                            "recursive": {"type": "boolean"},
                            "exclude": {"type": "array", "items": {"type": "string"}, "description": _text(prose, 60)},
                            "context": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        },
                        "required": ["recursive"],
                        "additionalProperties": False,
                    },
                },
                "required": ["path", "query"],
                "additionalProperties": False,
            },
        )
        for number in range(count)
    )


def _text(prose: random.Random, chars: int) -> str:
    """About `chars` characters with the quotes, line breaks and non-ASCII letters that cost a JSON writer time."""
    return " ".join(prose.choice(WORDS) for _ in range(chars // 7)).strip()
