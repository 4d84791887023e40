"""The grammar of a Messages stream."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.harness.grammar.findings import End, Findings, Shape
from tests.harness.wire import EventStream, Json

State: TypeAlias = Literal["new", "between", "block", "stopped", "ended", "failed"]

# What may follow what. `between` is between blocks, `stopped` after the stop reason.
ORDER: dict[tuple[State, str], State] = {
    ("new", "message_start"): "between",
    ("between", "content_block_start"): "block",
    ("block", "content_block_delta"): "block",
    ("block", "content_block_stop"): "between",
    ("between", "message_delta"): "stopped",
    ("stopped", "message_stop"): "ended",
    ("new", "error"): "failed",
    ("between", "error"): "failed",
    ("block", "error"): "failed",
    ("between", "ping"): "between",
    ("block", "ping"): "block",
    ("stopped", "ping"): "stopped",
}
ORDER_PASSED_THROUGH: dict[tuple[State, str], State] = {
    ("new", "ping"): "new",
    ("stopped", "message_delta"): "stopped",
    ("stopped", "error"): "failed",
}
EVENT_TYPES = {event for _, event in ORDER}

STOP_REASONS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
}


@dataclass(frozen=True)
class Block:
    """How a block starts and which deltas it may have."""

    start: Shape
    deltas: frozenset[str] = field(default_factory=frozenset)


BLOCKS: dict[str, Block] = {
    "text": Block({"text": ""}, frozenset({"text_delta", "citations_delta"})),
    "thinking": Block({"thinking": "", "signature": ""}, frozenset({"thinking_delta", "signature_delta"})),
    "redacted_thinking": Block({"data": str}),
    "tool_use": Block({"id": str, "name": str, "input": {}}, frozenset({"input_json_delta"})),
    "server_tool_use": Block({"id": str, "name": str, "input": {}}, frozenset({"input_json_delta"})),
    "web_search_tool_result": Block({"tool_use_id": str, "content": (list, dict)}),
    "compaction": Block({}, frozenset({"compaction_delta"})),
}
DELTAS: dict[str, Shape] = {
    "text_delta": {"text": str},
    "thinking_delta": {"thinking": str},
    "signature_delta": {"signature": str},
    "input_json_delta": {"partial_json": str},
    "citations_delta": {"citation": dict},
    "compaction_delta": {"content": (str, None)},
}

MESSAGE: Shape = {"content": [], "usage": dict}
OUR_MESSAGE: Shape = {
    "id": str,
    "type": "message",
    "role": "assistant",
    "model": str,
    "stop_reason": None,
    "stop_sequence": None,
}
USAGE: Shape = {
    "input_tokens": int,
    "cache_read_input_tokens": int,
    "cache_creation_input_tokens": int,
    "output_tokens": int,
}
ERROR: Shape = {"type": str, "message": str}


def check_messages(stream: EventStream, expect_end: End, findings: Findings) -> None:
    checker = _MessagesChecker(findings)
    for event in stream.events:
        findings.always(event.named == event.data.get("type"), f"event {event.named} has type {event.data.get('type')}")
        checker.event(event.data)
    checker.end(expect_end)


class _MessagesChecker:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._state: State = "new"
        self._block_types: list[str] = []
        self._deltas_of_block: list[str] = []
        self._stop_reason: str | None = None

    def event(self, wire: Json) -> None:
        kind = wire.get("type")
        if kind not in EVENT_TYPES:
            self._findings.ours(False, f"{kind} is no event of this protocol")
            return
        following = ORDER.get((self._state, kind))
        self._findings.ours(following is not None, f"{kind} while {self._state}")
        following = following or ORDER_PASSED_THROUGH.get((self._state, kind))
        self._findings.always(following is not None, f"{kind} while {self._state}")
        if following is None:
            return
        if kind in ON_EVENT:
            ON_EVENT[kind](self, wire)
        self._state = following

    def end(self, expect_end: End) -> None:
        if expect_end == "error":
            self._findings.always(self._state == "failed", "no error is told")
            self._findings.always(self._stop_reason is None, "an answer that failed has a stop_reason")
            return
        self._findings.always(self._state != "failed", "an error is told")
        self._findings.always(self._state == "ended", f"the stream ends while {self._state}")

    def message_start(self, wire: Json) -> None:
        message = wire.get("message")
        self._findings.has_shape(message, OUR_MESSAGE, "message_start")
        if self._findings.has_shape(message, MESSAGE, "message_start", always=True):
            self._findings.has_shape(message["usage"], USAGE, "message_start usage")

    def content_block_start(self, wire: Json) -> None:
        findings = self._findings
        shape = {"index": int, "content_block": dict}
        if not findings.has_shape(wire, shape, "content_block_start", always=True):
            return
        expected = len(self._block_types)
        findings.always(wire["index"] == expected, f"block {wire['index']} starts where {expected} should")
        kind = wire["content_block"].get("type", "")
        findings.ours(kind in BLOCKS, f"a block of type {kind!r}")
        if kind in BLOCKS:
            findings.has_shape(wire["content_block"], BLOCKS[kind].start, f"the start of a {kind} block")
        self._block_types.append(kind)
        self._deltas_of_block = []

    def content_block_delta(self, wire: Json) -> None:
        findings = self._findings
        if not findings.has_shape(wire, {"index": int, "delta": dict}, "content_block_delta", always=True):
            return
        findings.always(wire["index"] == len(self._block_types) - 1, "a delta for a block that is not open")
        block, kind = self._block_types[-1], wire["delta"].get("type")
        findings.ours(kind in DELTAS, f"a delta of type {kind!r}")
        findings.has_shape(wire["delta"], DELTAS.get(kind, {}), str(kind), always=True)
        if block in BLOCKS and kind in DELTAS:
            findings.always(kind in BLOCKS[block].deltas, f"{kind} in a {block} block")
        findings.ours("signature_delta" not in self._deltas_of_block, "a delta follows the signature")
        self._deltas_of_block.append(kind)

    def content_block_stop(self, wire: Json) -> None:
        open_block = len(self._block_types) - 1
        self._findings.always(wire.get("index") == open_block, "a block is stopped that is not open")

    def message_delta(self, wire: Json) -> None:
        findings = self._findings
        if not findings.has_shape(wire, {"delta": dict, "usage": dict}, "message_delta", always=True):
            return
        findings.has_shape(wire["usage"], USAGE, "message_delta usage")
        findings.has_shape(wire["delta"], {"stop_reason": str, "stop_sequence": (str, None)}, "message_delta")
        self._stop_reason = wire["delta"].get("stop_reason") or self._stop_reason
        findings.ours(self._stop_reason in STOP_REASONS, f"stop_reason {self._stop_reason!r}")
        calls = "tool_use" in self._block_types
        findings.ours(calls or self._stop_reason != "tool_use", "stop_reason tool_use without a call")
        findings.ours(not (calls and self._stop_reason == "end_turn"), "stop_reason end_turn in spite of calls")

    def message_stop(self, wire: Json) -> None:
        self._findings.always(self._stop_reason is not None, "message_stop without a stop_reason before it")

    def error(self, wire: Json) -> None:
        self._findings.has_shape(wire.get("error"), ERROR, "error", always=True)


ON_EVENT = {
    "message_start": _MessagesChecker.message_start,
    "content_block_start": _MessagesChecker.content_block_start,
    "content_block_delta": _MessagesChecker.content_block_delta,
    "content_block_stop": _MessagesChecker.content_block_stop,
    "message_delta": _MessagesChecker.message_delta,
    "message_stop": _MessagesChecker.message_stop,
    "error": _MessagesChecker.error,
}
