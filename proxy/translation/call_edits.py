"""Calls of a reply that the client gets in another form, in another number, or not at all.

An edit says which calls it takes and what becomes of each once its arguments are whole. Streams and whole replies go
through the same edits; in a stream a call that is taken waits for its end, and what begins after it waits behind it, so
that the order of parts stays.
"""

from collections.abc import Iterable
from typing import Protocol

from proxy.canonical.events import Cite, Close, Delta, Event, Fail, Open
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, ReplyPart
from proxy.canonical.reply import Reply
from proxy.canonical.spelling import Spelling
from proxy.protocols.fields import is_object


class CallEdit(Protocol):
    """What is done with some of the calls of one reply. It sees every call, in order, once."""

    def takes(self, call: Call) -> bool:
        """Whether this call is edited. In a stream it has no arguments yet."""

    def edit(self, call: Call) -> list[Call]:
        """What stands in the place of a call that was taken, whose arguments are whole."""


def edit_reply(reply: Reply, edit: CallEdit) -> None:
    """Edit the calls of a whole reply, in place."""
    parts: list[ReplyPart] = []
    for part in reply.parts:
        if type(part) is Call and edit.takes(part):
            parts += edit.edit(part)
        else:
            parts.append(part)
    reply.parts = parts


class CallEditing:
    """A stage behind the backend's reader that does an edit in a stream. `k` stays dense."""

    __slots__ = ("_edit", "_held", "_next", "_numbers", "_pieces", "_waiting")

    def __init__(self, edit: CallEdit) -> None:
        self._edit = edit
        self._held: Open | None = None
        self._pieces: list[str] = []
        self._waiting: list[Event] = []
        self._numbers: dict[int, int] = {}  # of the parts that the client sees
        self._next = 0

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The events that may leave now."""
        out: list[Event] = []
        for event in events:
            if type(event) is Delta and self._held is None:
                self._grow(event, out)
            else:
                self._take(event, out)
        return out

    def _grow(self, event: Delta, out: list[Event]) -> None:
        number = self._numbers[event.k]
        out.append(event if number == event.k else Delta(number, event.text, event.logprobs))

    def _take(self, event: Event, out: list[Event]) -> None:
        match event:
            case Delta() | Open() | Close() | Cite() if self._held is not None and event.k >= self._held.k:
                self._hold(event, self._held, out)
            case Delta():
                self._grow(event, out)
            case Open():
                self._open(event, out)
            case Close():
                out.append(Close(self._numbers[event.k], event.native))
            case Cite():
                out.append(Cite(self._numbers[event.k], event.citation))
            case Fail():
                self._held = None
                self._waiting.clear()
                out.append(event)
            case _:
                out.append(event)

    def _open(self, event: Open, out: list[Event]) -> None:
        part = event.part
        if type(part) is Call and self._edit.takes(part):
            self._held = event
            self._pieces = [part.arguments]
            return
        self._numbers[event.k] = self._next
        out.append(event if event.k == self._next else Open(self._next, part))
        self._next += 1

    def _hold(self, event: Delta | Open | Close | Cite, held: Open, out: list[Event]) -> None:
        if event.k != held.k:
            self._waiting.append(event)
        elif type(event) is Delta:
            self._pieces.append(event.text)
        elif type(event) is Close and type(held.part) is Call:
            self._release(held.part, out)

    def _release(self, call: Call, out: list[Event]) -> None:
        call.arguments = "".join(self._pieces)
        for edited in self._edit.edit(call):
            arguments, edited.arguments = edited.arguments, ""
            out.append(Open(self._next, edited))
            if arguments:
                out.append(Delta(self._next, arguments))
            out.append(Close(self._next))
            self._next += 1
        waiting, self._waiting, self._held = self._waiting, [], None
        for event in waiting:
            self._take(event, out)


_AT: Path = ("reply",)

PARALLEL = "multi_tool_use.parallel"
_OF_FUNCTIONS = "functions."


class SplitParallel:
    """Some GPT models on other hosts make one call of a tool that nobody declared, with the real calls inside
    (mapping.md 17.1). It is split when each of them names a declared tool; otherwise it reaches the client as it is.
    """

    __slots__ = ("_spelling",)

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling

    def takes(self, call: Call) -> bool:
        """Whether it is such a call."""
        return call.name == PARALLEL

    def edit(self, call: Call) -> list[Call]:
        """The calls inside, or the call itself."""
        inner = _inner_calls(call.arguments)
        spelling = self._spelling
        if not inner or any(name not in spelling.declared for name, _ in inner):
            return [call]
        calls: list[Call] = []
        for number, (name, arguments) in enumerate(inner, 1):
            tool = spelling.tool(name)
            call_id = spelling.unique(spelling.encode(f"{call.id}-{number}"))
            calls.append(Call(call_id, tool.name, arguments, None, tool.kind, tool.namespace, tool.tool))
        return calls


def _inner_calls(arguments: str) -> list[tuple[str, str]]:
    """(the backend's name of the tool, arguments) of each call inside; none when anything is of another form."""
    try:
        value = loads(arguments)
    except NotJson:
        return []
    uses = value.get("tool_uses") if is_object(value) else None
    calls: list[tuple[str, str]] = []
    for use in uses if isinstance(uses, list) else ():
        name = use.get("recipient_name") if is_object(use) else None
        given = use.get("parameters") if is_object(use) else None
        if not isinstance(name, str) or not is_object(given):
            return []
        calls.append((name.removeprefix(_OF_FUNCTIONS), dumps(given).decode()))
    return calls


class OnlyFirst:
    """One call a reply: for clients that want no parallel calls of backends that can't be told (mapping.md 6.3), and
    for the deprecated form of Chat's replies, which has room for one.
    """

    __slots__ = ("_called", "_losses")

    def __init__(self, losses: LossReport) -> None:
        self._called = False
        self._losses = losses

    def takes(self, _call: Call) -> bool:
        """Whether another call came before."""
        called, self._called = self._called, True
        return called

    def edit(self, _call: Call) -> list[Call]:
        """Nothing: the history that comes back has one call only."""
        self._losses.approx(Rule.PARALLEL_ENFORCED, _AT)
        return []
