"""A backend's side of a stream: its bytes, as they come, into the events that its client is to be told (mapping.md 13).

The only place that knows which stages an answer goes through. It keeps what the server must know before it commits to a
status: whether the backend really started, and whether it failed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason
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
from proxy.canonical.jsontext import NotJson, loads_exact, loads_leniently, loads_plain
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.fields import as_object
from proxy.translation.call_edits import CallEdit, CallEditing, OnlyFirst, SplitParallel
from proxy.translation.carrying import Carrying
from proxy.translation.codecs import BACKENDS, BackendProtocol, ClientProtocol, Wire
from proxy.translation.continuation import Continuation
from proxy.translation.custom_tools import CustomCalls
from proxy.translation.emulation import Emulation, Stage
from proxy.translation.envelope import NO_SCOPE, Scope
from proxy.translation.error_fields import reword
from proxy.translation.halves import Halves, may_hold_half
from proxy.translation.hosted_calls import HostedCalls
from proxy.translation.recall import Remembered
from proxy.translation.repeats import Repeats
from proxy.translation.reply_losses import note_event
from proxy.translation.spent import Round, Weighing
from proxy.translation.sse import EventTooLarge, SseEvent, SseReader
from proxy.translation.stop_strings import Cut
from proxy.translation.typed_tools import TypedCalls

DONE = b"[DONE]"
_NO_OBJECT = "sent an event that is not a JSON object"

# Takes secrets out of a text: backends' errors may quote the key that they were asked with.
Scrub = Callable[[str], str]


def undecodable(what: str) -> Error:
    """The backend sent something that is not its protocol."""
    return Error(ErrorClass.BAD_GATEWAY, f"The backend {what}.", reason=Reason.UPSTREAM_ERROR)


def parse_event(payload: bytes) -> Wire | Error:
    """The JSON object of an event, or what is wrong with it."""
    try:
        wire = loads_leniently(payload)
    except NotJson:
        return undecodable("sent an event that is not JSON")
    if type(wire) is not dict:
        return undecodable(_NO_OBJECT)
    return wire


@dataclass(slots=True)
class WayBack:
    """How an answer gets from this backend to this client. `model` is the backend's name of the model; `scope` says
    whose envelopes carry what must come back; `remembered` collects it for Chat clients that drop it; `weighs`: what an
    answer says is counted.
    """

    client: ClientProtocol
    backend: BackendProtocol
    context: ReplyContext
    losses: LossReport
    spelling: Spelling
    dialect: Dialect
    model: str = ""
    scope: Scope = NO_SCOPE
    emulation: Emulation = field(default_factory=Emulation)
    remembered: Remembered = field(default_factory=Remembered)
    weighs: bool = False

    def edits(self) -> list[CallEdit]:
        """What is done with calls before anyone else sees them; new ones for each reply."""
        spelling = self.spelling
        edits: list[CallEdit] = []
        if spelling.declared and self.backend != "messages":
            edits.append(SplitParallel(spelling))
        if spelling.one_call:
            edits.append(OnlyFirst(self.losses))
        if any(name.kind == "typed" for name in spelling.names.values()):
            edits.append(TypedCalls(self.client))
        return edits

    def carrying(self) -> Carrying:
        """The stage that puts the backend's own reasoning into envelopes."""
        return Carrying(
            self.client,
            self.scope,
            self.model,
            self.remembered,
            hides=self.context.show_reasoning is False,
            waits=self.backend == "responses",
            counts=bool(self.spelling.declared) or self._hosts(),
            leaves_hosted=self._hosts(),
        )

    def hosting(self) -> HostedCalls | None:
        """The stage behind it that shows and carries what the backend ran itself; None where it runs nothing."""
        if not self._hosts():
            return None
        return HostedCalls(self.client, self.backend, self.scope, self.model, self.remembered)

    def _hosts(self) -> bool:
        return self.emulation.hosts and self.client != "completions"


class Reading:
    """The backend's side of a stream: SSE bytes to canonical events in `batch`."""

    __slots__ = (
        "_client",
        "_continuation",
        "_cut",
        "_losses",
        "_may_halve",
        "_reader",
        "_repeats",
        "_rounds",
        "_scrub",
        "_signed",
        "_sse",
        "_stages",
        "_way",
        "_weighing",
        "batch",
        "events",
        "failed",
        "finished",
        "refused",
        "started",
        "stop",
        "usage",
    )

    def __init__(self, way: WayBack, scrub: Scrub, continuation: Continuation | None, *, may_cut: bool = False) -> None:
        self._way = way
        self._client = way.client
        self._continuation = continuation
        self._losses = way.losses
        self._scrub = scrub
        self.batch: list[Event] = []
        self.events = 0  # of the backend, by now
        self.started = False
        self.failed: Error | None = None
        self.finished = False
        self.refused = False  # the backend gave an error in place of an answer
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self._signed = False  # the client has just been given a sign of life
        self._rounds: list[Round] = []  # the answers before this one
        self._begin()
        self._may_halve = False  # a character may have been cut in half
        self._weighing = Weighing() if way.weighs else None
        self._cut = Cut(way.context.estimate_prompt) if may_cut and way.emulation.cuts else None
        self._stages = self._needed_stages()

    def _needed_stages(self) -> list[Stage]:
        """Only what this answer needs, in order."""
        way = self._way
        stages: list[Stage] = [] if self._weighing is None else [self._weighing]
        if self._continuation is not None:
            stages.append(self._continuation)
        stages += [CallEditing(edit) for edit in way.edits()]
        if way.spelling.wraps_custom:
            stages.append(CustomCalls(way.emulation.patterns, way.losses))
        stages += [*way.emulation.stages(way.losses, self._cut), way.carrying()]
        if (hosting := way.hosting()) is not None:
            stages.append(hosting)
        return stages

    def _begin(self) -> None:
        """Be ready for an answer of the backend."""
        way = self._way
        self._sse = SseReader()
        reader = BACKENDS[way.backend].stream_reader
        self._reader = reader(self.batch.append, way.spelling, way.dialect, way.losses)
        self._repeats = Repeats(self._reader.text_key, self._reader.text_mark)

    @property
    def paused(self) -> bool:
        """Whether the backend has ended its answer in the middle of a turn, to be asked to go on."""
        return self._continuation is not None and self._continuation.paused

    def goes_on(self) -> bytes | None:
        """The request that makes it go on, whose answer is fed as if it were the same; None when it has not paused."""
        going_on = self._continuation
        if going_on is None or not going_on.paused:
            return None
        self._rounds = self.rounds()
        if self._weighing is not None:
            self._weighing.said, self._weighing.finished = 0, False
        self._begin()
        return going_on.next_body()

    def rounds(self) -> list[Round]:
        """The answers of the backend of which anything has been heard."""
        weighing, reader = self._weighing, self._reader
        if weighing is None:
            last = Round(reader.usage, 0, self.finished)
        else:
            last = Round(reader.usage, weighing.said, weighing.finished or reader.stopped)
        return [*self._rounds, last] if last.heard else self._rounds

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        try:
            events = self._sse.feed(chunk)
            self.events += len(events)
            self._take(events)
        except EventTooLarge:
            self._fail(undecodable("sent an event that is too large"))
        return self._flush()

    def end(self) -> list[Event]:
        """The events of the end of input."""
        if not self.closed and not self.paused:
            try:
                # A last event without its blank line counts only when it is whole (mapping.md 13.1).
                for event in self._sse.end():
                    if event[1] == DONE or not isinstance(parse_event(event[1]), Error):
                        self._take([event])
            except EventTooLarge:
                self._fail(undecodable("sent an event that is too large"))
            if not self.closed:
                self._reader.end()
        return self._flush()

    def break_off(self, error: Error) -> list[Event]:
        """The events of an answer that the proxy gives up."""
        self._fail(error)
        events = self._flush()
        self.refused = False
        return events

    @property
    def closed(self) -> bool:
        """Whether nothing of what may still come matters."""
        return self.finished or self.failed is not None

    @property
    def cut(self) -> bool:
        """Whether the answer has ended before the backend's."""
        return self._cut is not None and self._cut.made

    @property
    def stopped(self) -> bool:
        """Whether the answer is whole and only its end mark, and usage perhaps, is still to come."""
        return not self.closed and self._reader.stopped

    def _take(self, events: list[SseEvent]) -> None:
        reader, continuation, repeats, batch = self._reader, self._continuation, self._repeats, self.batch
        head, tail = repeats.head, repeats.tail
        run: list[str] = []  # of deltas that their reader has not been told of
        for name, payload in events:
            if payload.startswith(head) and payload.endswith(tail) and name == repeats.name:
                text = repeats.text_of(payload)
                if text and (run or reader.grows(repeats.k)):
                    run.append(text)
                    batch.append(Delta(repeats.k, text))
                    if repeats.numbered:
                        repeats.count()
                        head, tail = repeats.head, repeats.tail
                    continue
            if run:
                reader.grown(run)
                run = []
            known = len(batch)
            wire = self._decoded(payload)
            if wire is None:
                continue
            try:
                reader.feed(wire, name)
            except InexactNumber:
                wire = self._feed_exactly(payload, name)
            except RecursionError:
                self._fail(undecodable("sent an event that is nested too deeply"))
            if continuation is not None:
                continuation.take(wire)
            elif repeats.learns:
                repeats.learn(name, payload, batch[known:])
                head, tail = repeats.head, repeats.tail
            elif repeats.knows:
                repeats.forget()
                head = repeats.head
        if run:
            reader.grown(run)

    def _feed_exactly(self, payload: bytes, name: str) -> Wire:
        """Feed an event with a number in it that the fast decoder rounds (mapping.md 0.3)."""
        wire = as_object(loads_exact(payload), ())
        self._reader.exact = True
        self._reader.feed(wire, name)
        self._reader.exact = False
        return wire

    def _decoded(self, payload: bytes) -> Wire | None:
        """An event's object; None where that is all that there is to it."""
        try:
            wire = loads_plain(payload)
        except ValueError:
            return self._second_look(payload)
        if type(wire) is dict:
            return wire
        self._fail(undecodable(_NO_OBJECT))
        return None

    def _second_look(self, payload: bytes) -> Wire | None:
        """What the fast decoder refuses: the end mark, half characters, and what is no JSON at all."""
        if payload == DONE:
            self._reader.done()
            return None
        wire = parse_event(payload)
        if isinstance(wire, Error):
            self._fail(wire)
            return None
        if not self._may_halve and may_hold_half(payload):
            self._may_halve = True
            self._stages.insert(0, Halves())
        return wire

    def _fail(self, error: Error) -> None:
        self.batch.append(Fail(error))

    def _flush(self) -> list[Event]:
        """The batch, through the stages and cut behind the event that ends the stream."""
        events = self.batch[:]
        self.batch.clear()
        if self.closed:
            return []
        for stage in self._stages:
            events = stage.pass_on(events)
        return events if only_deltas(events) else self._noted(events)

    def _noted(self, events: list[Event]) -> list[Event]:
        """The events up to the one that ends the stream, and what they tell taken note of.

        A backend that tells each step of its work does it faster than the client needs to hear that it is alive. No
        clock is read here, so the first of its signs of life is passed on and no other before something has happened;
        while nothing does, the proxy's own heartbeat keeps the time (mapping.md 13.10).
        """
        kept: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    pass
                case Start():
                    self.started = True
                    self.usage = event.usage or self.usage
                case UsageUpdate():
                    self.usage = event.usage
                case Finish():
                    self.finished = True
                    self.stop = event.stop
                case End():
                    return [*kept, event]  # what may stand behind it is nobody's concern
                case Fail():
                    self.failed = event.error.scrubbed(self._scrub)
                    self.refused = not self.started
                    reword(self.failed, self._way.backend, self._client, self._way.context.limit_field)
                    return [*kept, event]
                case Open() | Close() | Cite():
                    note_event(event, self._client, self._losses)
                    self._signed = False
                case Ping() if self._signed:
                    continue
                case Ping():
                    self._signed = True
                case _:
                    pass
            kept.append(event)
        return kept
