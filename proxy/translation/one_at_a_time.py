"""Messages streams have one open block at a time; other protocols interleave (mapping.md 13.5).

This stage stands before the Messages writer. The oldest open part is current and streams through; the others wait in
queues of their own. A current part that is complete makes room as soon as another has something to say: text always,
a call once its arguments are a whole JSON value. Thinking is complete only when it closes: its signature comes then.
"""

from dataclasses import dataclass, field
from typing import assert_never, cast

from proxy.canonical.events import (
    Cite,
    Close,
    Delta,
    End,
    Event,
    Fail,
    Finish,
    Open,
    Ping,
    Start,
    UsageUpdate,
    only_deltas,
)
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, Reasoning, Refusal, ReplyPart, Text
from proxy.translation.reply_losses import note_arguments


class JsonDepth:
    """Tells whether pieces of text add up to one whole JSON object or array.

    They are only looked at when somebody asks, since most calls never have to make room.
    """

    __slots__ = ("_complete", "_depth", "_escaped", "_in_string", "_pieces", "_seen")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._seen = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._complete = False

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self._pieces.append(text)

    def complete(self) -> bool:
        """Whether what came so far is a whole value."""
        for text in self._pieces[self._seen :]:
            self._read(text)
        self._seen = len(self._pieces)
        return self._complete

    def text(self) -> str:
        """All that came."""
        return "".join(self._pieces)

    def _read(self, text: str) -> None:
        for character in text:
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                if character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_string = False
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                self._complete = self._depth == 0


@dataclass(slots=True)
class _Waiting:
    """A part that is not current: its opening and what came of it since."""

    opened: Open
    events: list[Event] = field(default_factory=list)


class OneAtATime:
    """`pass_on` takes events as they come and gives them in an order without overlaps; `k` is dense again."""

    __slots__ = ("_current", "_depth", "_done", "_holds", "_losses", "_next", "_part", "_renumbered", "_waiting")

    def __init__(self, losses: LossReport) -> None:
        self._losses = losses
        self._current: int | None = None
        self._part: ReplyPart = Text("")  # the current one
        self._holds = False  # the current part is complete only when it closes
        self._depth: JsonDepth | None = None  # of the current part, while others wait and it is a call
        self._waiting: dict[int, _Waiting] = {}
        self._done: dict[int, ReplyPart] = {}  # closed early: their own Close is still to come
        self._next = 0
        self._renumbered: dict[int, int] = {}

    def pass_on(self, events: list[Event]) -> list[Event]:
        """The events that may leave now."""
        if self._passes(events):
            return events
        out: list[Event] = []
        plain = self._plain
        for event in events:
            match event:
                case Delta() if event.k == plain:
                    out.append(event)
                    continue
                case Delta():
                    self._delta(event, out)
                case Open():
                    self._open(event, out)
                case Close():
                    self._close(event, out)
                case Cite():
                    self._cite(event, out)
                case Fail():
                    self._waiting.clear()
                    out.append(event)
                case Start() | UsageUpdate() | Finish() | Ping() | End():
                    out.append(event)
                case _:
                    assert_never(event)
            plain = self._plain
        return out

    def _passes(self, events: list[Event]) -> bool:
        """Whether only the current part grows and nothing has to be done about it, as in most reads of a stream."""
        plain = self._plain
        if plain is None or not only_deltas(events):
            return False
        return all(event.k == plain for event in cast("list[Delta]", events))

    @property
    def _plain(self) -> int | None:
        """The part whose deltas may leave as they are."""
        current = self._current
        if current is None or self._waiting or self._depth is not None or self._renumbered[current] != current:
            return None
        return current

    def _open(self, event: Open, out: list[Event]) -> None:
        if self._current is None:
            self._begin(event, out)
            return
        self._waiting[event.k] = _Waiting(event)
        self._make_room(out)

    def _begin(self, event: Open, out: list[Event]) -> None:
        self._current = event.k
        self._renumbered[event.k] = self._next
        part = self._part = event.part
        self._depth = JsonDepth() if isinstance(part, Call) else None
        # Thinking is signed at its end; free text that looks like JSON is not over where the JSON is.
        self._holds = isinstance(part, Reasoning) or (isinstance(part, Call) and part.kind == "custom")
        out.append(event if event.k == self._next else Open(self._next, event.part))
        self._next += 1

    def _delta(self, event: Delta, out: list[Event]) -> None:
        if event.k == self._current:
            if self._depth is not None:
                self._depth.feed(event.text)
            number = self._renumbered[event.k]
            out.append(event if number == event.k else Delta(number, event.text, event.logprobs))
            if self._waiting:
                self._make_room(out)
        elif event.k in self._waiting:
            self._waiting[event.k].events.append(event)
        elif isinstance(self._done.get(event.k), Text | Refusal):
            self._go_on(event, out)
        elif event.text.strip():
            self._losses.approx(Rule.LATE_ARGS, ("stream",))

    def _go_on(self, event: Delta, out: list[Event]) -> None:
        """Text of a part that has made room: a block of its own."""
        part = self._done.pop(event.k)
        rest: ReplyPart = Text("", phase=part.phase) if isinstance(part, Text) else Refusal("")
        self._waiting[event.k] = _Waiting(Open(event.k, rest), [event])
        self._make_room(out)

    def _cite(self, event: Cite, out: list[Event]) -> None:
        if event.k == self._current:
            out.append(Cite(self._renumbered[event.k], event.citation))
        elif event.k in self._waiting:
            self._waiting[event.k].events.append(event)
        else:
            # Blocks are not reopened for a citation that came late (mapping.md 4.7).
            self._losses.drop(Rule.CITATIONS, ("stream",))

    def _close(self, event: Close, out: list[Event]) -> None:
        if event.k == self._current:
            self._end_current(event, out)
            self._take_turns(out)
        elif event.k in self._waiting:
            self._waiting[event.k].events.append(event)
        else:
            self._done.pop(event.k, None)

    def _end_current(self, event: Close, out: list[Event]) -> None:
        if self._depth is not None and isinstance(self._part, Call):
            note_arguments(self._part, self._part.arguments + self._depth.text(), self._losses)
        out.append(Close(self._renumbered[event.k], event.native))
        self._current = None
        self._depth = None

    def _make_room(self, out: list[Event]) -> None:
        """Close the current part early if it is complete and another waits."""
        if self._current is None or self._holds or (self._depth is not None and not self._depth.complete()):
            return
        self._done[self._current] = self._part
        self._end_current(Close(self._current), out)
        self._take_turns(out)

    def _take_turns(self, out: list[Event]) -> None:
        """Let the oldest waiting part become current, with all that it has to say; go on while parts complete."""
        while self._waiting and self._current is None:
            k = min(self._waiting)
            waiting = self._waiting.pop(k)
            self._begin(waiting.opened, out)
            for event in waiting.events:
                match event:
                    case Delta():
                        if self._depth is not None:
                            self._depth.feed(event.text)
                        out.append(Delta(self._renumbered[k], event.text, event.logprobs))
                    case Cite():
                        out.append(Cite(self._renumbered[k], event.citation))
                    case Close():
                        self._end_current(event, out)
            if self._waiting and self._current is not None:
                self._make_room(out)
                return
