"""What the proxy does itself on the way back, because the backend can't."""

from dataclasses import dataclass, field
from typing import Protocol

from proxy.canonical.errors import Rejected
from proxy.canonical.events import Event
from proxy.canonical.fold import Fold, unfold
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import Reply
from proxy.translation.answer_tool import Answering
from proxy.translation.custom_tools import Patterns
from proxy.translation.directives import Directing
from proxy.translation.fences import Unfencing
from proxy.translation.stop_strings import Cut, StopStrings
from proxy.translation.validation import Checking, Expected


class Stage(Protocol):
    """One step of a reply on its way to the client."""

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The events that may leave now."""


@dataclass(slots=True)
class Emulation:
    """`stops`: strings that end the answer; `cuts`: a stream of the backend is cut there. `answer_tool`: a tool whose
    call is the answer. `fenced`: JSON was asked for in words, so there may be a code fence around it. `directive`: the
    words in which a tool call was asked for. `pauses`: the backend may stop in the middle of a turn, to be asked to go
    on. `hosts`: it may run tools itself. `expected`: the form of the answer, `patterns`: that of free texts for tools,
    where nobody else sees to it.
    """

    stops: tuple[str, ...] = ()
    cuts: bool = False
    answer_tool: str | None = None
    fenced: bool = False
    directive: str | None = None
    pauses: bool = False
    hosts: bool = False
    expected: Expected | None = None
    patterns: Patterns = field(default_factory=dict)

    def stages(self, losses: LossReport, cut: Cut | None = None) -> list[Stage]:
        """Fresh stages for one reply, in their order; mostly none. `losses` of the reply; `cut` where it may be cut."""
        stages: list[Stage] = []
        if self.answer_tool is not None:
            stages.append(Answering(self.answer_tool))
        if self.fenced:
            stages.append(Unfencing())
        if self.stops:
            stages.append(StopStrings(self.stops, cut))
        if self.expected is not None:
            stages.append(Checking(self.expected, losses))
        if self.directive is not None:
            stages.append(Directing(self.directive))
        return stages


def staged(reply: Reply, stages: list[Stage]) -> Reply:
    """A whole reply through the stages that a stream goes through, so that the two can't come to differ.

    Raises `Rejected` where a stage fails the answer.
    """
    if not stages:
        return reply
    events = list(unfold(reply))
    for stage in stages:
        events = stage.pass_on(events)
    fold = Fold()
    for event in events:
        fold.emit(event)
    if fold.error is not None:
        raise Rejected(fold.error)
    done = fold.reply()
    done.extra = reply.extra
    return done
