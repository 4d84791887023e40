"""Write a stream of Responses events (responses.md 13, mapping.md 13.3, 13.7, 13.12).

SDKs look items and parts up on each delta, so both are announced before they grow, several items may be open at once,
and the last event repeats the done items exactly. The newest item is finished only when something else begins or the
answer ends: until then more text may join it, or the answer may turn out to be cut.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from proxy.canonical.errors import Error
from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Ping, Start, UsageUpdate
from proxy.canonical.jsontext import Fragment, dumps
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire
from proxy.protocols.responses.errors import failure_of
from proxy.protocols.responses.logprobs import write_logprobs
from proxy.protocols.responses.output_items import (
    CallItem,
    Content,
    HostedItem,
    MessageItem,
    Output,
    OutputItem,
    ReasoningItem,
    Slot,
    Status,
    TypedItem,
)
from proxy.protocols.responses.response_object import ResponseHead, head_of, response_object, status_of
from proxy.protocols.untold_usage import believed

PING = b": ping\n\n"  # a comment: Node's helper throws on events that it does not know
DONE = b"data: [DONE]\n\n"  # of Open Responses; OpenAI sends none
END = b"}\n\n"


class Stages(NamedTuple):
    """What a hosted tool is seen to do: the stem of the events of its text and the field of that, its stage of work."""

    text: tuple[str, str]
    working: str
    fails: bool


HOSTED_STAGES = {
    "web_search_call": Stages(("", ""), "searching", fails=False),
    "code_interpreter_call": Stages(("code_interpreter_call_code", "code"), "interpreting", fails=False),
    "mcp_call": Stages(("mcp_call_arguments", "arguments"), "", fails=True),
}


class StreamWriter:
    """Canonical events in, the client's bytes out."""

    __slots__ = ("_context", "_dumped", "_head", "_out", "_output", "_sequence", "_slots", "_tier", "_usage")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._out: list[bytes] = []
        self._sequence = context.sequence
        self._head: ResponseHead | None = None
        self._output = Output("", keep_raw=not context.summary_requested)
        self._slots: list[Slot | None] = []  # by the number of the part
        self._dumped: dict[int, bytes] = {}  # the done items by output index
        self._usage: Usage | None = None
        self._tier: str | None = None

    def write(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""
        slots, out = self._slots, self._out
        for event in events:
            match event:
                case Delta():
                    slot, text = slots[event.k], event.text
                    if slot is None or slot.head is None or not text or event.logprobs:
                        self._delta(event)
                        continue
                    slot.pieces.append(text)
                    out += (slot.head, b"%d" % self._sequence, b',"delta":', dumps(text), END)
                    self._sequence += 1
                case Open():
                    self._open(event.part)
                case Close():
                    self._close(event)
                case Cite():
                    self._cite(event)
                case Start():
                    self._start(event)
                case UsageUpdate():
                    self._usage = event.usage
                case Finish():
                    self._finish(event)
                case Fail():
                    self._fail(event.error)
                case Ping():
                    self._out.append(PING)
                case End():
                    pass
                case _:
                    assert_never(event)
        written = b"".join(out)
        out.clear()
        return written

    def _event(self, event_type: str, fields: Wire) -> None:
        wire = {"type": event_type, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        self._out += (b"event: ", event_type.encode(), b"\ndata: ", dumps(wire), b"\n\n")

    # --- parts that grow ---

    def _delta(self, event: Delta) -> None:
        slot, text = self._slots[event.k], event.text
        if slot is None or not text:
            return
        slot.pieces.append(text)
        if slot.head is None:
            self._begin_text(slot)
            if slot.head is None:  # the arguments of a typed call are written at its end
                return
        if event.logprobs and slot.content is not None:
            slot.content.logprobs += event.logprobs
            logprobs = write_logprobs(event.logprobs, final=False)
            self._event("response.output_text.delta", {**_in_content(slot), "delta": text, "logprobs": logprobs})
            return
        self._out += (slot.head, b"%d" % self._sequence, b',"delta":', dumps(text), END)
        self._sequence += 1

    def _begin_text(self, slot: Slot) -> None:
        """The first text of a part: announce the part of a reasoning item, fix the bytes that all deltas share."""
        item = slot.item
        match item:
            case MessageItem():
                if slot.content is not None and slot.content.type == "refusal":
                    slot.head = _delta_head("response.refusal.delta", _in_content(slot))
                else:
                    slot.head = _delta_head("response.output_text.delta", {**_in_content(slot), "logprobs": []})
            case ReasoningItem():
                kind = "reasoning_text" if item.raw else "reasoning_summary_text"
                self._event(_reasoning_part_event(item, "added"), {**_in_reasoning(item), "part": item.part("")})
                slot.head = _delta_head(f"response.{kind}.delta", _in_reasoning(item))
            case CallItem():
                slot.head = _delta_head(f"response.{_call_stem(item)}.delta", _in_item(item))
            case TypedItem() | HostedItem():
                pass
            case _:
                assert_never(item)

    def _open(self, part: ReplyPart) -> None:
        last = self._output.items[-1] if self._output.items else None
        slot = self._output.place(part)
        self._slots.append(slot)
        if last is not None and last.open == 0 and (slot is None or slot.item is not last):
            self._finish_item(last, "completed")
        if slot is None:
            return
        item = slot.item
        if slot.new_item:
            self._event("response.output_item.added", {"output_index": item.index, "item": item.empty()})
        if isinstance(item, HostedItem):
            self._begin_hosted(item)
        if slot.new_content and slot.content is not None and isinstance(item, MessageItem):
            if slot.content_index > 0:
                self._finish_content(item, slot.content_index - 1)
            self._event("response.content_part.added", {**_in_content(slot), "part": slot.content.empty()})
        text = _initial_text(part)
        if text:
            self._delta(Delta(len(self._slots) - 1, text))

    def _begin_hosted(self, item: HostedItem) -> None:
        """The events by which a hosted tool is seen to work (responses.md 13.2); nobody saw it in a whole reply."""
        kind, place = str(item.native.get("type")), _in_item(item)
        stages = HOSTED_STAGES.get(kind)
        if stages is None or self._context.after_the_fact:
            return
        self._event(f"response.{kind}.in_progress", place)
        stem, field = stages.text
        text = item.native.get(field) if field else None
        if isinstance(text, str) and text:
            self._event(f"response.{stem}.delta", {**place, "delta": text})
            self._event(f"response.{stem}.done", {**place, field: text})
        if stages.working:
            self._event(f"response.{kind}.{stages.working}", place)

    def _end_hosted(self, item: HostedItem) -> None:
        kind = str(item.native.get("type"))
        stages = HOSTED_STAGES.get(kind)
        if stages is None or self._context.after_the_fact or item.native.get("status") == "incomplete":
            return
        failed = stages.fails and item.native.get("status") == "failed"
        self._event(f"response.{kind}.{'failed' if failed else 'completed'}", _in_item(item))

    def _cite(self, event: Cite) -> None:
        slot = self._slots[event.k]
        if slot is None or slot.item.done:
            return
        if slot.closed:
            self._annotations(slot, slot.annotate([event.citation]))
        else:
            slot.citations.append(event.citation)

    def _annotations(self, slot: Slot, annotations: list[Wire]) -> None:
        if slot.content is None:
            return
        first = len(slot.content.annotations) - len(annotations)
        for number, annotation in enumerate(annotations, first):
            fields = {**_in_content(slot), "annotation_index": number, "annotation": annotation}
            self._event("response.output_text.annotation.added", fields)

    def _close(self, event: Close) -> None:
        slot = self._slots[event.k]
        if slot is None or slot.closed:
            return
        self._annotations(slot, slot.close(event.native))
        if slot.item.open == 0 and slot.item is not self._output.items[-1]:
            self._finish_item(slot.item, "completed")

    # --- items that end ---

    def _finish_item(self, item: OutputItem, status: Status) -> None:
        if item.done:
            return
        item.done = True
        match item:
            case MessageItem():
                self._finish_content(item, len(item.content) - 1)
            case ReasoningItem():
                self._finish_reasoning(item)
            case CallItem():
                self._finish_call(item)
            case HostedItem():
                self._end_hosted(item)
            case TypedItem():
                pass
            case _:
                assert_never(item)
        dumped = dumps(item.final(status))
        self._dumped[item.index] = dumped
        self._event("response.output_item.done", {"output_index": item.index, "item": Fragment(dumped)})

    def _finish_content(self, item: MessageItem, index: int) -> None:
        content = item.content[index]
        place: Wire = {**_in_item(item), "content_index": index}
        final = content.final()
        self._event(*_text_done(content, place, final))
        self._event("response.content_part.done", {**place, "part": final})

    def _finish_reasoning(self, item: ReasoningItem) -> None:
        if not item.pieces:
            return
        text, place = "".join(item.pieces), _in_reasoning(item)
        kind = "reasoning_text" if item.raw else "reasoning_summary_text"
        self._event(f"response.{kind}.done", {**place, "text": text})
        self._event(_reasoning_part_event(item, "done"), {**place, "part": item.part(text)})

    def _finish_call(self, item: CallItem) -> None:
        stem, text = _call_stem(item), item.text()
        if text and not item.pieces:
            self._event(f"response.{stem}.delta", {**_in_item(item), "delta": text})
        self._event(f"response.{stem}.done", {**_in_item(item), item.place: text})

    # --- the response ---

    def _start(self, event: Start) -> None:
        self._head = head = head_of(self._context, event.id, event.model, event.created)
        self._output = Output(head.id, keep_raw=not self._context.summary_requested)
        self._usage, self._tier = event.usage, event.service_tier
        begun = Fragment(dumps(response_object(head, "in_progress", [])))
        self._event("response.created", {"response": begun})
        self._event("response.in_progress", {"response": begun})

    def _finish(self, event: Finish) -> None:
        stop = event.stop
        if stop.classifier and stop.explanation:
            self._open(Refusal(stop.explanation))
            self._close(Close(len(self._slots) - 1))
        status, reason = status_of(stop)
        items = self._output.items
        for item in items:
            cut = status == "incomplete" and item is items[-1]
            self._finish_item(item, "incomplete" if cut else "completed")
        self._tier = event.service_tier or self._tier
        self._usage = believed(self._usage, self._context, self._output.said())
        self._terminal(status, reason=reason)

    def _fail(self, error: Error) -> None:
        for item in self._output.items:
            self._finish_item(item, "completed" if item.open == 0 else "incomplete")
        told, kept = failure_of(error)
        self._event("error", {"error": told})
        self._terminal("failed", error=kept)

    def _terminal(self, status: str, *, reason: str | None = None, error: Wire | None = None) -> None:
        head = self._head if self._head is not None else head_of(self._context)
        output: list[object] = [Fragment(self._dumped[item.index]) for item in self._output.items]
        response = response_object(head, status, output, reason=reason, error=error, usage=self._usage, tier=self._tier)
        self._event(f"response.{status}", {"response": response})
        if self._context.responses_done:
            self._out.append(DONE)


def _initial_text(part: ReplyPart) -> str:
    match part:
        case Text() | Refusal() | Reasoning():
            return part.text
        case Call():
            return part.arguments
        case HostedCall() | Opaque():
            return ""
        case _:
            assert_never(part)


def _in_item(item: OutputItem) -> Wire:
    return {"item_id": item.id, "output_index": item.index}


def _in_content(slot: Slot) -> Wire:
    return {**_in_item(slot.item), "content_index": slot.content_index}


def _in_reasoning(item: ReasoningItem) -> Wire:
    return {**_in_item(item), "content_index" if item.raw else "summary_index": 0}


def _reasoning_part_event(item: ReasoningItem, stage: str) -> str:
    return f"response.{'content_part' if item.raw else 'reasoning_summary_part'}.{stage}"


def _call_stem(item: CallItem) -> str:
    return "custom_tool_call_input" if item.call.kind == "custom" else "function_call_arguments"


def _text_done(content: Content, place: Wire, final: Wire) -> tuple[str, Wire]:
    if content.type == "refusal":
        return "response.refusal.done", {**place, "refusal": final["refusal"]}
    return "response.output_text.done", {**place, "text": final["text"], "logprobs": final["logprobs"]}


def _delta_head(event_type: str, fields: Wire) -> bytes:
    """The bytes of a delta event up to its sequence number."""
    constant = dumps({"type": event_type, **fields})
    return b'event: %b\ndata: %b,"sequence_number":' % (event_type.encode(), constant[:-1])
