"""Put the fragments of tool calls together (mapping.md 13.2, 17.1).

OpenAI numbers calls and names each once. Others leave out the number or give every call the same one, leave out the
id or repeat it, say the name in every fragment or in pieces, and write arguments as an object.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.canonical import jsontext
from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.parts import Call, CallKind, Reasoning
from proxy.canonical.spelling import Spelling
from proxy.protocols.arguments import GrowingArguments, value_text
from proxy.protocols.chat.tables import CALL_SIGNATURE
from proxy.protocols.fields import Wire, is_object


@dataclass(slots=True)
class Fragment:
    """One entry of `tool_calls`, cleaned of what means nothing: empty strings, nulls, the id "null"."""

    index: int | None
    id: str | None
    name: str | None
    arguments: str
    whole: bool  # the arguments came as an object, so they are complete
    kind: CallKind
    signature: Wire | None


@dataclass(slots=True)
class _CallState:
    """A call that is being put together. `k` is None until it is opened; `arguments` is all that came, `growing` the
    way of a function's arguments to the client. `signature`
    waits to be told, under the id that the client knows.
    """

    id: str | None = None
    told_id: str = ""
    signature: Wire | None = None
    name: str = ""
    kind: CallKind = "function"
    k: int | None = None
    arguments: list[str] = field(default_factory=list)
    growing: GrowingArguments | None = None
    whole: bool = False


class CallFragments:
    """Takes fragments and emits the events of calls. `begin` makes room for a part and gives its number."""

    __slots__ = ("_begin", "_by_id", "_by_index", "_calls", "_emit", "_response_id", "_spelling", "_split_names")

    def __init__(
        self, emit: Callable[[Event], None], begin: Callable[[], int], spelling: Spelling, *, split_names: bool
    ) -> None:
        self._emit = emit
        self._begin = begin
        self._spelling = spelling
        self._split_names = split_names
        self._response_id = ""
        self._calls: list[_CallState] = []
        self._by_index: dict[int, _CallState] = {}
        self._by_id: dict[str, _CallState] = {}

    def take(self, fragment: Fragment, response_id: str) -> None:
        """Take one fragment."""
        self._response_id = response_id
        call = self._call_of(fragment)
        if call.k is None:
            call.id = call.id or fragment.id
            call.kind = fragment.kind
            if fragment.name is not None:
                call.name = call.name + fragment.name if self._split_names else call.name or fragment.name
        call.signature = fragment.signature or call.signature
        if call.whole:
            return
        call.whole = fragment.whole
        text = fragment.arguments
        if text:
            call.arguments.append(text)
        if call.k is not None:
            if text:
                self._tell(call.k, text if call.growing is None else call.growing.feed(text))
        elif call.name and (text or not self._split_names):
            self._open(call)

    def finish(self) -> bool:
        """Open what still waits for its name to be complete; False when a call has arguments but no name."""
        for call in self._calls:
            if call.k is None and call.name:
                self._open(call)
        return not any(call.k is None and call.arguments for call in self._calls)

    def close(self) -> None:
        """Close all calls, in the order in which they were opened."""
        for call in self._calls:
            self._tell_signature(call)
        opened = {call.k: call.growing for call in self._calls if call.k is not None}
        for k, growing in sorted(opened.items()):
            if growing is not None:
                self._tell(k, growing.end())
            self._emit(Close(k))

    @property
    def opened(self) -> bool:
        """Whether any call has a name."""
        return any(call.k is not None for call in self._calls)

    @property
    def cut(self) -> bool:
        """Whether the arguments of a call have begun and are no whole JSON by now. Free text may end anywhere."""
        return any(call.kind == "function" and not _is_whole("".join(call.arguments)) for call in self._calls)

    def _call_of(self, fragment: Fragment) -> _CallState:
        """The call that a fragment belongs to; a new one if it begins one."""
        call = self._known(fragment)
        if call is not None and not _begins_another(call, fragment):
            return call
        if self._split_names and self._calls and self._calls[-1].k is None and self._calls[-1].name:
            self._open(self._calls[-1])  # its name is complete: the next call has begun
        call = _CallState()
        self._calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.id is not None:
            self._by_id[fragment.id] = call
        return call

    def _known(self, fragment: Fragment) -> _CallState | None:
        if fragment.index is not None:
            return self._by_index.get(fragment.index)
        if fragment.id is not None:
            return self._by_id.get(fragment.id)
        return self._calls[-1] if self._calls else None

    def _open(self, call: _CallState) -> None:
        tool = self._spelling.tool(call.name)
        position = self._calls.index(call)
        call.told_id = self._spelling.call_id(call.id, self._response_id, position)
        self._tell_signature(call)
        call.k = self._begin()
        part = Call(
            call.told_id,
            tool.name,
            kind="custom" if call.kind == "custom" else tool.kind,
            namespace=tool.namespace,
            tool=tool.tool,
        )
        self._emit(Open(call.k, part))
        text = "".join(call.arguments)
        if call.kind == "function":
            call.growing = GrowingArguments()
            text = call.growing.feed(text)
        self._tell(call.k, text)

    def _tell_signature(self, call: _CallState) -> None:
        """What Gemini wants back with a call, as a part of its own: other protocols' calls have no place for it."""
        if call.signature is None or not call.told_id:
            return
        native: Wire = {"id": call.told_id, CALL_SIGNATURE: call.signature}
        call.signature = None
        k = self._begin()
        self._emit(Open(k, Reasoning("", native=native, redacted=True, field=CALL_SIGNATURE)))
        self._emit(Close(k, native))

    def _tell(self, k: int, text: str) -> None:
        if text:
            self._emit(Delta(k, text))


def _begins_another(call: _CallState, fragment: Fragment) -> bool:
    """Whether a fragment that points to `call` is the beginning of another one."""
    if fragment.name is None:
        return False
    if fragment.id is not None and fragment.id != call.id:
        return call.id is not None
    # Neither numbers nor ids to go by: what follows complete arguments is the next call's, not the name said again.
    if not call.name or fragment.index not in (None, 0):
        return False
    if fragment.name == call.name and not fragment.arguments.strip():
        return False
    return _is_object("".join(call.arguments))


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return type(jsontext.loads(text)) is dict
    except jsontext.NotJson:
        return False


def _is_whole(text: str) -> bool:
    if not text.strip():
        return True  # a call without arguments
    try:
        jsontext.loads_exact(text)
    except jsontext.NotJson:
        return False
    return True


def read_fragment(wire: Wire, exact: bool) -> Fragment:
    """One entry of `tool_calls`. Raises `InexactNumber` like `value_text`."""
    custom = wire.get("custom")
    kind: CallKind = "function" if custom is None or not is_object(custom) else "custom"
    called = custom if kind == "custom" else wire.get("function")
    if type(called) is not dict:
        called = {}
    index = wire.get("index")
    call_id = wire.get("id")
    name = called.get("name")
    signature = wire.get(CALL_SIGNATURE)
    arguments = called.get("arguments" if kind == "function" else "input")
    whole = arguments is not None and type(arguments) is not str
    return Fragment(
        index if type(index) is int else None,
        call_id if type(call_id) is str and call_id not in ("", "null") else None,
        name if type(name) is str and name else None,
        value_text(arguments, exact=exact) if whole else arguments or "",
        whole,
        kind,
        signature if signature and is_object(signature) else None,
    )
