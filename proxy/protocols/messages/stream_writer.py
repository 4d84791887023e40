"""Write canonical events as a Messages stream (mapping.md 13.3 to 13.5, 13.8, 13.10).

Parts must come one at a time: a stage before this one sees to it. A block begins with its first visible character, so
that nothing empty reaches a client that would send it back; the constant bytes of a delta are fixed when its part
opens.
"""

from collections.abc import Iterable
from typing import assert_never

from proxy.canonical.errors import Error
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
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire
from proxy.protocols.messages.arguments import FREE_TEXT_BEGIN, FREE_TEXT_END
from proxy.protocols.messages.citations import write_citation
from proxy.protocols.messages.errors import write_error
from proxy.protocols.messages.reply_writer import call_block, message_object, native_thinking
from proxy.protocols.messages.stops import write_stop
from proxy.protocols.messages.tables import is_native
from proxy.protocols.messages.usage import write_counts, write_usage
from proxy.protocols.untold_usage import believed, bytes_of

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
COMMENT = b": ping\n\n"  # before the first event, whose id is the backend's to give (mapping.md 13.1)
_TAIL = b"}}\n\n"


def _frame(event: str, wire: Wire) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), dumps({"type": event, **wire}))


class StreamWriter:
    """Turns events into the client's bytes; one for each stream."""

    __slots__ = (
        "_calls",
        "_citations",
        "_context",
        "_dead",
        "_free",
        "_grown",
        "_head",
        "_index",
        "_k",
        "_lead",
        "_part",
        "_ping",
        "_refused",
        "_said",
        "_usage",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._usage: Usage | None = None
        self._index = 0
        self._k = -1
        self._part: Text | Refusal | Reasoning | Call | None = None
        self._head = b""  # of a delta of the current part; "" when it is not shown
        self._lead = b""  # the head of its next delta: the start of the block with it, until that has gone out
        self._free = b""  # the head in its place where free text is put into a JSON string
        self._grown: list[str] = []
        self._citations: list[Citation] = []
        self._said = 0  # bytes, as long as no usage is known
        self._calls = False
        self._refused = False
        self._ping = COMMENT
        self._dead = False

    def write(self, events: Iterable[Event]) -> bytes:
        """The bytes for these events, "" when there is nothing to tell."""
        out: list[bytes] = []
        for event in events:
            if self._dead:
                break
            match event:
                case Delta() if self._head and (text := event.text):
                    out += (self._lead, dumps(text), _TAIL)
                    self._lead = self._head
                    self._grown.append(text)
                case Delta():
                    out.append(self._free_text(event.text))
                case Open():
                    out.append(self._open(event))
                case Close():
                    out.append(self._close(event))
                case Cite():
                    self._cite(event)
                case Start():
                    out.append(self._start(event))
                case UsageUpdate():
                    self._usage = event.usage
                case Finish():
                    out.append(self._finish(event))
                case Fail():
                    out.append(self._fail(event.error))
                case Ping():
                    out.append(self._ping)
                case End():
                    self._dead = True
                case _:
                    assert_never(event)
        return b"".join(out)

    def _start(self, event: Start) -> bytes:
        self._ping = PING
        self._usage = event.usage
        message = message_object(event.id, event.model, self._context)
        message["usage"] = write_usage(believed(event.usage, self._context), event.service_tier)
        return _frame("message_start", {"message": message}) + PING

    # --- parts ---

    def _open(self, event: Open) -> bytes:
        part = event.part
        self._k = event.k
        self._grown = []
        self._citations = []
        self._head = self._lead = self._free = b""
        match part:
            case Text():
                self._begin(part, {"type": "text", "text": ""}, b"text_delta", b"text")
                return self._first(part.text)
            case Refusal():
                self._refused = True
                self._begin(part, {"type": "text", "text": ""}, b"text_delta", b"text")
                return self._first(part.text)
            case Reasoning():
                return self._open_reasoning(part)
            case Call():
                self._calls = True
                self._begin(part, call_block(part), b"input_json_delta", b"partial_json")
                start = self._lead.removesuffix(self._head)
                if part.kind == "custom":
                    self._head, self._lead, self._free = b"", b"", self._head
                    return start + self._free + dumps(FREE_TEXT_BEGIN) + _TAIL + self._free_text(part.arguments)
                self._lead = self._head
                return start + self._first(part.arguments)
            case HostedCall() | Opaque():
                self._part = None
                return self._whole(part.native) if is_native(part.native) else b""
            case _:
                assert_never(part)

    def _begin(self, part: Text | Refusal | Reasoning | Call, block: Wire, delta: bytes, field: bytes) -> None:
        self._part = part
        self._head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            % (self._index, delta, field)
        )
        self._lead = _frame("content_block_start", {"index": self._index, "content_block": block}) + self._head

    def _first(self, text: str) -> bytes:
        """What a part holds as it opens."""
        if not text:
            return b""
        lead, self._lead = self._lead, self._head
        self._grown.append(text)
        return lead + dumps(text) + _TAIL

    def _free_text(self, text: str) -> bytes:
        """A piece of the text of a free-text call, as it stands inside a JSON string; nothing of hidden parts."""
        if not text:
            return b""
        self._grown.append(text)
        return self._free + dumps(dumps(text)[1:-1].decode()) + _TAIL if self._free else b""

    def _open_reasoning(self, part: Reasoning) -> bytes:
        if part.redacted:
            self._part = None
            native = native_thinking(part)
            return self._whole(native) if native is not None else b""
        self._begin(part, {"type": "thinking", "thinking": "", "signature": ""}, b"thinking_delta", b"thinking")
        if self._context.show_reasoning is False:
            # The thinking is not wanted, but a signature may come yet.
            self._lead, self._head = self._lead.removesuffix(self._head), b""
            return b""
        return self._first(part.text)

    def _whole(self, native: Wire) -> bytes:
        """A block that the client gets in one piece, or as near to it as the vendor sends such blocks."""
        block, inner = native, b""
        if native.get("type") == "thinking":
            block, inner = {**native, "signature": ""}, self._signature(native)
        elif native.get("type") in ("server_tool_use", "mcp_tool_use") and native.get("input"):
            block = {**native, "input": {}}
            partial = dumps(native["input"]).decode()
            delta = {"type": "input_json_delta", "partial_json": partial}
            inner = _frame("content_block_delta", {"index": self._index, "delta": delta})
        start = _frame("content_block_start", {"index": self._index, "content_block": block})
        return start + inner + self._stop()

    def _stop(self) -> bytes:
        index = self._index
        self._index += 1
        return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index

    def _close(self, event: Close) -> bytes:
        part, self._part = self._part, None
        if part is None or event.k != self._k:
            return b""
        if self._usage is None:
            self._said += bytes_of("".join(self._grown))
        start = self._lead.removesuffix(self._head)
        begun = not start
        self._head = self._lead = b""
        signature = b""
        if isinstance(part, Reasoning):
            native = event.native or part.native
            if not begun and native is not None and native.get("type") == "redacted_thinking":
                return self._whole(native)
            signature = self._signature(native)
        if not begun and not signature:
            return b""
        if self._free:
            start = self._free + dumps(FREE_TEXT_END) + _TAIL
            self._free = b""
        return start + self._cited() + signature + self._stop()

    def _signature(self, native: Wire | None) -> bytes:
        signature = native.get("signature") if native is not None and native.get("type") == "thinking" else None
        if not signature or type(signature) is not str:
            return b""
        delta = {"type": "signature_delta", "signature": signature}
        return _frame("content_block_delta", {"index": self._index, "delta": delta})

    def _cite(self, event: Cite) -> None:
        """Keep a citation of the open text until its end, when what it marks is there. Later ones have no place."""
        if event.k == self._k and isinstance(self._part, Text):
            self._citations.append(event.citation)

    def _cited(self) -> bytes:
        """The citations of the closing text block."""
        out = b""
        for cited in self._citations:
            citation = write_citation(cited, "".join(self._grown))
            if citation is not None:
                delta = {"type": "citations_delta", "citation": citation}
                out += _frame("content_block_delta", {"index": self._index, "delta": delta})
        return out

    # --- the end ---

    def _finish(self, event: Finish) -> bytes:
        delta: Wire = {**write_stop(event.stop, self._calls, self._refused), "container": None}
        usage = write_counts(believed(self._usage, self._context, self._said))
        return _frame("message_delta", {"delta": delta, "usage": usage}) + _frame("message_stop", {})

    def _fail(self, error: Error) -> bytes:
        """Nothing may follow: a client that saw a stop would take half an answer for a whole one."""
        self._dead = True
        _, body = write_error(error, self._context.request_id)
        return b"event: error\ndata: %b\n\n" % dumps(body)
