"""A tool whose arguments are the answer, for schemas that the backend can't enforce on text (mapping.md 9.3).

The client never learns of it: the call becomes text as it grows, the turn ends as text does, and in the history the
answer stays plain text.
"""

from collections.abc import Iterable

from proxy.canonical.events import Cite, Close, Delta, End, Event, Fail, Finish, Open, Ping, Start, UsageUpdate
from proxy.canonical.parts import Call, Text
from proxy.canonical.request import Request
from proxy.canonical.spelling import joined
from proxy.canonical.stop import Stop
from proxy.canonical.tools import FunctionTool, HostedTool, Schema

NAME = "respond"
DESCRIPTION = "Give the answer to the user. Its input is the whole answer."


def answer_tool(request: Request, schema: Schema, description: str | None) -> FunctionTool:
    """The tool, under a name that no other tool of the request or of its history has."""
    taken = {joined(tool.name, tool.namespace) for tool in request.tools if isinstance(tool, FunctionTool)}
    taken |= {tool.name for tool in request.tools if not isinstance(tool, FunctionTool | HostedTool)}
    taken |= {part.name for turn in request.turns for part in turn.parts if isinstance(part, Call)}
    name, number = NAME, 2
    while name in taken:
        name, number = f"{NAME}_{number}", number + 1
    return FunctionTool(name, schema, f"{DESCRIPTION} {description}" if description else DESCRIPTION)


class Answering:
    """A stage of the reply: the call of the answer tool as text.

    Words before the call are left out, since the answer is to be JSON alone; so they wait until it shows whether the
    call comes. What comes behind it is ignored.
    """

    __slots__ = ("_answer", "_called", "_held", "_next", "_numbers", "_tool")

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._answer: int | None = None
        self._called = False  # a tool of the client's own
        self._held: list[Event] | None = None
        self._numbers: dict[int, int] = {}  # of the parts that the client sees
        self._next = 0

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The events that may leave now; `k` is dense again."""
        out: list[Event] = []
        for event in events:
            match event:
                case Start() | UsageUpdate() | Ping() | End():
                    out.append(event)
                case Open() if self._answer is None:
                    self._open(event, out)
                case Finish():
                    self._release(out)
                    out.append(self._finish(event))
                case Fail():
                    self._release(out)
                    out.append(event)
                case _ if self._held is not None:
                    self._held.append(event)
                case _:
                    self._write(event, out)
        return out

    def _open(self, event: Open, out: list[Event]) -> None:
        part = event.part
        if isinstance(part, Call):
            if part.name == self._tool and part.kind == "function" and part.namespace is None:
                self._answer = event.k
                self._release(out, words=False)
                self._write(Open(event.k, Text(part.arguments)), out)
                return
            self._called = True
            self._release(out)
        elif isinstance(part, Text) and not self._called and self._held is None:
            self._held = []
        if self._held is not None:
            self._held.append(event)
        else:
            self._write(event, out)

    def _release(self, out: list[Event], *, words: bool = True) -> None:
        """Let go of what waited, with the words in it or without."""
        held, self._held = self._held or (), None
        for event in held:
            if words or not (isinstance(event, Open) and isinstance(event.part, Text)):
                self._write(event, out)

    def _write(self, event: Event, out: list[Event]) -> None:
        """Pass on what belongs to a part that the client sees."""
        match event:
            case Open() if self._answer is None or event.k <= self._answer:
                self._numbers[event.k] = self._next
                out.append(Open(self._next, event.part))
                self._next += 1
            case Delta() if event.k in self._numbers:
                out.append(Delta(self._numbers[event.k], event.text, event.logprobs))
            case Cite() if event.k in self._numbers:
                out.append(Cite(self._numbers[event.k], event.citation))
            case Close() if event.k in self._numbers:
                out.append(Close(self._numbers[event.k], event.native))
            case _:
                pass

    def _finish(self, event: Finish) -> Finish:
        if self._answer is None or event.stop.kind not in ("tool", "end"):
            return event
        return Finish(Stop("tool" if self._called else "end", native=event.stop.native), event.service_tier)
