"""Free-text tools on backends that only know JSON tools (mapping.md 5.2).

The tool becomes a function with one string property, and back: the text inside the JSON string is decoded as it
arrives, at any cut, so that a client sees its free text grow and never an escape.
"""

import json
import re
from collections.abc import Iterable
from enum import Enum, auto

from proxy.canonical.events import Close, Delta, Event, Open
from proxy.canonical.jsontext import NotJson, loads, well_formed
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, Result
from proxy.canonical.reply import Reply
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.canonical.tools import CustomTool, FunctionTool, Schema, ToolRef

PROPERTY = "input"
SCHEMA: Schema = {"type": "object", "properties": {PROPERTY: {"type": "string"}}, "required": [PROPERTY]}


def are_native(target: Target) -> bool:
    """Whether the backend knows free-text tools itself."""
    return target.dialect.custom_tools


def as_function(tool: CustomTool, losses: LossReport) -> FunctionTool:
    """The function that stands for a free-text tool; a grammar is told in words, since nothing enforces it."""
    losses.approx(Rule.CUSTOM_TOOL, tool.at)
    lines = [tool.description] if tool.description else []
    if tool.grammar is not None:
        lines.append(f"```{tool.grammar.syntax}\n{tool.grammar.definition}\n```")
        lines.append(f"The value of `{PROPERTY}` must match this grammar.")
    return FunctionTool(
        tool.name,
        SCHEMA,
        "\n".join(lines) or None,
        namespace=tool.namespace,
        deferred=tool.deferred,
        stands_for_custom=True,
        extra=tool.extra,
        at=tool.at,
    )


def wrap_history(request: Request) -> None:
    """Earlier calls of free-text tools as those of the functions that stand for them, in place."""
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is Call and part.kind == "custom":
                part.kind, part.input, part.arguments = "function", {PROPERTY: part.arguments}, ""
            elif type(part) is Result and part.kind == "custom":
                part.kind = "function"


def wrap_choices(request: Request) -> None:
    """Choices of free-text tools as those of the functions that stand for them, in place."""
    policy = request.tool_policy
    policy.named = _as_function_ref(policy.named) if policy.named is not None else None
    if policy.allowed is not None:
        policy.allowed = [_as_function_ref(ref) for ref in policy.allowed]


def _as_function_ref(ref: ToolRef) -> ToolRef:
    return ToolRef("function", ref.name, ref.namespace) if ref.kind == "custom" else ref


def unwrap(arguments: str) -> str:
    """The free text inside whole arguments; arguments of any other form are the text themselves, never an error."""
    try:
        value = loads(arguments)
    except NotJson:
        return arguments
    if type(value) is dict and len(value) == 1 and type(value.get(PROPERTY)) is str:
        return well_formed(value[PROPERTY])
    return arguments


def unwrap_reply(reply: Reply) -> None:
    """The free text of the calls of a whole reply, in place."""
    for part in reply.parts:
        if type(part) is Call and part.kind == "custom":
            part.arguments = unwrap(part.arguments)


_PREFIX = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PREFIX_LIMIT = 64  # characters; a model that has not come to the text by then writes something else
_RUN = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
_HIGH_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")


class _Stage(Enum):
    PREFIX = auto()
    TEXT = auto()
    WHOLE = auto()  # not of the expected form: kept until the end
    AFTER = auto()


class StringDecoder:
    """Pieces of `{"input":"…"}` in, pieces of the decoded string out."""

    __slots__ = ("_held", "_stage")

    def __init__(self) -> None:
        self._held = ""
        self._stage = _Stage.PREFIX

    def feed(self, piece: str) -> str:
        """What can be told of the text now. An escape that is not whole yet is held back."""
        if self._stage is _Stage.AFTER:
            return ""
        self._held += piece
        if self._stage is _Stage.PREFIX:
            match = _PREFIX.match(self._held)
            if match is not None:
                self._stage = _Stage.TEXT
                self._held = self._held[match.end() :]
            elif len(self._held) > _PREFIX_LIMIT:
                self._stage = _Stage.WHOLE
        return self._text() if self._stage is _Stage.TEXT else ""

    def end(self) -> str:
        """What is left when the arguments end: all of them, if they never had the expected form."""
        if self._stage in (_Stage.PREFIX, _Stage.WHOLE):
            return unwrap(self._held)
        return _decoded(self._held) if self._stage is _Stage.TEXT else ""

    def _text(self) -> str:
        run = _RUN.match(self._held)
        whole = run[0] if run is not None else ""
        closed = self._held[len(whole) :].startswith('"')
        if closed:
            self._stage = _Stage.AFTER
            return _decoded(whole)
        # The second half of a surrogate pair may come with the next piece.
        half = _HIGH_HALF.search(whole)
        ready = whole[: half.start()] if half is not None else whole
        self._held = self._held[len(ready) :]
        return _decoded(ready)


def _decoded(escaped: str) -> str:
    if "\\" not in escaped:
        return well_formed(escaped)
    try:
        text = json.loads(f'"{escaped}"', strict=False)
    except ValueError:
        return well_formed(escaped)
    return well_formed(str(text))


class CustomCalls:
    """A stage behind the backend's reader: arguments of the functions that stand for free-text tools become text."""

    __slots__ = ("_decoders",)

    def __init__(self) -> None:
        self._decoders: dict[int, StringDecoder] = {}

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with decoded text in the deltas of such calls."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta() if event.k in self._decoders:
                    text = self._decoders[event.k].feed(event.text)
                    if text:
                        out.append(Delta(event.k, text))
                case Open() if isinstance(event.part, Call) and event.part.kind == "custom":
                    self._decoders[event.k] = StringDecoder()
                    if event.part.arguments:
                        first = self._decoders[event.k].feed(event.part.arguments)
                        event.part.arguments = first
                    out.append(event)
                case Close() if event.k in self._decoders:
                    text = self._decoders.pop(event.k).end()
                    if text:
                        out.append(Delta(event.k, text))
                    out.append(event)
                case _:
                    out.append(event)
        return out
