"""Stop strings where the backend has none or takes fewer (mapping.md 7.3).

The visible text is watched as it comes. Only what may be the beginning of a stop string is held back, so that a cut
of the stream changes nothing but the pieces. What the backend says after a match is read for its usage alone; that it
breaks off then harms nobody, since the answer was complete. Where the operator wants it, nothing more is read.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Ping, Start, UsageUpdate
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Citation, Text
from proxy.canonical.request import Request
from proxy.canonical.stop import Stop
from proxy.canonical.target import Target
from proxy.canonical.usage import Usage

_TELL_MATCHED = ("vllm", "sglang")  # servers that say which stop string they met


def take_over(request: Request, target: Target, losses: LossReport) -> tuple[str, ...]:
    """Leave the stop strings that the backend takes, in place; gives those that the proxy must watch for."""
    limits = request.limits
    wanted = [stop for stop in dict.fromkeys(limits.stop) if stop]
    limits.stop = native = _native(wanted, target)
    kept = set(native)
    emulated = tuple(stop for stop in wanted if stop not in kept)
    if emulated and not native and target.protocol != "messages":
        losses.approx(Rule.STOP_EMULATED, limits.stop_at)
    if native and request.origin == "messages" and target.dialect.name not in _TELL_MATCHED:
        losses.approx(Rule.STOP, limits.stop_at)  # a match looks like any other end
    return emulated


def _native(stops: list[str], target: Target) -> list[str]:
    dialect = target.dialect
    if target.protocol == "messages":
        return [stop for stop in stops if stop.strip()]  # others are refused
    if target.protocol == "responses" or not target.profile.stop or "stop" in dialect.no_fields:
        return []
    return stops[: dialect.stop_limit]


@dataclass(slots=True)
class _Scan:
    """An open text part. `told`: characters that have left; `read`: characters of the tokens in `entries`' order.

    `entries` are log probabilities that wait for the end of their token to leave.
    """

    held: str = ""
    told: int = 0
    read: int = 0
    entries: list[tuple[int, object]] = field(default_factory=list)

    def note(self, logprobs: list[object]) -> None:
        for entry in logprobs:
            token = entry.get("token") if isinstance(entry, dict) else None
            self.read += len(token) if isinstance(token, str) else 0
            self.entries.append((self.read, entry))

    def leave(self, k: int, text: str, *, last: bool = False) -> list[Event]:
        """The delta for text that may go now, with what belongs to it."""
        self.told += len(text)
        count = len(self.entries)
        if not last:
            count = next((index for index, (end, _) in enumerate(self.entries) if end > self.told), count)
        ready = [entry for _, entry in self.entries[:count]]
        del self.entries[:count]
        return [Delta(k, text, ready or None)] if text or ready else []


_BYTES = 4  # of text, in a token (mapping.md 16.2)


class Cut:
    """The end of an answer at a match, without waiting for what the backend has to say of it.

    `estimate_prompt` gives the tokens of the prompt, where the backend has told nothing of it by then. `made`: the
    answer has been cut.
    """

    __slots__ = ("_estimate_prompt", "_said", "_usage", "made")

    def __init__(self, estimate_prompt: Callable[[], int]) -> None:
        self._estimate_prompt = estimate_prompt
        self._said = 0
        self._usage: Usage | None = None
        self.made = False

    def note(self, event: Event) -> None:
        """Take note of what an event tells of the usage."""
        if isinstance(event, Delta):
            self._said += len(event.text.encode(errors="replace"))
        elif isinstance(event, Start | UsageUpdate):
            self._usage = event.usage or self._usage

    def end(self, stop: Stop) -> list[Event]:
        """The events of the end, with the usage as it may be."""
        self.made = True
        told = self._usage or Usage(input_fresh=self._estimate_prompt())
        output = max(told.output, math.ceil(self._said / _BYTES))
        return [UsageUpdate(replace(told, output=output, estimated=True)), Finish(stop), End()]


class StopStrings:
    """A stage of the reply: it ends where the first stop string does begin, counted by which is complete first."""

    __slots__ = ("_cut", "_ending", "_longest", "_matched", "_scans", "_stops", "_told", "_unclosed")

    def __init__(self, stops: tuple[str, ...], cut: Cut | None = None) -> None:
        self._stops = stops
        self._cut = cut
        self._longest = max(map(len, stops))
        self._scans: dict[int, _Scan] = {}
        self._unclosed: set[int] = set()  # of all kinds
        self._matched: str | None = None
        self._ending = -1  # the part that the match cut
        self._told = 0  # its length

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The events that may leave now."""
        out: list[Event] = []
        for event in events:
            if self._cut is not None:
                if self._cut.made:
                    break
                self._cut.note(event)
            match event:
                case Start() | UsageUpdate() | Ping():
                    out.append(event)
                case _ if self._matched is not None:
                    self._after(event, out)
                case Delta():
                    self._delta(event, out)
                case Open():
                    self._open(event, out)
                case Close():
                    scan = self._scans.pop(event.k, None)
                    if scan is not None:
                        out += scan.leave(event.k, scan.held, last=True)
                    self._unclosed.discard(event.k)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _open(self, event: Open, out: list[Event]) -> None:
        self._unclosed.add(event.k)
        part = event.part
        if not isinstance(part, Text):
            out.append(event)
            return
        self._scans[event.k] = _Scan()
        out.append(Open(event.k, replace(part, text="", logprobs=None)) if part.text else event)
        if part.text:
            self._delta(Delta(event.k, part.text, part.logprobs), out)

    def _delta(self, event: Delta, out: list[Event]) -> None:
        scan = self._scans.get(event.k)
        if scan is None:
            out.append(event)
            return
        if event.logprobs:
            scan.note(event.logprobs)
        text = scan.held + event.text
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if not ends:
            held = self._held(text)
            scan.held = text[len(text) - held :]
            out += scan.leave(event.k, text[: len(text) - held])
            return
        end, at = min(ends)
        out += scan.leave(event.k, text[:at])
        out.append(Close(event.k))
        self._unclosed.discard(event.k)
        self._matched, self._ending, self._told = text[at:end], event.k, scan.told
        for k in sorted(self._scans.keys() - {event.k}):
            out += self._scans[k].leave(k, self._scans[k].held, last=True)
        self._scans.clear()
        if self._cut is not None and not self._unclosed:  # what is open may be a call, which half of is none
            out += self._cut.end(Stop("stop_sequence", self._matched))

    def _held(self, text: str) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[len(text) - size :]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0

    def _after(self, event: Event, out: list[Event]) -> None:
        """Behind the match only what was open already goes on, and the end is ours."""
        match event:
            case Delta() | Cite() | Close() if event.k in self._unclosed:
                out.append(event)
                if isinstance(event, Close):
                    self._unclosed.discard(event.k)
            case Cite() if event.k == self._ending:
                cited = _within(event.citation, self._told)
                if cited is not None:
                    out.append(Cite(event.k, cited))
            case Finish() | Fail():
                out += [Close(k) for k in sorted(self._unclosed)]
                self._unclosed.clear()
                stop = Stop("stop_sequence", self._matched)
                tier = None
                if isinstance(event, Finish):
                    stop.native, tier = event.stop.native, event.service_tier
                out.append(Finish(stop, tier))
            case Delta() | Cite() | Close() | Open():
                pass
            case _:
                out.append(event)


def _within(citation: Citation, length: int) -> Citation | None:
    """The citation in a text that was cut to this length; None when it lies behind the cut."""
    if citation.start is not None and citation.start >= length:
        return None
    if citation.end is not None and citation.end > length:
        return replace(citation, end=length)
    return citation
