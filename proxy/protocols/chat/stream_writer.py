"""Write the chunks of a Chat Completions stream (mapping.md 13.3, 13.9, 13.11).

The vendor's helpers put deltas together by concatenation, so role, ids and names are written once, and lists of
objects (annotations) in one delta with an index each. A stream that broke gets an error and no `[DONE]`.
"""

from collections.abc import Iterable
from typing import assert_never

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
from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.chat.reply_writer import (
    REASONING_NAMES,
    detail_entries,
    reply_id,
    stop_fields,
    write_annotation,
    write_details,
)
from proxy.protocols.fields import Wire
from proxy.protocols.openai_completions import PARAGRAPH, Paragraphs, reply_model, service_tier, write_usage
from proxy.protocols.openai_errors import write_error
from proxy.protocols.untold_usage import believed, bytes_of

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
_ROLE = b'{"role":"assistant","content":"","refusal":null}'
_HIDDEN = b""  # the head of a part that this client does not see


class StreamWriter:
    """Events in, bytes out. Of each part the bytes before and after a delta's text are made once."""

    __slots__ = (
        "_base",
        "_calls",
        "_careful",
        "_cited",
        "_context",
        "_details",
        "_end",
        "_failed",
        "_first",
        "_grown",
        "_guesses",
        "_heads",
        "_inserted",
        "_paragraphs",
        "_parts",
        "_prefix",
        "_reason_end",
        "_reasoned",
        "_refused",
        "_said",
        "_second",
        "_start",
        "_tails",
        "_thinking",
        "_usage",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        usage = b',"usage":null' if context.include_usage else b""
        self._reason_end = b"}]" + usage + b"}\n\n"
        self._end = b',"logprobs":null,"finish_reason":null' + self._reason_end
        self._start: Start | None = None
        names = REASONING_NAMES[context.reasoning_field]
        self._thinking = b'{"' + names[0].encode() + b'":'
        self._second = b',"' + names[1].encode() + b'":' if len(names) > 1 else b""  # between thinking told twice
        self._careful = False  # deltas are more than their text between constant bytes
        self._guesses = False  # nobody has told of any usage yet, and the client wants to know
        self._said = 0  # bytes, as long as one has to guess
        self._base = b""
        self._prefix = b""
        self._parts: list[ReplyPart] = []
        self._heads: list[bytes | None] = []  # None until the first delta, before which something may have to come
        self._tails: list[bytes] = []
        self._grown: list[int] = []  # characters so far
        self._paragraphs = Paragraphs()
        self._first: dict[int, int] = {}  # where in the content each text part begins
        self._inserted = 0  # characters put between texts
        self._reasoned = False
        self._refused = False
        self._calls = 0
        self._cited: list[Cite] = []
        self._details: list[Wire] = []
        self._usage: Usage | None = None
        self._failed = False

    def write(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""
        out: list[bytes] = []
        for event in events:
            match event:
                case Delta():
                    k, text = event.k, event.text
                    if (head := self._heads[k]) and text and event.logprobs is None and not self._careful:
                        self._grown[k] += len(text)
                        self._said += bytes_of(text) if self._guesses else 0
                        out += (head, dumps(text), self._tails[k])
                    else:
                        self._delta(k, text, event.logprobs, out)
                case Open():
                    self._open(event.k, event.part, out)
                case Close():
                    self._close(event, out)
                case Cite():
                    self._cited.append(event)
                case Start():
                    self._begin(event, out)
                case UsageUpdate():
                    self._usage = event.usage
                case Finish():
                    self._finish(event, out)
                case Fail():
                    self._failed = True
                    out += (b"data: ", dumps(write_error(event.error, "")[1]), b"\n\n")
                case Ping():
                    out.append(PING)
                case End():
                    if not self._failed:
                        out.append(DONE)
                case _:
                    assert_never(event)
        return b"".join(out)

    # --- the parts of every chunk ---

    def _begin(self, start: Start, out: list[bytes]) -> None:
        self._start = start
        self._usage = start.usage
        self._guesses = start.usage is None and self._context.include_usage and self._context.choices == 1
        self._careful = self._second != b""
        self._name(service_tier(start.service_tier))
        out.append(self._chunk(_ROLE))

    def _name(self, tier: str | None) -> None:
        """Fix what all chunks have in common."""
        start = self._start or Start("", "")
        common: Wire = {
            "id": reply_id(start.id, self._context),
            "object": "chat.completion.chunk",
            "created": start.created or self._context.now,
            "model": reply_model(start.model, self._context),
        }
        if tier is not None:
            common["service_tier"] = tier
        if start.fingerprint is not None:
            common["system_fingerprint"] = start.fingerprint
        self._base = b"data: " + dumps(common)[:-1] + b',"choices":['
        self._prefix = self._base + b'{"index":%d,"delta":' % self._context.choice

    def _chunk(self, delta: bytes) -> bytes:
        return self._prefix + delta + self._end

    # --- parts ---

    def _open(self, k: int, part: ReplyPart, out: list[bytes]) -> None:
        self._parts.append(part)
        self._grown.append(0)
        self._paragraphs.open(part)
        head: bytes | None = None
        tail = b"}" + self._end
        match part:
            case Text() | Reasoning():
                if isinstance(part, Reasoning) and self._context.show_reasoning is False:
                    head = _HIDDEN
            case Refusal():
                self._refused = True
                head = self._prefix + b'{"refusal":'
            case Call():
                head, tail = self._open_call(part, out)
            case HostedCall() | Opaque():
                head = _HIDDEN  # a tool that the backend ran must not look like one that the client is to run
            case _:
                assert_never(part)
        self._heads.append(head)
        self._tails.append(tail)
        match part:
            case Text():
                self._delta(k, part.text, part.logprobs, out)
                self._cited += [Cite(k, citation) for citation in part.citations or ()]
            case Reasoning() | Refusal():
                self._delta(k, part.text, None, out)
            case Call():
                self._delta(k, part.arguments, None, out)
            case _:
                pass

    def _open_call(self, call: Call, out: list[bytes]) -> tuple[bytes, bytes]:
        """Write the opening of a call; what stands before and after each piece of its arguments."""
        index = self._calls
        self._calls += 1
        if self._context.legacy_functions:
            if index > 0:
                return _HIDDEN, b""  # the deprecated form has room for one call
            out.append(self._chunk(dumps({"function_call": {"name": call.name, "arguments": ""}})))
            return self._prefix + b'{"function_call":{"arguments":', b"}}" + self._end
        kind, field = ("custom", "input") if call.kind == "custom" else ("function", "arguments")
        opening = {"index": index, "id": call.id, "type": kind, kind: {"name": call.name, field: ""}}
        out.append(self._chunk(dumps({"tool_calls": [opening]})))
        head = f'{{"tool_calls":[{{"index":{index},"{kind}":{{"{field}":'
        return self._prefix + head.encode(), b"}}]}" + self._end

    def _delta(self, k: int, text: str, logprobs: list[object] | None, out: list[bytes]) -> None:
        head = self._heads[k]
        if not text:
            return
        if self._guesses:
            self._said += bytes_of(text)
        if not head:
            if head is not None:  # hidden
                return
            head = self._heads[k] = self._first_delta(k, out)
        self._grown[k] += len(text)
        if logprobs is None:
            self._say(k, head, text, out)
        else:
            entries = dumps({"content": logprobs, "refusal": None})
            end = b'},"logprobs":' + entries + b',"finish_reason":null' + self._reason_end
            out += (head, dumps(text), end)

    def _first_delta(self, k: int, out: list[bytes]) -> bytes:
        """The head of a part that begins to speak; a paragraph sets it off from what was said before."""
        if isinstance(self._parts[k], Reasoning):
            head = self._prefix + self._thinking
            apart = self._reasoned
            self._reasoned = True
        else:
            head = self._prefix + b'{"content":'
            apart = self._paragraphs.begin(k)
            self._inserted += len(PARAGRAPH) if apart else 0
            self._first[k] = self._inserted + sum(self._grown[other] for other in self._first)
        if apart:
            self._say(k, head, PARAGRAPH, out)
        return head

    def _say(self, k: int, head: bytes, text: str, out: list[bytes]) -> None:
        said = dumps(text)
        twice = self._second and isinstance(self._parts[k], Reasoning)
        out += (head, said, self._second, said, self._tails[k]) if twice else (head, said, self._tails[k])

    def _close(self, event: Close, out: list[bytes]) -> None:
        k = event.k
        part = self._parts[k]
        head = self._heads[k]
        if isinstance(part, Reasoning):
            self._details += detail_entries(event.native or part.native)
        if isinstance(part, Call) and part.kind != "custom" and not self._grown[k] and head:
            out += (head, b'"{}"', self._tails[k])

    # --- the end ---

    def _finish(self, finish: Finish, out: list[bytes]) -> None:
        tier = service_tier(finish.service_tier)
        if tier is not None:
            self._name(tier)
        if self._details:
            out.append(self._chunk(dumps({"reasoning_details": write_details(self._details)})))
        annotations = self._annotations()
        if annotations:
            out.append(self._chunk(dumps({"annotations": annotations})))
        self._explain(finish.stop, out)
        why = dumps(stop_fields(finish.stop, self._context))[1:-1]
        out += (self._prefix, b'{},"logprobs":null,', why, self._reason_end)
        usage = self._usage
        if self._guesses:
            usage = believed(usage, self._context, self._said)
        if self._context.include_usage and usage is not None:
            out += (self._base, b'],"usage":', dumps(write_usage(usage)), b"}\n\n")

    def _explain(self, stop: Stop, out: list[bytes]) -> None:
        """Why the model declined, unless it said so itself."""
        if stop.explanation and not self._refused:
            out.append(self._chunk(dumps({"refusal": stop.explanation})))

    def _annotations(self) -> list[Wire]:
        """All citations at once: the helpers can't join two lists of objects."""
        written: list[Wire] = []
        for cite in sorted(self._cited, key=lambda cite: cite.k):
            citation, first = cite.citation, self._first.get(cite.k)
            if citation.kind != "url" or first is None:
                continue
            end = self._grown[cite.k] if citation.end is None else citation.end
            annotation = write_annotation(citation, first + (citation.start or 0), first + end)
            written.append({"index": len(written), **annotation})
        return written
