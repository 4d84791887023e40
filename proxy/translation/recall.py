"""Reasoning for Chat clients that do not send it back (mapping.md 8.9).

Most Chat clients drop `reasoning_details`. With a cache of the server's behind it, the reasoning of the current tool
loop is found again by the ids of the calls that it led to. Nothing is remembered here: who serves keeps what a
reply leaves in `Remembered`, and is asked for it on the next request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proxy.canonical.parts import Call, Reasoning, Result, Turn
from proxy.canonical.request import Request
from proxy.protocols.fields import Wire

DETAILS = "reasoning_details"  # of Chat: both the field's name and how a part says that it came from there
Recall = Callable[[str], Sequence[Wire] | None]


@dataclass(slots=True)
class Remembered:
    """What one reply leaves to be remembered: its `entries` of reasoning, under the ids of its `calls`."""

    calls: list[str] = field(default_factory=list)
    entries: list[Wire] = field(default_factory=list)


def recall(request: Request, remembered: Recall) -> None:
    """Put reasoning in front of the calls that it led to, as if the client had sent it, in place."""
    for turn in request.turns[_loop_start(request.turns) :]:
        if turn.role != "assistant" or any(type(part) is Reasoning for part in turn.parts):
            continue
        call = next((part for part in turn.parts if type(part) is Call), None)
        entries = remembered(call.id) if call is not None else None
        if entries:
            turn.parts = [*(_as_sent(entry, turn) for entry in entries), *turn.parts]


def _loop_start(turns: list[Turn]) -> int:
    """Where the current tool loop begins: behind the last user turn that holds no result."""
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.role == "user" and not any(type(part) is Result for part in turn.parts):
            return index + 1
    return 0


def _as_sent(entry: Wire, turn: Turn) -> Reasoning:
    text = entry.get("text")
    shown = text if isinstance(text, str) else ""
    return Reasoning(shown, native=entry, redacted=not shown, field=DETAILS, at=turn.at)
