"""One answer out of several: a turn that the vendor paused goes on, and one without the call that had to come is asked
for once more (mapping.md 6.2, 12.3).

Pure: it says with what the backend is to be asked again, and joins what comes. Usage is summed, as it is billed.
"""

from collections.abc import Iterable

from proxy.canonical.events import Cite, Close, Delta, End, Event, Finish, Open, Start, UsageUpdate
from proxy.canonical.jsontext import dumps, loads_exact
from proxy.canonical.parts import Call, ReplyPart
from proxy.canonical.reply import Reply
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage, total
from proxy.protocols.fields import as_object
from proxy.translation.codecs import MessageContent, Wire, container_of, continued

MOST = 8  # times that a paused turn goes on


class Continuation:
    """`pauses`: the backend's turns may be paused; `must_call`: a whole answer of words alone is asked for once more.

    `paused`: a stream has ended that was not the last; `next_body` is what to send then.
    """

    __slots__ = (
        "_body",
        "_content",
        "_first",
        "_kept",
        "_must_call",
        "_next",
        "_offset",
        "_pauses",
        "_rounds",
        "_spent",
        "_summed",
        "_told",
        "paused",
    )

    def __init__(self, body: bytes, *, pauses: bool, must_call: bool) -> None:
        self._body = body
        self._pauses = pauses
        self._must_call = must_call
        self._content = MessageContent()
        self._rounds = 0
        self._spent: Usage | None = None  # in the answers before this one
        self._told: Usage | None = None  # up to now
        self._summed = False  # this answer has told, so that what is passed on is a sum
        self._first: Reply | None = None
        self._kept: list[ReplyPart] = []
        self._next = 0
        self._offset = 0
        self.paused = False

    def next_body(self) -> bytes:
        """The next request, now that an answer has paused or has to come once more."""
        self.paused = False
        self._summed = False
        content, self._content = self._content, MessageContent()
        if content.blocks:
            body = as_object(loads_exact(self._body), ())
            self._body = dumps(continued(body, content.blocks, content.container))
        return self._body

    # --- whole replies ---

    def whole(self, reply: Reply, wire: Wire) -> Reply | None:
        """The whole answer, of which `reply` is the end; None when there is more to come. `wire` is as the backend
        wrote it.
        """
        reply.usage = self._spent if reply.usage is None else self._with_spent(reply.usage)
        if self.lacks_call(reply):
            return None
        if self._pauses and reply.stop.kind == "pause":
            if self._rounds < MOST:
                self._keep(reply, wire)
                return None
            reply.stop = _cut(reply.stop)
        if self._first is not None:
            reply.id, reply.model, reply.created = self._first.id, self._first.model, self._first.created
            reply.parts = [*self._kept, *reply.parts]
        return reply

    def _keep(self, reply: Reply, wire: Wire) -> None:
        self._first = self._first or reply
        self._kept += reply.parts
        self._spent = reply.usage
        blocks = wire.get("content")
        self._content.blocks = (
            [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        )
        self._content.container = container_of(wire)
        self._rounds += 1

    def lacks_call(self, reply: Reply) -> bool:
        """Whether the backend is to be asked once more, for the call that it was asked for in words; `reply` is then
        forgotten, but for its usage.
        """
        if not self._must_call or reply.stop.kind != "end" or any(isinstance(part, Call) for part in reply.parts):
            return False
        self._must_call = False
        self._spent = reply.usage
        self._summed = False
        return True

    # --- streams ---

    def take(self, wire: Wire) -> None:
        """Remember an event as it came, should the turn be paused."""
        if self._pauses:
            self._content.feed(wire)

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The events of all streams as those of one."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    out.append(Delta(event.k + self._offset, event.text, event.logprobs) if self._offset else event)
                case Open():
                    self._next = event.k + self._offset + 1
                    out.append(Open(event.k + self._offset, event.part))
                case Close():
                    out.append(Close(event.k + self._offset, event.native))
                case Cite():
                    out.append(Cite(event.k + self._offset, event.citation))
                case Start() if self._rounds:
                    pass
                case UsageUpdate():
                    self._told = self._with_spent(event.usage)
                    self._summed = True
                    out.append(UsageUpdate(self._told))
                case Finish() if self._pauses and event.stop.kind == "pause":
                    if self._rounds == MOST:
                        out.append(Finish(_cut(event.stop), event.service_tier))
                    else:
                        self._pause()
                case Finish() if self._spent is not None and not self._summed:
                    out += (UsageUpdate(self._spent), event)  # the last answer told nothing, the ones before it did
                case End() if self.paused:
                    pass
                case _:
                    out.append(event)
        return out

    def _pause(self) -> None:
        self.paused = True
        self._rounds += 1
        self._offset = self._next
        self._spent = self._told or self._spent

    def _with_spent(self, usage: Usage) -> Usage:
        return usage if self._spent is None else total(self._spent, usage)


def _cut(stop: Stop) -> Stop:
    """The stop of a turn that was paused more often than it may."""
    return Stop("length", native=stop.native)
