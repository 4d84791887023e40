"""Names of participants, which only Chat has (mapping.md 2.3): dropped, or put before the words of each message.

Each message alone decides about its own words, so a longer history arranges to an extension of the shorter one.
"""

from dataclasses import replace

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Part, Text, Turn
from proxy.canonical.request import Instruction, Request
from proxy.canonical.target import Target


def fit_names(request: Request, target: Target, losses: LossReport) -> None:
    """Take the names out of all messages, in place."""
    prefix = target.participant_names == "prefix"
    for instruction in request.instructions:
        if instruction.name is not None:
            _note(instruction, losses, said=prefix and _say_in_texts(instruction))
    for turn in [turn for turn in request.turns if turn.name is not None]:  # few have one
        _note(turn, losses, said=prefix and _say(turn))


def _note(message: Instruction | Turn, losses: LossReport, *, said: bool) -> None:
    at = (*message.at, "name")
    if said:
        losses.approx(Rule.PARTICIPANT_NAME, at)
    else:
        losses.drop(Rule.PARTICIPANT_NAME, at)
    message.name = None


def _say_in_texts(instruction: Instruction) -> bool:
    if not instruction.parts:
        return False
    first, *rest = instruction.parts
    instruction.parts = [_named(instruction.name, first), *rest]
    return True


def _say(turn: Turn) -> bool:
    """Whether the turn says the name now. A picture without words gets it as a line of its own, a call does not."""
    for index, part in enumerate(turn.parts):
        if type(part) is Text:
            turn.parts = [*turn.parts[:index], _named(turn.name, part), *turn.parts[index + 1 :]]
            return True
    if turn.role != "user" or not turn.parts:
        return False
    label: list[Part] = [Text(f"{turn.name}:")]
    turn.parts = label + turn.parts
    return True


def _named(name: str | None, text: Text) -> Text:
    return replace(text, text=f"{name}: {text.text}")
