"""One stream on its way from a backend to a client: bytes in, bytes out, no I/O (mapping.md 13).

`Translation` between protocols, `Folding` for a client that waits for the whole answer; within one protocol see
`pass_through.py`. How a backend's bytes become events is in `reading.py`.
"""

from dataclasses import replace

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.events import Event, Fail, Ping
from proxy.canonical.fold import Fold, broken_stream, unfold
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.translation.codecs import CLIENTS, ClientProtocol
from proxy.translation.continuation import Continuation
from proxy.translation.emulation import Stage
from proxy.translation.one_at_a_time import OneAtATime
from proxy.translation.reading import Reading, Scrub, WayBack
from proxy.translation.spent import Round


class Translation:
    """A stream between two protocols. `last`: a stage behind all others, for a client that is not one of Messages."""

    __slots__ = ("_last", "_reading", "_writer", "started")

    def __init__(
        self, way: WayBack, scrub: Scrub = str, continuation: Continuation | None = None, last: Stage | None = None
    ) -> None:
        self._reading = Reading(way, scrub, continuation, may_cut=True)
        self._writer = CLIENTS[way.client].stream_writer(way.context)
        self._last: Stage | None = OneAtATime(way.losses) if way.client == "messages" else last
        self.started = False  # whether the client has been told that an answer began

    @property
    def failed(self) -> Error | None:
        """The error that ended the stream."""
        return self._reading.failed

    @property
    def usage(self) -> Usage | None:
        """The last usage that the backend told."""
        return self._reading.usage

    @property
    def stop(self) -> Stop | None:
        """Why the answer ended."""
        return self._reading.stop

    @property
    def events(self) -> int:
        """How many the backend has sent."""
        return self._reading.events

    @property
    def stopped(self) -> bool:
        """Whether the answer is whole and only its end mark, and usage perhaps, is still to come."""
        return self._reading.stopped

    @property
    def cut(self) -> bool:
        """Whether the answer has ended before the backend's, which nobody needs any more."""
        return self._reading.cut

    @property
    def refused(self) -> bool:
        """Whether the backend gave an error in place of an answer."""
        return self._reading.refused

    def rounds(self) -> list[Round]:
        """The answers of the backend of which anything has been heard."""
        return self._reading.rounds()

    def goes_on(self) -> bytes | None:
        """What to ask the backend with where its answer is at its end and the client's is not."""
        return self._reading.goes_on()

    def over(self, _out: bytes) -> bool:
        """Whether nothing of what may still come matters."""
        return self._reading.closed

    def feed(self, chunk: bytes) -> bytes:
        """The client's bytes for the backend's."""
        return self._write(self._reading.feed(chunk))

    def end(self) -> bytes:
        """The client's bytes when the backend's input has ended; an error event if it ended too early."""
        return self._write(self._reading.end())

    def fail(self, error: Error) -> bytes:
        """The client's bytes when the proxy itself gives up; nothing if the stream is over already.

        Where only the end mark is missing, the answer ends as it would without one, unless a bug may have lost a part.
        """
        if self._reading.closed:
            return b""
        out = b""
        if self._reading.stopped and error.kind is not ErrorClass.INTERNAL:
            out = self.end()
            if not self._reading.paused:
                return out
        return out + self._write(self._reading.break_off(error))

    def ping(self) -> bytes:
        """A heartbeat in the client's dialect."""
        return self._writer.write((Ping(),))

    def _write(self, events: list[Event]) -> bytes:
        if self._last is not None:
            events = self._last.pass_on(events)
        if self.started or not self._reading.started:
            return self._writer.write(events)
        # A failure in the same read must not hide that the answer had begun, nor a heartbeat look like a beginning.
        out = b""
        for index, event in enumerate(events):
            written = self._writer.write((event,))
            out += written
            if written and not isinstance(event, Fail | Ping):
                self.started = True
                return out + self._writer.write(events[index + 1 :])
        return out


class Folding:
    """A streaming backend for a client that waits for the whole answer (mapping.md 14.1)."""

    __slots__ = ("_fold", "_reading")

    def __init__(self, way: WayBack, continuation: Continuation | None = None) -> None:
        self._fold = Fold()
        self._reading = Reading(way, str, continuation)

    def feed(self, chunk: bytes) -> None:
        """Take the backend's next bytes."""
        for event in self._reading.feed(chunk):
            self._fold.emit(event)

    def end(self) -> Reply | None:
        """The reply, once the input has ended; None when the backend has paused. Raises `Rejected`: a part of an
        answer is not an answer.
        """
        for event in self._reading.end():
            self._fold.emit(event)
        if self._reading.paused:
            return None
        if self._fold.error is not None:
            raise Rejected(self._fold.error)
        if not self._fold.finished:
            raise Rejected(broken_stream())
        return self._fold.reply()

    @property
    def refused(self) -> bool:
        """Whether the backend gave an error in place of an answer."""
        return self._reading.refused

    def rounds(self) -> list[Round]:
        """The answers of the backend of which anything has been heard."""
        return self._reading.rounds()

    def goes_on(self) -> bytes | None:
        """What to ask the backend with where its answer is at its end and the reply is not."""
        return self._reading.goes_on()

    @property
    def closed(self) -> bool:
        """Whether the answer is complete, has failed, or goes on only when the backend is asked to."""
        return self._reading.closed or self._reading.paused

    @property
    def stopped(self) -> bool:
        """Whether the answer is whole and only its end mark, and usage perhaps, is still to come."""
        return self._reading.stopped


def stream_of(reply: Reply, client: ClientProtocol, context: ReplyContext, last: Stage | None = None) -> bytes:
    """A whole reply as the client's stream (mapping.md 14.2). `last`: a stage before the client."""
    events = unfold(reply) if last is None else last.pass_on(list(unfold(reply)))
    return CLIENTS[client].stream_writer(replace(context, after_the_fact=True)).write(events)
