"""What the answers to a request used: as the backend told, and guessed where it did not (operations.md 9.2).

A client may leave, a backend break off, and some never tell. Nothing of that makes an answer free.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

from proxy.canonical.events import Delta, Event, Finish, Open
from proxy.canonical.usage import Usage, total
from proxy.protocols.untold_usage import bytes_of, said_in, tokens_of


@dataclass(slots=True)
class Round:
    """One answer of a backend, as far as it has come. `told`: the last usage that it told; `said`: bytes of its text,
    thinking, refusals and tool arguments; `over`: it is complete, so that nothing more would be told.
    """

    told: Usage | None = None
    said: int = 0
    over: bool = False

    @property
    def heard(self) -> bool:
        """Whether anything is known of it."""
        return self.told is not None or self.said > 0

    def used(self, prompt_estimate: int) -> Usage:
        """What it used. A count of 0 where there must have been something is none, nor is one
        that can't be, such as what becomes of -1 in 64 bits."""
        told, said = self.told, tokens_of(self.said)
        if told is None or not told.plausible:
            return Usage(input_fresh=prompt_estimate, output=said, estimated=True)
        if not told.prompt:
            told = replace(told, input_fresh=prompt_estimate, estimated=True)
        if not self.over or (said and not told.output):
            told = replace(told, output=max(told.output, said), estimated=True)
        return told


class Answered(Protocol):
    """What answers come in: a stream, or `Prepared`, which has them all."""

    def rounds(self) -> list[Round]:
        """Each answer of the backend, by now."""


def used(answered: Answered, prompt_estimate: int) -> Usage:
    """What has been used by now; `estimated` where any part of it was guessed. Zeros where no backend was asked, or
    none that was has taken the request.

    `prompt_estimate`: tokens of the prompt, for an answer that has not told. What was said is only known where it was
    to be counted (`Options.count_usage`).
    """
    return used_by_all((answered,), prompt_estimate)


def used_by_all(answered: Iterable[Answered], prompt_estimate: int) -> Usage:
    """What several choices have used together, the prompt once for each, as it is billed."""
    rounds = [one for each in answered for one in each.rounds()]
    if len(rounds) == 1:
        return rounds[0].used(prompt_estimate)
    return reduce(total, [one.used(prompt_estimate) for one in rounds], Usage())


class Weighing:
    """The first stage of an answer: nothing changes, but how much is said is counted."""

    __slots__ = ("finished", "said")

    def __init__(self) -> None:
        self.said = 0
        self.finished = False  # the backend's answer is complete

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The same events."""
        for event in events:
            match event:
                case Delta():
                    self.said += bytes_of(event.text)
                case Open():
                    self.said += said_in((event.part,))
                case Finish():
                    self.finished = True
                case _:
                    pass
        return events
