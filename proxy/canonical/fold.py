"""Events into a `Reply`, and a `Reply` into events.

This is what lets a client that streams sit on a backend that does not, and the reverse; it is also the yardstick:
folding a translated stream must give the translated whole reply.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from proxy.canonical.errors import Error, ErrorClass, Reason
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
)
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply

PIECE = 16 * 1024  # bytes of UTF-8 in one delta of a reply that is streamed after the fact (mapping.md 14.2)
_WIDEST = 4  # bytes of a character


class Fold:
    """A consumer of events that builds the reply. Use `emit` for each event, then `reply()` or `error`."""

    __slots__ = ("_grown", "_logprobs", "_parts", "_reply", "error", "finished")

    def __init__(self) -> None:
        self._reply = Reply(id="", model="")
        self._parts: list[ReplyPart] = []
        self._grown: list[list[str]] = []
        self._logprobs: list[list[object]] = []
        self.error: Error | None = None
        self.finished = False

    def emit(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Delta():
                self._grown[event.k].append(event.text)
                if event.logprobs:
                    self._logprobs[event.k].extend(event.logprobs)
            case Open():
                self._parts.append(event.part)
                self._grown.append([])
                self._logprobs.append([])
            case Close():
                self._close(event)
            case Cite():
                self._cite(event)
            case Start():
                reply = self._reply
                reply.id, reply.model, reply.created = event.id, event.model, event.created
                reply.service_tier, reply.fingerprint = event.service_tier, event.fingerprint
                reply.usage = event.usage
            case UsageUpdate():
                self._reply.usage = event.usage
            case Finish():
                self._reply.stop = event.stop
                self._reply.service_tier = event.service_tier or self._reply.service_tier
                self.finished = True
            case Fail():
                self.error = event.error
            case Ping() | End():
                pass
            case _:
                assert_never(event)

    def _close(self, event: Close) -> None:
        part = self._parts[event.k]
        grown = "".join(self._grown[event.k])
        match part:
            case Text():
                part.text += grown
                if self._logprobs[event.k]:
                    part.logprobs = (part.logprobs or []) + self._logprobs[event.k]
            case Refusal():
                part.text += grown
            case Reasoning():
                part.text += grown
                part.native = event.native or part.native
            case Call():
                if grown:
                    part.arguments += grown
            case HostedCall() | Opaque():
                part.native = event.native or part.native
            case _:
                assert_never(part)

    def _cite(self, event: Cite) -> None:
        part = self._parts[event.k]
        if isinstance(part, Text):
            part.citations = [*(part.citations or []), event.citation]

    def reply(self) -> Reply:
        """The whole reply. Only after `Finish`; a stream that failed has no reply."""
        self._reply.parts = self._parts
        return self._reply


def unfold(reply: Reply) -> Iterator[Event]:
    """The events of a reply that came whole."""
    told = reply.usage
    asked = replace(told, output=0, reasoning=0) if told is not None else None
    yield Start(reply.id, reply.model, reply.created, asked, reply.service_tier, reply.fingerprint)
    for k, part in enumerate(reply.parts):
        yield from _unfold_part(k, part)
    if reply.usage is not None:
        yield UsageUpdate(reply.usage)
    yield Finish(reply.stop, reply.service_tier)
    yield End()


def _unfold_part(k: int, part: ReplyPart) -> Iterator[Event]:
    match part:
        case Text():
            yield Open(k, Text("", phase=part.phase, apart=part.apart))
            logprobs = part.logprobs
            for piece in pieces(part.text):
                yield Delta(k, piece, logprobs)
                logprobs = None
            for citation in part.citations or ():
                yield Cite(k, citation)
            yield Close(k)
        case Refusal():
            yield Open(k, Refusal(""))
            for piece in pieces(part.text):
                yield Delta(k, piece)
            yield Close(k)
        case Reasoning():
            yield Open(k, Reasoning("", full=part.full, redacted=part.redacted, field=part.field))
            for piece in pieces(part.text):
                yield Delta(k, piece)
            yield Close(k, part.native)
        case Call():
            opened = Call(
                part.id,
                part.name,
                kind=part.kind,
                namespace=part.namespace,
                tool=part.tool,
                extra=part.extra,
            )
            yield Open(k, opened)
            for piece in pieces(part.arguments):
                yield Delta(k, piece)
            yield Close(k)
        case HostedCall() | Opaque():
            yield Open(k, part)
            yield Close(k, part.native)
        case _:
            assert_never(part)


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most `PIECE` bytes, cut between characters; nothing for an empty text."""
    if len(text) <= PIECE // _WIDEST or text.isascii():
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]
        return
    raw = text.encode(errors="surrogatepass")
    start = 0
    while start < len(raw):
        end = start + PIECE
        while end < len(raw) and raw[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        yield raw[start:end].decode(errors="surrogatepass")
        start = end


def broken_stream() -> Error:
    """The error of a backend that stopped before the answer was complete (mapping.md 13.6)."""
    return Error(
        ErrorClass.BAD_GATEWAY,
        "The backend closed the stream before the answer was complete.",
        reason=Reason.UPSTREAM_ERROR,
    )
