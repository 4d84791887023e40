"""Canonical parts as output items (responses.md 10), for whole replies and for streams alike.

An item is more than a part: text that follows text continues the same message and the same `output_text`, since
Messages splits one text where its citations are, and a refusal joins the message before it. Everything else makes an
item of its own.
"""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from proxy.canonical import jsontext
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.citations import write_citation
from proxy.protocols.responses.logprobs import write_logprobs
from proxy.protocols.responses.response_object import item_id
from proxy.protocols.responses.tables import HOSTED_ITEMS, ITEM_PREFIX, TYPED_CALLS, TYPED_ITEM
from proxy.protocols.untold_usage import bytes_of

Status = Literal["completed", "incomplete"]


@dataclass(slots=True)
class Content:
    """A content part of a message, `output_text` or `refusal`, while it grows."""

    type: str
    pieces: list[str] = field(default_factory=list)
    annotations: list[Wire] = field(default_factory=list)
    logprobs: list[object] = field(default_factory=list)

    def empty(self) -> Wire:
        """As it is announced."""
        return _content(self.type, "", [], [])

    def final(self) -> Wire:
        """As it ends."""
        return _content(self.type, self.text(), self.annotations, write_logprobs(self.logprobs, final=True))

    def text(self) -> str:
        """What has come of it."""
        return "".join(self.pieces)


def _content(content_type: str, text: str, annotations: list[Wire], logprobs: list[Wire]) -> Wire:
    if content_type == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": annotations, "logprobs": logprobs, "text": text}


@dataclass(slots=True)
class MessageItem:
    """A message. `open` counts the canonical parts in it that still grow, here and in the other items."""

    id: str
    index: int
    phase: str | None = None
    content: list[Content] = field(default_factory=list)
    open: int = 0
    done: bool = False

    def empty(self) -> Wire:
        """As it is announced."""
        return self._item("in_progress", [])

    def final(self, status: Status) -> Wire:
        """As it ends."""
        return self._item(status, [content.final() for content in self.content])

    def _item(self, status: str, content: list[Wire]) -> Wire:
        item: Wire = {"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"}
        if self.phase is not None:
            item["phase"] = self.phase
        return item


@dataclass(slots=True)
class ReasoningItem:
    """Reasoning, as raw text or as one summary part. `native` may bring encrypted content of this protocol."""

    id: str
    index: int
    raw: bool
    native: Wire | None = None
    pieces: list[str] = field(default_factory=list)
    open: int = 0
    done: bool = False

    def empty(self) -> Wire:
        """As it is announced."""
        return {"id": self.id, "type": "reasoning", "summary": []}

    def part(self, text: str) -> Wire:
        """The one part with a text."""
        return {"type": "reasoning_text" if self.raw else "summary_text", "text": text}

    def final(self, status: Status) -> Wire:
        """As it ends. OpenAI gives reasoning no status, so only an unusual one is told."""
        parts = [self.part("".join(self.pieces))] if self.pieces else []
        item: Wire = {"id": self.id, "type": "reasoning", "summary": [] if self.raw else parts}
        if self.raw:
            item["content"] = parts
        native = self.native or {}
        if native.get("type") == "reasoning" and isinstance(native.get("encrypted_content"), str):
            item["encrypted_content"] = native["encrypted_content"]
        if status == "incomplete":
            item["status"] = status
        return item


@dataclass(slots=True)
class CallItem:
    """A function or custom call."""

    id: str
    index: int
    call: Call
    pieces: list[str] = field(default_factory=list)
    open: int = 0
    done: bool = False

    @property
    def place(self) -> str:
        """The field of the arguments."""
        return "input" if self.call.kind == "custom" else "arguments"

    def empty(self) -> Wire:
        """As it is announced."""
        return self._item("in_progress", "")

    def text(self) -> str:
        """The arguments: a function without any has an empty object."""
        return "".join(self.pieces) or ("" if self.call.kind == "custom" else "{}")

    def final(self, status: Status) -> Wire:
        """As it ends."""
        return self._item(status, self.text())

    def _item(self, status: str, text: str) -> Wire:
        item_type = "custom_tool_call" if self.call.kind == "custom" else "function_call"
        item: Wire = {
            "id": self.id,
            "type": item_type,
            "status": status,
            self.place: text,
            "call_id": self.call.id,
            "name": self.call.name,
        }
        if self.call.namespace is not None:
            item["namespace"] = self.call.namespace
        return item


@dataclass(slots=True)
class TypedItem:
    """A call of a tool with a shape of its own, which is written when its arguments are whole."""

    id: str
    index: int
    call: Call
    type: str
    pieces: list[str] = field(default_factory=list)
    open: int = 0
    done: bool = False

    def empty(self) -> Wire:
        """As it is announced."""
        return self._item("in_progress", _BEGUN.get(self.type, {}))

    def final(self, status: Status) -> Wire:
        """As it ends. Arguments that are not an object, being cut short, read as an empty one."""
        try:
            arguments = jsontext.loads("".join(self.pieces))
        except jsontext.NotJson:
            arguments = {}
        return self._item(status, arguments if is_object(arguments) else {})

    def _item(self, status: str, arguments: Wire) -> Wire:
        _, place, _ = TYPED_CALLS[self.type]
        item: Wire = {"id": self.id, "type": self.type, "status": status, "call_id": self.call.id}
        match self.type:
            case "computer_call":
                # The older tool makes one action a call.
                single = {"action": arguments["action"]} if "action" in arguments else None
                return {**item, **(single or {"actions": arguments.get("actions", [])}), "pending_safety_checks": []}
            case "local_shell_call":
                item[place] = {"type": "exec", **arguments, "env": arguments.get("env") or {}}
            case "tool_search_call":
                item |= {"execution": "client", place: arguments}
            case _:
                item[place] = arguments
        return item


@dataclass(slots=True)
class HostedItem:
    """An item of a hosted tool in this protocol's own shape, under an id of this response."""

    id: str
    index: int
    native: Wire
    open: int = 0
    done: bool = False

    def empty(self) -> Wire:
        """As it is announced, with nothing of what it is to hold."""
        item = {**self.native, "id": self.id, **_HOSTED_BEGUN.get(str(self.native.get("type")), {})}
        item.pop("action", None)
        if "status" in item:
            item["status"] = "in_progress"
        return item

    def final(self, status: Status) -> Wire:
        """As it ends."""
        item = {**self.native, "id": self.id}
        if status == "incomplete" and "status" in item:
            item["status"] = status
        return item


# What an item has of its arguments when it is announced.
_BEGUN: dict[str, Wire] = {"shell_call": {"commands": []}, "local_shell_call": {"command": []}}
_HOSTED_BEGUN: dict[str, Wire] = {
    "code_interpreter_call": {"code": "", "outputs": None},
    "mcp_call": {"arguments": "", "output": None, "error": None},
}

OutputItem = MessageItem | ReasoningItem | CallItem | TypedItem | HostedItem


@dataclass(slots=True)
class Slot:
    """Where a canonical part grows: its pieces are the item's or the content part's. `base`: code points and `first`:
    pieces that the content part had before. `head`: bytes before the sequence number of each delta (streams only).
    """

    item: OutputItem
    pieces: list[str]
    content: Content | None = None
    content_index: int = 0
    base: int = 0
    first: int = 0
    new_item: bool = True
    new_content: bool = False
    citations: list[Citation] = field(default_factory=list)
    closed: bool = False
    head: bytes | None = None

    def close(self, native: Wire | None = None) -> list[Wire]:
        """The part is complete. Gives the annotations that its citations make, as only now its range is known."""
        self.closed = True
        self.item.open -= 1
        if native is not None and isinstance(self.item, ReasoningItem | HostedItem):
            self.item.native = native
        return self.annotate(self.citations)

    def annotate(self, citations: list[Citation]) -> list[Wire]:
        """Add the annotations of citations to the content part, and give them."""
        if self.content is None or not citations:
            return []
        length = sum(map(len, self.pieces[self.first :]))
        made = [write_citation(citation, self.base, length) for citation in citations]
        self.content.annotations += made
        return made


class Output:
    """The items of one answer, in order. `keep_raw`: raw reasoning is shown as such and not as a summary."""

    __slots__ = ("_keep_raw", "_last", "_response_id", "items")

    def __init__(self, response_id: str, *, keep_raw: bool) -> None:
        self.items: list[OutputItem] = []
        self._keep_raw = keep_raw
        self._response_id = response_id
        self._last: Slot | None = None

    def said(self) -> int:
        """The bytes of all texts and arguments, by which tokens are guessed where no backend tells them."""
        pieces: list[str] = []
        for item in self.items:
            if isinstance(item, MessageItem):
                pieces += [content.text() for content in item.content]
            elif not isinstance(item, HostedItem):
                pieces += item.pieces
        return sum(map(bytes_of, pieces))

    @property
    def ends_in_item(self) -> bool:
        """Whether the last part is shown, so that what cut the answer short cut the last item."""
        return self._last is not None

    def place(self, part: ReplyPart) -> Slot | None:
        """Where the next part goes; None for a part that this protocol can't show, which still parts two texts."""
        slot = self._slot(part)
        if slot is not None:
            slot.item.open += 1
            if slot.new_item:
                self.items.append(slot.item)
        self._last = slot
        return slot

    def _slot(self, part: ReplyPart) -> Slot | None:
        match part:
            case Text():
                return self._text(part)
            case Refusal():
                return self._refusal()
            case Reasoning():
                reasoning = ReasoningItem(*self._new("reasoning"), part.full and self._keep_raw, part.native)
                return Slot(reasoning, reasoning.pieces)
            case Call():
                return self._call(part)
            case HostedCall():
                item_type = part.native.get("type")
                if not isinstance(item_type, str) or item_type not in HOSTED_ITEMS:
                    return None
                return Slot(HostedItem(*self._new(item_type), part.native), [])
            case Opaque():
                return None
            case _:
                assert_never(part)

    def _new(self, item_type: str) -> tuple[str, int]:
        index = len(self.items)
        return item_id(self._response_id, index, ITEM_PREFIX.get(item_type, "item")), index

    def _text(self, part: Text) -> Slot:
        last = self._last
        if last is not None and last.closed and last.content is not None and last.content.type == "output_text":
            item, content = last.item, last.content
            if isinstance(item, MessageItem) and item.phase == part.phase:
                base = sum(map(len, content.pieces))
                index = last.content_index
                return Slot(item, content.pieces, content, index, base, len(content.pieces), new_item=False)
        return self._message(part.phase, Content("output_text"))

    def _refusal(self) -> Slot:
        last, content = self._last, Content("refusal")
        if last is not None and last.closed and isinstance(last.item, MessageItem):
            last.item.content.append(content)
            index = len(last.item.content) - 1
            return Slot(last.item, content.pieces, content, index, new_item=False, new_content=True)
        return self._message(None, content)

    def _message(self, phase: str | None, content: Content) -> Slot:
        message = MessageItem(*self._new("message"), phase, [content])
        return Slot(message, content.pieces, content, new_content=True)

    def _call(self, part: Call) -> Slot:
        # The arguments grow beside the part, which belongs to whoever made it.
        item: CallItem | TypedItem
        match part.kind:
            case "function":
                item = CallItem(*self._new("function_call"), part)
            case "custom":
                item = CallItem(*self._new("custom_tool_call"), part)
            case "typed":
                item_type = TYPED_ITEM.get(part.tool or "")
                if item_type is None:
                    item = CallItem(*self._new("function_call"), part)
                else:
                    item = TypedItem(*self._new(item_type), part, item_type)
            case _:
                assert_never(part.kind)
        return Slot(item, item.pieces)
