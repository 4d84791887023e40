"""Output items into canonical parts, grown from deltas or read whole (responses.md 10, mapping.md 13.2).

A message opens one part for each of its content parts, a reasoning item and a call one each. Whatever is said twice, by
deltas, done events and the response at the end, is emitted once; what was only said at the end is emitted then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical.errors import Error, ErrorClass, InexactNumber, Reason
from proxy.canonical.events import Cite, Close, Delta, Event, Fail, Open, Start
from proxy.canonical.jsontext import dumps_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.spelling import Spelling, ToolName
from proxy.protocols.arguments import GrowingArguments, may_be_rounded
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.citations import read_citation
from proxy.protocols.responses.logprobs import read_logprobs
from proxy.protocols.responses.reasoning_text import join_texts, read_reasoning_text
from proxy.protocols.responses.tables import HOSTED_ITEMS, HOSTED_RESULTS, TYPED_CALLS, runs_at_service
from proxy.protocols.responses.usage import read_usage

CREATED_IN_MS = 10**11  # a larger `created_at` counts milliseconds
CREATED_LIMIT = 10**15
ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input"}


@dataclass(slots=True, eq=False)
class Growing:
    """An emitted part: what came of it so far, and how many citations. `arguments`: a function's, on their way."""

    k: int
    pieces: list[str] = field(default_factory=list)
    arguments: GrowingArguments | None = None
    cites: int = 0
    closed: bool = False


@dataclass(slots=True, eq=False)
class Item:
    """An item, announced or made up. `texts` and `refusals` are a message's parts by content index, `part` is that of
    a reasoning item or a call. `held`: arguments that came before the call's name. `raw`: which of its two texts a
    reasoning item shows; `index` and `mark`: the text that grows now, and where its pieces begin.
    """

    type: str
    id: str | None = None
    phase: str | None = None
    texts: dict[int, Growing] = field(default_factory=dict)
    refusals: dict[int, Growing] = field(default_factory=dict)
    part: Growing | None = None
    held: list[str] = field(default_factory=list)
    initial: str = ""
    raw: bool | None = None
    index: int = -1
    mark: int = 0
    done: bool = False


def item_of(wire: Wire) -> Item:
    """The item that a wire item announces."""
    item_type, item_id, phase = wire.get("type"), wire.get("id"), wire.get("phase")
    return Item(
        item_type if type(item_type) is str else "",
        item_id if type(item_id) is str else None,
        phase if type(phase) is str else None,
    )


def need_exact(wire: Wire) -> None:
    """Raise `InexactNumber` where the decoder may have rounded a number in what an item asks of the client."""
    item_type = wire.get("type")
    if type(item_type) is str and (item_type in ARGUMENTS or item_type in TYPED_CALLS):
        places = ("arguments", "input", "action", "actions", "operation")
        if any(may_be_rounded(wire.get(place)) for place in places):
            raise InexactNumber


class ItemReader:
    """Emits the parts of items. `called`, `spoke`, `refused`: a client's call, text, a refusal came."""

    __slots__ = (
        "_calls",
        "_k",
        "_speaking",
        "_spelling",
        "called",
        "emit",
        "failed",
        "losses",
        "refused",
        "response_id",
        "spoke",
        "started",
    )

    def __init__(self, emit: Callable[[Event], None], spelling: Spelling, losses: LossReport) -> None:
        self.emit = emit
        self.losses = losses
        self.response_id = ""
        self.started = False
        self.called = False
        self.spoke = False
        self.refused = False
        self.failed = False
        self._spelling = spelling
        self._calls = 0
        self._k = 0
        self._speaking: Item | None = None  # the message of the last text

    def start(self, response: Wire) -> None:
        """Emit Start, once. Some servers change the response's id later: the first one holds."""
        if self.started:
            return
        self.started = True
        response_id, model, tier = response.get("id"), response.get("model"), response.get("service_tier")
        self.response_id = response_id if type(response_id) is str else ""
        self.emit(
            Start(
                self.response_id,
                model if type(model) is str else "",
                _seconds(response.get("created_at")),
                read_usage(response),
                tier if type(tier) is str else None,
            )
        )

    # --- parts ---

    def _open(self, part: ReplyPart) -> Growing:
        self.start({})
        growing = Growing(self._k)
        self._k += 1
        self.emit(Open(growing.k, part))
        return growing

    def grow(self, growing: Growing, text: str, logprobs: list[object] | None = None) -> None:
        """Let an open part grow. What comes after its end is recorded and left out."""
        if growing.closed:
            self._mismatch(growing)
            return
        growing.pieces.append(text)
        if growing.arguments is not None:
            self._tell(growing, growing.arguments.feed(text))
        else:
            self.emit(Delta(growing.k, text, logprobs))

    def _tell(self, growing: Growing, text: str) -> None:
        if text:
            self.emit(Delta(growing.k, text))

    def _settle(self, growing: Growing, whole: str, start: int = 0) -> None:
        """Hold what a done event says against the pieces from `start` on, and emit what is missing."""
        grown = "".join(growing.pieces[start:])
        if not whole or whole == grown:
            return
        if whole.startswith(grown) and not growing.closed:
            self.grow(growing, whole[len(grown) :])
        else:
            self._mismatch(growing)

    def _mismatch(self, growing: Growing) -> None:
        self.losses.approx(Rule.STREAM_MISMATCH, ("output", growing.k))

    def _close(self, growing: Growing, native: Wire | None = None) -> None:
        if not growing.closed:
            growing.closed = True
            if growing.arguments is not None:
                self._tell(growing, growing.arguments.end())
            self.emit(Close(growing.k, native))

    # --- messages ---

    def text_part(self, item: Item, index: int) -> Growing:
        """The text part at a content index, opened when it is new."""
        growing = item.texts.get(index)
        if growing is None:
            self.spoke = True
            # Deltas that name neither a known item nor its place may well go on with the same message.
            apart = self._speaking not in (None, item) and item.id is not None
            self._speaking = item
            growing = item.texts[index] = self._open(Text("", phase=item.phase, apart=apart))
        return growing

    def refusal_part(self, item: Item, index: int) -> Growing:
        """The refusal at a content index, opened when it is new."""
        growing = item.refusals.get(index)
        if growing is None:
            self.refused = True
            growing = item.refusals[index] = self._open(Refusal(""))
        return growing

    def settle_text(self, item: Item, index: int, whole: object, logprobs: object = None) -> None:
        """The whole text of a part. An empty one opens nothing."""
        if index not in item.texts:
            self._whole_text(item, index, whole, logprobs)
        elif type(whole) is str:
            self._settle(item.texts[index], whole)

    def settle_refusal(self, item: Item, index: int, whole: object) -> None:
        """The whole text of a refusal."""
        if type(whole) is str and whole:
            self._settle(self.refusal_part(item, index), whole)

    def cite(self, growing: Growing, annotation: Wire, index: object = None) -> None:
        """An annotation of a text part, told once."""
        if type(index) is int and index < growing.cites:
            return
        growing.cites += 1
        self.emit(Cite(growing.k, read_citation(annotation)))

    def finish_content(self, item: Item, index: int, part: Wire) -> None:
        """A whole content part: settle and close it."""
        if part.get("type") == "refusal":
            self.settle_refusal(item, index, part.get("refusal"))
            if index in item.refusals:
                self._close(item.refusals[index])
        elif part.get("type") == "output_text":
            self.settle_text(item, index, part.get("text"), part.get("logprobs"))
            self._finish_text(item, index, part)

    def _whole_text(self, item: Item, index: int, text: object, logprobs: object) -> None:
        if type(text) is str and text:
            self.grow(self.text_part(item, index), text, read_logprobs(logprobs) if logprobs else None)

    def _finish_text(self, item: Item, index: int, part: Wire) -> None:
        growing = item.texts.get(index)
        if growing is None:
            return
        annotations = part.get("annotations")
        if type(annotations) is list:
            for annotation in annotations[growing.cites :]:
                if is_object(annotation):
                    self.cite(growing, annotation)
        self._close(growing)

    def _finish_message(self, item: Item, whole: Wire) -> None:
        content = whole.get("content")
        if type(content) is str:  # not the wire form, but some servers send it
            content = [{"type": "output_text", "text": content}]
        for index, part in enumerate(content if type(content) is list else []):
            if is_object(part):
                self.finish_content(item, index, part)
        self.close_open(item)

    # --- reasoning ---

    def grow_reasoning(self, item: Item, index: int, text: object, *, raw: bool) -> None:
        """A delta of one of the two texts. The kind that comes first is shown, the other one is not."""
        if type(text) is not str or not text or item.raw not in (None, raw):
            return
        if item.part is None:
            item.raw = raw
            item.part = self._open(Reasoning("", full=raw))
        elif index != item.index:
            self.grow(item.part, "\n\n")
        if index != item.index:
            item.index = index
            item.mark = len(item.part.pieces)
        self.grow(item.part, text)

    def settle_reasoning(self, item: Item, index: int, whole: object, *, raw: bool) -> None:
        """The whole of one summary or content part."""
        if type(whole) is not str or item.raw not in (None, raw):
            return
        if item.part is None or index > item.index:
            self.grow_reasoning(item, index, whole, raw=raw)
        elif index == item.index:
            self._settle(item.part, whole, item.mark)

    def _finish_reasoning(self, item: Item, whole: Wire) -> None:
        native = whole or None
        if item.part is not None:
            self._settle(item.part, join_texts(whole.get("content" if item.raw else "summary")))
        elif whole:
            shown, full = read_reasoning_text(whole)
            if shown:
                item.part = self._open(Reasoning("", full=full))
                self.grow(item.part, shown)
            else:
                item.part = self._open(Reasoning("", native=whole, redacted=True))
        if item.part is not None:
            self._close(item.part, native)

    # --- calls of the client's tools ---

    def grow_call(self, item: Item, text: object) -> None:
        """A delta of the arguments; kept back while the name is not known."""
        if type(text) is not str or not text:
            return
        if item.part is None:
            item.held.append(text)
        else:
            self.grow(item.part, text)

    def settle_call(self, item: Item, whole: object) -> None:
        """The whole arguments."""
        if type(whole) is not str:
            return
        if item.part is None:
            item.held = [whole] if whole else item.held
        else:
            self._settle(item.part, whole)

    def _open_call(self, item: Item, wire: Wire) -> None:
        name, call_id = wire.get("name"), wire.get("call_id")
        if type(name) is not str or not name:
            return
        tool = self._spelling.tool(name)
        if item.type == "custom_tool_call":
            tool = ToolName(tool.name, tool.namespace, "custom")
        item.part = self._open(self._call(call_id, tool))
        if item.type == "function_call":
            item.part.arguments = GrowingArguments()
        for text in item.held:
            self.grow(item.part, text)

    def _call(self, call_id: object, tool: ToolName) -> Call:
        self.start({})
        self.called = True
        own = call_id if type(call_id) is str else None
        spelled = self._spelling.call_id(own, self.response_id, self._calls)
        self._calls += 1
        return Call(spelled, tool.name, kind=tool.kind, namespace=tool.namespace, tool=tool.tool)

    def _finish_call(self, item: Item, whole: Wire) -> None:
        arguments = whole.get(ARGUMENTS[item.type])
        text = dumps_exact(arguments).decode() if is_object(arguments) else arguments
        if item.part is None:
            self._open_call(item, whole)
        if item.part is None:
            self._fail_nameless()
            return
        final = text if type(text) is str and text else "" if item.part.pieces else item.initial
        self._settle(item.part, final)
        self._close(item.part)

    def _fail_nameless(self) -> None:
        self.failed = True
        message = "The backend called a tool without naming it."
        self.emit(Fail(Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)))

    def _finish_typed_call(self, item: Item, whole: Wire) -> None:
        """A call of a tool whose arguments have a shape of their own: they come whole."""
        tool, place, _ = TYPED_CALLS[item.type]
        arguments = whole.get(place)
        if tool == "computer":
            single = whole.get("action")
            actions = arguments if type(arguments) is list else [single] if is_object(single) else []
            arguments = {"actions": actions}
        if not is_object(arguments):
            arguments = {}
        if tool == "local_shell":
            arguments = {name: value for name, value in arguments.items() if name != "type"}
        item.part = self._open(self._call(whole.get("call_id"), ToolName(tool, None, "typed", tool)))
        if whole.get("pending_safety_checks"):  # no other vendor makes such checks
            self.losses.drop(Rule.TYPED_TOOL, ("output", item.part.k, "pending_safety_checks"))
        self.grow(item.part, dumps_exact(arguments).decode())
        self._close(item.part)

    # --- whole items ---

    def close_open(self, item: Item) -> None:
        """Close what is still open of an item."""
        for growing in (*item.texts.values(), *item.refusals.values()):
            self._close(growing)
        if item.part is not None:
            self._close(item.part)

    def begin(self, item: Item, wire: Wire) -> None:
        """An item was announced. Only calls open now: they have all that opening needs."""
        if item.type in ARGUMENTS:
            arguments = wire.get(ARGUMENTS[item.type])
            item.initial = arguments if type(arguments) is str else ""
            self._open_call(item, wire)

    def finish(self, item: Item, whole: Wire) -> None:
        """An item is complete. `whole` is its final form, empty when the backend did not repeat it."""
        item.done = True
        match item.type:
            case "message":
                self._finish_message(item, whole)
            case "reasoning":
                self._finish_reasoning(item, whole)
            case "function_call" | "custom_tool_call":
                self._finish_call(item, whole)
            case _ if not whole:
                return
            case item_type if item_type in TYPED_CALLS and not runs_at_service(whole):
                self._finish_typed_call(item, whole)
            case _:
                self._whole_item(item, whole)

    def _whole_item(self, item: Item, whole: Wire) -> None:
        tool = "shell" if item.type in ("shell_call", "shell_call_output") else HOSTED_ITEMS.get(item.type)
        part: ReplyPart
        if tool is not None:
            part = HostedCall(tool, whole, item.id or "", is_result=item.type in HOSTED_RESULTS)
        else:
            part = Opaque(item.type, whole)
        self._close(self._open(part), whole)


def _seconds(created: object) -> int | None:
    if (type(created) is not int and type(created) is not float) or not 0 <= created < CREATED_LIMIT:
        return None
    return int(created / 1000 if created > CREATED_IN_MS else created)
