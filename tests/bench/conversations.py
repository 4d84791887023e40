"""The conversation and the reply of each phase. What looks random is the same in every process."""

import random
from functools import cache

from tests.bench.content import (
    DELTAS_IN_A_BURST,
    DELTAS_IN_A_PACED_STREAM,
    STREAMED,
    Assistant,
    Call,
    Conversation,
    Json,
    Phase,
    Reply,
    Result,
    Tool,
    Turn,
    User,
)

PROSE = (
    "the parser reads a header and keeps every field in order until its value is known; café naïve — "
    "queue retry window cursor branch commit review schema column index lock worker stream buffer token "
    'returns raises expects "quoted" path/to/file.py line 42 == None and so on.\n'
)
WORDS = PROSE.split(" ")

ROUNDS = 13  # of a call and its result in the agent's history
ROUNDS_IN_THE_FIRST_TASK = 6
CARRIERS = 10  # the last so many rounds began with reasoning
SEAL_CHARS = 1_000
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@cache
def conversation(phase: Phase) -> Conversation:
    """For `carriers` without the carriers: those are the proxy's to make."""
    stream, model = phase in STREAMED, f"bench-{phase}"
    if phase in ("agent", "carriers", "turn"):
        prose = random.Random("request agent")
        system, turns, tools = _text(prose, 5_000), _agent_turns(prose), _tools(prose, 20)
        return Conversation(model, system, turns, tools, stream, thinks=phase != "agent")
    prose = random.Random(f"request {phase}")
    turns = (User(_text(prose, 120)), Assistant(_text(prose, 250)), User(_text(prose, 150)))
    tools = _tools(prose, 1) if phase == "arguments" else ()
    return Conversation(model, _text(prose, 250), turns, tools, stream, thinks=phase == "thinking")


@cache
def reply(phase: Phase) -> Reply:
    prose = random.Random(f"reply {phase}")
    match phase:
        case "agent" | "carriers":
            return Reply((_text(prose, 200),), _call(prose, 99))
        case "burst" | "held":
            return Reply(_words(prose, DELTAS_IN_A_BURST))
        case "thinking":
            return Reply(("So it is.",), thoughts=_words(prose, DELTAS_IN_A_BURST - 1), seal=_seal(prose))
        case "arguments":
            call = Call("call_0bench00000000000000000", "tool_00_search", {"query": _text(prose, 2_000), "limit": 7})
            return Reply(call=call, splits=DELTAS_IN_A_BURST)
        case "paced":
            return Reply(_words(prose, DELTAS_IN_A_PACED_STREAM))
        case "first":
            return Reply(_words(prose, 3))
        case _:
            return Reply((_text(prose, 300),))


@cache
def replies_of_turns() -> tuple[Reply, ...]:
    """What the backend says in each round of the history of `carriers`: what stands there, mostly after reasoning."""
    calling = [turn for turn in conversation("turn").turns if isinstance(turn, Assistant) and turn.call]
    prose = random.Random("thoughts")
    return tuple(
        Reply((turn.text,), turn.call, thoughts=(_text(prose, 400),), seal=_seal(prose))
        if number >= ROUNDS - CARRIERS
        else Reply((turn.text,), turn.call)
        for number, turn in enumerate(calling)
    )


def _words(prose: random.Random, count: int) -> tuple[str, ...]:
    return tuple(prose.choice(WORDS) + " " for _ in range(count))


def _seal(prose: random.Random) -> str:
    return "".join(prose.choices(BASE64, k=SEAL_CHARS))


def _agent_turns(prose: random.Random) -> tuple[Turn, ...]:
    """29 turns, with the system text 30 Chat messages: two tasks of six and seven rounds of a call and its result."""
    turns: list[Turn] = [User(_text(prose, 900))]
    for number in range(ROUNDS):
        if number == ROUNDS_IN_THE_FIRST_TASK:
            turns += [Assistant(_text(prose, 700)), User(_text(prose, 500))]
        call = _call(prose, number)
        turns += [Assistant(_text(prose, 150), call), Result(call.id, _text(prose, 2_200))]
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
