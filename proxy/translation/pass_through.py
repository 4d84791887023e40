"""A stream within one protocol: the bytes stay as they are, a cut stream stays visibly cut, and one that lacks nothing
but its end mark gets it, as it would in any other protocol (mapping.md 13.6).

Only whole events go on. What comes of one before its end waits, since a heartbeat or an error may have to be told
then, and in the middle of an event neither would be heard.
"""

import re
from collections.abc import Mapping

from proxy.canonical.errors import Error
from proxy.canonical.events import Delta, Event, Fail, Ping
from proxy.canonical.fold import broken_stream
from proxy.canonical.jsontext import dumps_exact, loads_exact
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.fields import as_object
from proxy.protocols.untold_usage import bytes_of
from proxy.translation.asked_usage import without_usage
from proxy.translation.codecs import BACKENDS, CLIENTS, BackendProtocol, MissingEnd, is_usage_alone
from proxy.translation.reading import DONE, Scrub, parse_event, undecodable
from proxy.translation.repeats import Repeats
from proxy.translation.spent import Round
from proxy.translation.sse import EventTooLarge, SseEvent, SseReader

_LONG = re.compile(rb"\d{19}")  # an integer that the fast decoder may round is at least so long
_FINISH_REASON = re.compile(rb'"finish_reason"\s*:\s*"[^"]')
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_.]+)"')  # at the start, where both vendors have it
_STOPPED = re.compile(rb'"stop_reason"\s*:\s*"')
_SEQUENCE = re.compile(rb'"sequence_number"\s*:\s*(\d{1,18})\b')
_END_MARK = re.compile(rb"(?:event:[^\r\n]*[\r\n]+)?data:\s*\[DONE\].*", re.DOTALL)
_TERMINAL = {
    "responses": frozenset({b"response.completed", b"response.incomplete", b"response.failed", b"response.cancelled"}),
    "messages": frozenset({b"message_stop"}),
}
_FAILURES = frozenset({b"error", b"response.failed", b"response.cancelled"})
# Events that tell of usage or of why the answer ends.
_TELLING = frozenset({b"message_start", b"message_delta"}).union(*_TERMINAL.values()) - {b"message_stop"}
_MILESTONES = frozenset(
    {b"response.created", b"response.in_progress", b"response.output_item.added", b"response.output_item.done"}
)
_OF_NOTE = _TELLING.union(_FAILURES, *_TERMINAL.values())
_GROWING = (b".delta", b"content_block_delta", b"content_block_start")  # how the types of events that say anything end
_VENDORS_OWN = Dialect()
_END_MARKS: Mapping[BackendProtocol, bytes] = {
    "chat": b"data: %b\n\n" % DONE,
    "messages": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'


class PassThrough:
    """`override` is the model name that replaces the backend's in every event, or None; `scrub` takes secrets out of
    the backend's errors; `dialect` says how the backend ends its streams. `weighs`: what the answer says is counted,
    and every event looked at for usage; `hides_usage`: the proxy has asked for the chunk that tells it, the client has
    not.
    """

    __slots__ = (
        "_account",
        "_client",
        "_context",
        "_early_mark",
        "_finish_required",
        "_held",
        "_hidden",
        "_hides_usage",
        "_last",
        "_mark_due",
        "_marked_end",
        "_missing_end",
        "_override",
        "_repeats",
        "_scrub",
        "_sse",
        "_stopped",
        "_told_failure",
        "events",
        "failed",
        "finished",
        "refused",
        "started",
    )

    # The backend's own end mark is awaited: nothing is held back that the client could use meanwhile.
    stopped = False
    cut = False

    def __init__(
        self,
        client: BackendProtocol,
        context: ReplyContext,
        override: str | None,
        scrub: Scrub = str,
        dialect: Dialect = _VENDORS_OWN,
        *,
        weighs: bool = False,
        hides_usage: bool = False,
    ) -> None:
        self._client = client
        self._context = context
        self._override = override
        self._scrub = scrub
        self._sse = SseReader()
        self._held: list[bytes] = []  # the beginning of an event whose end has not come
        self._last = b""
        self._finish_required = dialect.finish_required
        self._missing_end = MissingEnd() if client == "responses" and dialect.lax_terminal else None
        self._mark_due = client == "responses" and context.responses_done
        self._early_mark = False  # `[DONE]` came before what it should stand behind
        self._marked_end = False  # the backend's own end mark has come
        self._stopped = False  # a Messages backend has told why it stops, which is as good as an end
        self._told_failure = False  # the backend itself has, so its words must be looked at
        self.events = 0  # of the backend, by now
        self.started = False
        self.finished = False
        self.failed: Error | None = None
        self.refused = False  # the backend gave an error in place of an answer
        self._account = BACKENDS[client].account()
        self._repeats = Repeats(self._account.text_key, self._account.text_mark) if weighs else None
        self._hides_usage = hides_usage
        self._hidden = 0  # events that have been looked at and are yet to be taken out

    @property
    def usage(self) -> Usage | None:
        """The last usage that the backend told."""
        return self._account.usage

    @property
    def stop(self) -> Stop | None:
        """Why the answer ended."""
        return self._account.stop

    def rounds(self) -> list[Round]:
        """The answer, if anything has been heard of it."""
        account = self._account
        last = Round(account.usage, account.said, self.finished or self._stopped)
        return [last] if last.heard else []

    def goes_on(self) -> bytes | None:
        """Never: a pause is the client's own to see."""
        return None

    def over(self, out: bytes) -> bool:
        """Whether nothing of what may follow on `out`, the last that was fed, matters. A Chat stream that is finished
        has its usage still to come, and its end mark; Responses tell a failure in two events.
        """
        if self.finished and self._holds_last():
            return False
        if self.failed is not None:
            more = self._client == "responses" and self._told_failure and self.started
            return self.finished or not more
        return self.finished and (self._client != "chat" or out.rstrip().endswith(DONE))

    def _holds_last(self) -> bool:
        """Whether an event that has been looked at is held back for the last byte of its line end."""
        return bool(self._held) and b"".join(self._held).endswith(b"\n\r")

    def feed(self, chunk: bytes) -> bytes:
        """The events that this chunk completes, as they came."""
        try:
            events = self._sse.feed(chunk)
        except EventTooLarge:
            return self.fail(undecodable("sent an event that is too large"))
        self.events += len(events)
        for event in events:
            self._look(event)
        out = self._whole_events(chunk) if self._override is None else b"".join(map(self._renamed, events))
        out = self._completed(self._shown(out)) if self._early_mark else self._shown(out)
        if self._mark_due and self.finished and not self._holds_last():
            return self._marked(out)
        return out

    def end(self) -> bytes:
        """What was held back, if it is a whole event; an error event if the stream ended too early."""
        try:
            last = self._sse.end()
        except EventTooLarge:
            return self.fail(undecodable("sent an event that is too large"))
        rest = [event for event in last if event[1] == DONE or type(parse_event(event[1])) is dict]
        for event in rest:
            self._look(event)
        # The last event may lack its blank line, which the SDKs need.
        raw = b"".join(self._held) + b"\n\n" if self._override is None else b"".join(map(self._renamed, rest))
        out = self._shown(raw) if rest or self._holds_last() else b""
        self._held.clear()
        self.finished = self.finished or (self._stopped and self.failed is None)
        out = out + self._missing_mark() if self.finished or self.failed is not None else self._completed(out)
        return self._marked(out) if self._mark_due and self.finished else out

    def _missing_mark(self) -> bytes:
        """The end mark of an answer that is whole, where the backend did not come to it: some clients wait for it."""
        if self._marked_end or self.failed is not None:
            return b""
        self._marked_end = True
        return _END_MARKS.get(self._client, b"")

    def _marked(self, out: bytes) -> bytes:
        """The last bytes with the end mark that the client waits for, once."""
        self._mark_due = False
        return out if out.rstrip().endswith(DONE) else out + b"data: %b\n\n" % DONE

    def _completed(self, out: bytes) -> bytes:
        """The last bytes of a stream that lacks its end: with an end, if it may do without one, else with an error. An
        end mark in them goes: whoever reads it reads no further.
        """
        if self._early_mark:
            self._early_mark = False
            out = _END_MARK.sub(b"", out)
        if self._missing_end is not None:
            end = self._missing_end.write(self._next_number(), self._context.now, self._override)
            self.finished = bool(end)
            if end:
                return out + end
        return out + self.fail(broken_stream())

    def _next_number(self) -> int:
        """The sequence number of the event behind the last one that has one."""
        last = _SEQUENCE.search(self._last)
        return int(last[1]) + 1 if last else self._context.sequence

    def fail(self, error: Error) -> bytes:
        """The client's error event; the end mark, if only that has not come."""
        if self.finished or self._stopped or self.failed is not None:
            return self._missing_mark()
        self.failed = error
        if self._client == "responses":
            self._context.sequence = self._next_number()
        return CLIENTS[self._client].stream_writer(self._context).write([Fail(error)])

    def ping(self) -> bytes:
        """A heartbeat in the client's dialect."""
        if self.started and self._client == "messages":
            return _PING
        return CLIENTS[self._client].stream_writer(self._context).write([Ping()])

    def _whole_events(self, chunk: bytes) -> bytes:
        """All that has come, up to the end of its last event."""
        held = self._held
        if not held and chunk.endswith(b"\n\n"):
            return chunk
        before = b"".join(held[-2:])[-2:]
        text = before + chunk
        # Two line ends in a row, of whichever kinds, are or begin with one of these; the last lacks its LF at the end.
        last = max(text.rfind(b"\n\n"), text.rfind(b"\r\r"), text.rfind(b"\n\r", 0, len(text) - 1))
        if last < 0:
            if chunk:
                held.append(chunk)
            return b""
        cut = last + 2 - len(before)
        if text.startswith(b"\r\n", last + 1):
            cut += 1
        whole = b"".join(held) + chunk[:cut]
        held[:] = [chunk[cut:]] if cut < len(chunk) else []
        return whole

    def _shown(self, out: bytes) -> bytes:
        if self._hidden:
            out, found = without_usage(out)
            self._hidden -= found
        if not self._told_failure:
            return out
        return self._scrub(out.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _look(self, event: SseEvent) -> None:
        name, payload = event
        if self._repeats is not None and self._weigh_again(self._repeats, event):
            return
        if payload == DONE:
            self._marked_end = True
            self._end_mark()
            return
        self._last = payload
        if not self.started and not self._begins(event):
            return
        if self._client == "chat":
            self._look_at_chunk(event)
            return
        kind = _kind_of(event)
        if self._repeats is not None and kind.endswith(_GROWING):
            self._weigh(event)
        if kind in _OF_NOTE or name == "error" or self._missing_end is not None:
            self._look_closely(kind, event)

    def _look_at_chunk(self, event: SseEvent) -> None:
        payload = event[1]
        if _FINISH_REASON.search(payload):
            self.finished = True
        elif payload.rfind(b'"error"') >= 0:  # which is twice as fast as `in`: JSON is full of quotes
            self._look_for_error(event)
        if self._repeats is not None:
            self._weigh(event)
        # Who needs no more than what is told in the end is spared looking for it in every chunk.
        elif self.finished:
            self._hear(payload)

    def _look_closely(self, kind: bytes, event: SseEvent) -> None:
        name, payload = event
        if kind in _TERMINAL[self._client]:
            self.finished = self._marked_end = True
        elif kind == b"message_delta" and _STOPPED.search(payload):
            self._stopped = True
        if kind in _TELLING:
            self._hear(payload)
        if kind in _FAILURES or name == "error":
            self._look_for_error(event)
        elif self._missing_end is not None and kind in _MILESTONES:
            wire = parse_event(payload)
            if not isinstance(wire, Error):
                self._missing_end.feed(wire)

    def _weigh_again(self, repeats: Repeats, event: SseEvent) -> bool:
        """Take an event that is but for its text as an earlier one, which told nothing else."""
        name, payload = event
        if not (payload.startswith(repeats.head) and payload.endswith(repeats.tail) and name == repeats.name):
            return False
        text = repeats.text_of(payload)
        if text is None:
            return False
        self._account.said += bytes_of(text)
        self._last = payload
        if repeats.numbered:
            repeats.count()
        return True

    def _hear(self, payload: bytes) -> None:
        """Take note of usage and of why the answer ends."""
        wire = parse_event(payload)
        if not isinstance(wire, Error):
            self._account.hear(wire)

    def _weigh(self, event: SseEvent) -> None:
        name, payload = event
        wire = parse_event(payload)
        if isinstance(wire, Error):
            return
        text = self._account.weigh(wire)
        if text and self._repeats is not None and self._repeats.learns:
            self._repeats.learn(name, payload, (Delta(0, text),))
        if self._client == "chat" and (self.finished or wire.get("usage")):
            self._account.hear(wire)
            self._hidden += self._hides_usage and is_usage_alone(wire)

    def _end_mark(self) -> None:
        if not self.started:
            self.failed = broken_stream()
        elif self.failed is not None or self.finished:
            return
        elif self._missing_end is not None or (self._client == "chat" and self._finish_required):
            self._early_mark = True
        else:
            self.finished = self._client == "chat"

    def _begins(self, event: SseEvent) -> bool:
        """Whether the first event begins an answer. It decides about the status, so it alone is read in full."""
        self._look_for_error(event)
        self.started = self.failed is None
        self.refused = not self.started
        return self.started

    def _look_for_error(self, event: SseEvent) -> None:
        name, payload = event
        wire = parse_event(payload)
        if isinstance(wire, Error):
            self.failed = wire
            return
        found: list[Event] = []
        reader = BACKENDS[self._client].stream_reader(found.append, Spelling(), Dialect(), LossReport())
        reader.exact = True  # of no matter to an error
        reader.feed(wire, name)
        for read in found:
            if isinstance(read, Fail):
                self.failed = read.error.scrubbed(self._scrub)
                self._told_failure = True

    def _renamed(self, event: SseEvent) -> bytes:
        name, payload = event
        wire = None if payload == DONE else parse_event(payload)
        if isinstance(wire, dict):
            if _LONG.search(payload):
                wire = as_object(loads_exact(payload), ())
            for holder in (wire, wire.get("message"), wire.get("response")):
                if isinstance(holder, dict) and "model" in holder:
                    holder["model"] = self._override
            payload = dumps_exact(wire)
        head = f"event: {name}\n".encode() if name else b""
        return head + b"data: " + payload + b"\n\n"


def _kind_of(event: SseEvent) -> bytes:
    """The type of an event. Servers that do not begin with it have other types before it, of items and parts."""
    name, payload = event
    match = _TYPE.match(payload)
    if match is not None:
        return match[1]
    if name:
        return name.encode()
    wire = parse_event(payload)
    kind = wire.get("type") if isinstance(wire, dict) else None
    return kind.encode(errors="replace") if isinstance(kind, str) else b""
