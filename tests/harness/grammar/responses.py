"""The checker of a Responses stream: lifecycle here, items and parts in `responses_items`."""

from tests.harness.grammar.findings import End, Findings, Shape
from tests.harness.grammar.responses_items import Items
from tests.harness.grammar.responses_tables import (
    FIELDS,
    OUR_FIELDS,
    PART_EVENTS,
    PIECES,
    RESPONSE,
    TERMINAL_STATUS,
    USAGE,
)
from tests.harness.wire import EventStream, Json


def check_responses(stream: EventStream, expect_end: End, findings: Findings) -> None:
    checker = _ResponsesChecker(findings)
    for event in stream.events:
        findings.always(event.named == event.data.get("type"), f"event {event.named} has type {event.data.get('type')}")
        checker.event(event.data)
    checker.end(expect_end)


class _ResponsesChecker:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._items = Items(findings)
        self._seen: list[str] = []
        self._sequence = -1
        self._response_id: str | None = None

    def event(self, wire: Json) -> None:
        findings, kind = self._findings, str(wire.get("type"))
        self._count(wire)
        self._place(kind)
        self._seen.append(kind)
        if kind in FIELDS:
            if not findings.has_shape(wire, FIELDS[kind], kind, always=True):
                return
            findings.has_shape(wire, OUR_FIELDS.get(kind, {}), kind)
        else:
            findings.ours(False, f"{kind} is no event that we write")
        stem, _, stage = kind.rpartition(".")
        if kind == "response.output_item.added":
            self._items.announce(wire)
        elif kind == "response.output_item.done":
            self._items.finish(wire)
        elif stem in PART_EVENTS:
            self._items.part(wire, PART_EVENTS[stem], stage)
        elif stem in PIECES:
            self._items.piece(wire, stem, PIECES[stem], stage)
        elif "item_id" in wire:
            self._items.of(wire)
        elif "response" in wire:
            self._response(kind, wire["response"])
        elif kind == "error":
            told = wire["error"] if isinstance(wire.get("error"), dict) else wire
            findings.has_shape(told, {"message": str, "code": (str, None)}, "error", always=True)
            findings.ours(told is not wire, "the error event is flat")

    def _count(self, wire: Json) -> None:
        number = wire.get("sequence_number")
        if not isinstance(number, int) or number <= self._sequence:
            self._findings.always(False, f"sequence_number {number} after {self._sequence}")
            return
        self._findings.ours(number == self._sequence + 1, f"sequence_number {number} after {self._sequence}")
        self._sequence = number

    def _place(self, kind: str) -> None:
        always, ours = self._findings.always, self._findings.ours
        always(kind.startswith("response.") or kind == "error", f"{kind} is no event of this protocol")
        if not self._seen:
            always(kind in ("response.created", "error"), f"{kind} is the first event")
        last = self._seen[-1] if self._seen else ""
        always(last not in TERMINAL_STATUS, f"{kind} after the end")
        if last == "error":
            ours(kind == "response.failed", f"{kind} after the error")
        elif kind in ("response.created", "response.in_progress"):
            ours(kind not in self._seen, f"a second {kind}")
        if kind == "response.in_progress":
            ours(last == "response.created", f"response.in_progress after {last}")

    def _response(self, kind: str, response: Json) -> None:
        findings = self._findings
        findings.has_shape(response, RESPONSE, kind)
        self._response_id = self._response_id or response.get("id")
        findings.ours(response.get("id") == self._response_id, "the response's id changes")
        if kind not in TERMINAL_STATUS:
            begun: Shape = {"status": ("in_progress", "queued"), "output": [], "usage": None, "error": None}
            findings.has_shape(response, begun, kind)
            return
        findings.ours(response.get("status") == TERMINAL_STATUS[kind], f"{kind} has status {response.get('status')}")
        if response.get("usage") is not None and findings.has_shape(response["usage"], USAGE, "usage"):
            findings.has_shape(response["usage"]["input_tokens_details"], {"cached_tokens": int}, "usage")
            findings.has_shape(response["usage"]["output_tokens_details"], {"reasoning_tokens": int}, "usage")
        if kind == "response.incomplete":
            findings.has_shape(response.get("incomplete_details"), {"reason": str}, "incomplete_details", always=True)
        if kind == "response.failed":
            findings.has_shape(response.get("error"), {"code": str, "message": str}, "error", always=True)
            self._items.all_finished(always=False)
        else:
            self._items.compare_output(response.get("output"))

    def end(self, expect_end: End) -> None:
        always = self._findings.always
        last = self._seen[-1] if self._seen else "nothing"
        if expect_end == "error":
            self._findings.ours(last == "response.failed", f"a failed stream ends with {last}")
            always(last in ("response.failed", "error"), f"no error is told: the stream ends with {last}")
            always("error" in self._seen or last != "error", "no error is told")
            self._findings.ours("error" in self._seen, "no error event before response.failed")
        else:
            always(last in ("response.completed", "response.incomplete"), f"the stream ends with {last}")
            always("error" not in self._seen, "an error is told")
