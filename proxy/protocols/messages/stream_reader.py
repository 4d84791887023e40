"""Read a Messages stream into canonical events (mapping.md 13.2, "M decoder").

Blocks are counted by the order of their start, whatever index a server gives them. What arrives piece by piece but
can only be understood whole (server tools, compaction) is opened when its block stops.
"""

from collections.abc import Callable

from proxy.canonical.errors import InexactNumber
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
from proxy.canonical.fold import broken_stream
from proxy.canonical.jsontext import NotJson, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, ReplyPart, Text
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect
from proxy.canonical.usage import Usage
from proxy.protocols.arguments import GrowingArguments, may_be_rounded
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.messages.citations import read_citation
from proxy.protocols.messages.errors import read_error
from proxy.protocols.messages.reply_reader import NAMELESS, ReplyBlocks, bad_gateway, text_of
from proxy.protocols.messages.stops import read_stop
from proxy.protocols.messages.usage import merged, read_tier, read_usage

Emit = Callable[[Event], None]


class _Block:
    """A block that has started and not stopped. `k` is None while it is held back; `pieces` is what has come."""

    __slots__ = ("arguments", "initial", "k", "kind", "native", "part", "pieces", "signature")

    def __init__(self, k: int | None, kind: str, part: ReplyPart, native: Wire) -> None:
        self.k = k
        self.kind = kind
        self.part = part
        self.native = native
        self.initial = ""
        self.arguments = GrowingArguments()
        self.pieces: list[str] = []
        self.signature = ""


class StreamReader:
    """Feed it the wire events in order, then call `end`."""

    __slots__ = (
        "_blocks",
        "_emit",
        "_k",
        "_losses",
        "_newest",
        "_open",
        "_over",
        "_started",
        "_stop",
        "_text",
        "_text_index",
        "_told",
        "_usage",
        "exact",
    )

    def __init__(self, emit: Emit, spelling: Spelling, dialect: Dialect, losses: LossReport) -> None:
        self._emit = emit
        self._losses = losses
        self._told = False
        self._blocks = ReplyBlocks(spelling, "", signed=not dialect.unsigned_thinking)
        self._open: dict[object, _Block] = {}
        self._newest: _Block | None = None
        self._text_index: object = None  # of the newest block, while it is an open text; None for any other
        self._text = -1  # the number of its part
        self._k = 0
        self._usage: Wire = {}
        self._stop: Wire | None = None
        self._started = False
        self._over = False
        self.exact = False  # whether long integers were decoded as they are

    text_key = b'"text":'
    text_mark = b""

    def grows(self, k: int) -> bool:
        """Whether `k` is the text part that grows now."""
        return not self._over and self._text_index is not None and k == self._text

    def grown(self, texts: list[str]) -> None:
        """Nothing has to be remembered of a text."""

    def feed(self, wire: object, event_name: str) -> None:
        """One event's data; `event_name` counts only where the data has no type.

        Raises `InexactNumber`: the same event is then to be fed again, decoded exactly.
        """
        if self._over:
            return
        if type(wire) is not dict:
            self._fail_with("holds an event that is not an object")
            return
        event_type = wire.get("type") or event_name
        if event_type == "content_block_delta" and self._text_index is not None:
            delta = wire.get("delta")
            if wire.get("index") == self._text_index and type(delta) is dict and delta.get("type") == "text_delta":
                text = delta.get("text")
                if text and type(text) is str:  # by far the most frequent event
                    self._emit(Delta(self._text, text))
                return
        on = ON.get(event_type) if type(event_type) is str else None
        if on is not None:
            on(self, wire)
        elif not event_type and wire.get("error") is not None:
            _on_error(self, wire)
        elif event_type and type(event_type) is str:
            self._lose(event_type)

    def done(self) -> None:
        """`[DONE]`, which Messages does not have: a stop that was seen is enough to end by."""
        if self._stop is not None:
            self._finish()

    def end(self) -> None:
        """The input is over (mapping.md 13.6)."""
        if self._over:
            return
        if self._stop is not None:
            self._finish()
        else:
            self._over = True
            self._emit(Fail(broken_stream()))
            self._emit(End())

    @property
    def stopped(self) -> bool:
        """Whether a stop reason came; the end mark may still follow."""
        return self._stop is not None

    @property
    def usage(self) -> Usage | None:
        """What has been told by now."""
        return read_usage(self._usage)

    def _fail_with(self, problem: str) -> None:
        self._over = True
        self._emit(Fail(bad_gateway(problem)))
        self._emit(End())

    def _lose(self, what: str) -> None:
        """Record an event or a delta that nobody knows, once, however many come."""
        if not self._told:
            self._told = True
            self._losses.drop(Rule.UNKNOWN_FIELD, ("stream", what))

    def _start(self, message: Wire) -> None:
        self._started = True
        self._blocks.response_id = text_of(message, "id")
        usage = message.get("usage")
        self._usage = merged({}, usage)
        told = read_usage(usage)
        self._emit(
            Start(
                self._blocks.response_id,
                text_of(message, "model"),
                usage=told if told is not None and told.prompt else None,
                service_tier=read_tier(usage),
            )
        )

    def _finish(self) -> None:
        if self._over:
            return
        if not self._started:
            self._fail_with("ends before it has begun")
            return
        for block in list(self._open.values()):
            self._close(block)
        self._open.clear()
        self._over = True
        if (usage := self.usage) is not None:
            self._emit(UsageUpdate(usage))
        self._emit(Finish(read_stop(self._stop or {}, calls=self._blocks.calls > 0), read_tier(self._usage)))
        self._emit(End())

    def _opened(self, part: ReplyPart) -> int:
        k = self._k
        self._k += 1
        self._emit(Open(k, part))
        return k

    def _close(self, block: _Block) -> None:
        part, k = block.part, block.k
        if k is None:
            self._emit(Close(self._opened(_whole(block))))
            return
        if isinstance(part, Reasoning):
            thinking = "".join(block.pieces)
            native: Wire = {**block.native, "thinking": thinking}
            if self._blocks.signed:
                native["signature"] = block.signature
            else:
                native.pop("signature", None)
            self._emit(Close(k, native))
            return
        if isinstance(part, Call):
            rest = block.arguments.end() if block.pieces else block.initial
            if rest:
                self._emit(Delta(k, rest))
        self._emit(Close(k))


def _whole(block: _Block) -> ReplyPart:
    """A held back block with all that came for it."""
    native, part = block.native, block.part
    if block.pieces:
        text = "".join(block.pieces)
        try:
            native = {**native, "input": loads_exact(text)}
        except NotJson:
            native = {**native, "input": {}}
    if isinstance(part, HostedCall):
        return HostedCall(part.tool, native, part.id, part.is_result)
    if isinstance(part, Opaque):
        return Opaque(part.type, native)
    return part


# --- events ---


def _on_delta(reader: StreamReader, wire: Wire) -> None:
    delta = wire.get("delta")
    if type(delta) is not dict:
        return
    index = wire.get("index")
    block = reader._open.get(index) if type(index) is int else None
    if block is None:
        block = reader._newest
        if block is None:
            reader._fail_with("holds a delta of a content block that never began")
            return
    kind = delta.get("type")
    grow = GROW.get(kind, _grow_other) if type(kind) is str else _grow_other
    grow(reader, block, delta)


def _on_message_start(reader: StreamReader, wire: Wire) -> None:
    if reader._started:
        return
    message = wire.get("message")
    reader._start(message if is_object(message) else {})


def _on_block_start(reader: StreamReader, wire: Wire) -> None:
    native = wire.get("content_block")
    if not is_object(native):
        reader._fail_with("starts a content block without saying what it is")
        return
    if not reader.exact and may_be_rounded(native.get("input")):
        raise InexactNumber
    if not reader._started:
        reader._start({})
    index = wire.get("index")
    key: object = index if type(index) is int else f"block {reader._k}"
    earlier = reader._open.pop(key, None)
    if earlier is not None:
        reader._close(earlier)
    part = reader._blocks.part(native)
    if isinstance(part, Call) and not part.name:
        reader._fail_with(NAMELESS)
    else:
        reader._open[key] = reader._newest = block = _begin(reader, native, part)
        reader._text_index = None
        if block.kind == "text" and block.k is not None and type(index) is int:
            reader._text_index, reader._text = index, block.k


def _begin(reader: StreamReader, native: Wire, part: ReplyPart) -> _Block:
    """Open a block's part, and pass on what its start already holds. What comes whole is held back."""
    block = _Block(None, text_of(native, "type"), part, native)
    if isinstance(part, Text):
        text, citations = part.text, part.citations
        part.text, part.citations = "", None
        block.k = reader._opened(part)
        if text:
            reader._emit(Delta(block.k, text))
        for citation in citations or ():
            reader._emit(Cite(block.k, citation))
    elif isinstance(part, Call):
        block.initial, part.arguments = part.arguments, ""
        block.k = reader._opened(part)
    elif isinstance(part, Reasoning) and not part.redacted:
        text, part.text, part.native = part.text, "", None
        block.k = reader._opened(part)
        block.signature = text_of(native, "signature")
        if text:
            block.pieces.append(text)
            reader._emit(Delta(block.k, text))
    return block


def _on_block_stop(reader: StreamReader, wire: Wire) -> None:
    index = wire.get("index")
    key: object = index
    if type(index) is not int or index not in reader._open:
        key = next((key for key, block in reader._open.items() if block is reader._newest), None)
    block = reader._open.pop(key, None)
    if block is not None:
        reader._close(block)
        if block is reader._newest:
            reader._newest = reader._text_index = None


def _on_message_delta(reader: StreamReader, wire: Wire) -> None:
    delta = wire.get("delta")
    if is_object(delta) and type(delta.get("stop_reason")) is str and delta["stop_reason"]:
        reader._stop = delta
    reader._usage = merged(reader._usage, wire.get("usage"))


def _on_message_stop(reader: StreamReader, _wire: Wire) -> None:
    reader._finish()


def _on_ping(reader: StreamReader, _wire: Wire) -> None:
    reader._emit(Ping())


def _on_error(reader: StreamReader, wire: Wire) -> None:
    reader._over = True
    reader._emit(Fail(read_error(200, wire, "")))
    reader._emit(End())


ON: dict[str, Callable[[StreamReader, Wire], None]] = {
    "content_block_delta": _on_delta,
    "content_block_start": _on_block_start,
    "content_block_stop": _on_block_stop,
    "message_start": _on_message_start,
    "message_delta": _on_message_delta,
    "message_stop": _on_message_stop,
    "ping": _on_ping,
    "error": _on_error,
}


# --- deltas; a known one that does not fit its block is ignored, as the vendor's SDKs do ---


def _grow_text(reader: StreamReader, block: _Block, delta: Wire) -> None:
    text = delta.get("text")
    if block.kind == "text" and block.k is not None and text and type(text) is str:
        reader._emit(Delta(block.k, text))


def _grow_arguments(reader: StreamReader, block: _Block, delta: Wire) -> None:
    text = text_of(delta, "partial_json")
    if not text:
        return
    if block.k is None:
        if isinstance(block.part, HostedCall):
            block.pieces.append(text)
    elif block.kind == "tool_use":
        block.pieces.append("")  # only that something came; the text itself is not kept
        text = block.arguments.feed(text)
        if text:
            reader._emit(Delta(block.k, text))


def _grow_thinking(reader: StreamReader, block: _Block, delta: Wire) -> None:
    if block.kind == "thinking" and block.k is not None and (text := text_of(delta, "thinking")):
        block.pieces.append(text)
        reader._emit(Delta(block.k, text))


def _grow_signature(_reader: StreamReader, block: _Block, delta: Wire) -> None:
    """Sent once by the vendor. Others send pieces, or the whole again and again."""
    signature = text_of(delta, "signature")
    block.signature = signature if signature.startswith(block.signature) else block.signature + signature


def _grow_citations(reader: StreamReader, block: _Block, delta: Wire) -> None:
    citation = delta.get("citation")
    if block.kind == "text" and block.k is not None and is_object(citation):
        reader._emit(Cite(block.k, read_citation(citation)))


def _grow_other(reader: StreamReader, block: _Block, delta: Wire) -> None:
    """`compaction_delta` and deltas of the future belong into a block that is kept as it is."""
    if block.k is None:
        block.native = {**block.native, **{name: value for name, value in delta.items() if name != "type"}}
    else:
        reader._lose(text_of(delta, "type"))


GROW: dict[str, Callable[[StreamReader, _Block, Wire], None]] = {
    "text_delta": _grow_text,
    "input_json_delta": _grow_arguments,
    "thinking_delta": _grow_thinking,
    "signature_delta": _grow_signature,
    "citations_delta": _grow_citations,
}
