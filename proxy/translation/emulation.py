"""What the proxy does itself on the way back, because the backend can't."""

from dataclasses import dataclass
from typing import Protocol

from proxy.canonical.events import Event
from proxy.canonical.fold import Fold, unfold
from proxy.canonical.reply import Reply
from proxy.translation.answer_tool import Answering
from proxy.translation.directives import Directing
from proxy.translation.fences import Unfencing
from proxy.translation.stop_strings import StopStrings


class Stage(Protocol):
    """One step of a reply on its way to the client."""

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The events that may leave now."""


@dataclass(slots=True)
class Emulation:
    """`stops`: strings that end the answer. `answer_tool`: a tool whose call is the answer. `fenced`: JSON was asked
    for in words, so there may be a code fence around it. `directive`: the words in which a tool call was asked for.
    `pauses`: the backend may stop in the middle of a turn, to be asked to go on. `hosts`: it may run tools itself.
    """

    stops: tuple[str, ...] = ()
    answer_tool: str | None = None
    fenced: bool = False
    directive: str | None = None
    pauses: bool = False
    hosts: bool = False

    def stages(self) -> list[Stage]:
        """Fresh stages for one reply, in their order; mostly none."""
        stages: list[Stage] = []
        if self.answer_tool is not None:
            stages.append(Answering(self.answer_tool))
        if self.fenced:
            stages.append(Unfencing())
        if self.stops:
            stages.append(StopStrings(self.stops))
        if self.directive is not None:
            stages.append(Directing(self.directive))
        return stages


def staged(reply: Reply, stages: list[Stage]) -> Reply:
    """A whole reply through the stages that a stream goes through, so that the two can't come to differ."""
    if not stages:
        return reply
    events = list(unfold(reply))
    for stage in stages:
        events = stage.pass_on(events)
    fold = Fold()
    for event in events:
        fold.emit(event)
    done = fold.reply()
    done.extra = reply.extra
    return done
