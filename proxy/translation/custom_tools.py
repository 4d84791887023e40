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
from proxy.translation.validation import may_match

PROPERTY = "input"
_AT = ("reply",)
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
        grammar=tool.grammar,
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


# What the text of a tool, by its name and group, is to match: regular expressions that nobody else sees to.
Patterns = dict[tuple[str, str | None], str]


def patterns_of(request: Request) -> Patterns:
    """Those of the functions that stand for free-text tools. To be asked while tools have the client's names."""
    return {
        (tool.name, tool.namespace): tool.grammar.definition
        for tool in request.tools
        if type(tool) is FunctionTool and tool.grammar is not None and tool.grammar.syntax == "regex"
    }


def unwrap_reply(reply: Reply, patterns: Patterns, losses: LossReport) -> None:
    """The free text of the calls of a whole reply, in place: what a stream of it would show."""
    for part in reply.parts:
        if type(part) is Call and part.kind == "custom":
            text = _FreeText(part, patterns)
            part.arguments = text.feed(part.arguments) + text.end(losses)


_PREFIX = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PREFIX_LIMIT = 64  # characters; a model that has not come to the text by then writes something else
# What can be decoded, up to the end of the string or to an escape of which more may come: half a pair is one with what
# follows it.
_RUN = re.compile(
    r"""(?:
        [^"\\]+
      | \\[^u]
      | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
      | \\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{0,3}[^0-9a-fA-F])
      | \\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])
    )*""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([^u]))", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Stage(Enum):
    PREFIX = auto()
    TEXT = auto()
    WHOLE = auto()  # not of the expected form: kept until the end
    AFTER = auto()


class StringDecoder:
    """Pieces of `{"input":"…"}` in, pieces of the decoded string out; what they add up to does not depend on the cuts.

    What follows the string can change nothing: its text has gone out. Arguments of any other form are the text
    themselves, never an error. `odd`, once all has come: they were not exactly one string.
    """

    __slots__ = ("_held", "_stage", "odd")

    def __init__(self) -> None:
        self._held = ""
        self._stage = _Stage.PREFIX
        self.odd = False

    def feed(self, piece: str) -> str:
        """What can be told of the text now. An escape that is not whole yet is held back."""
        self._held += piece
        if self._stage is _Stage.PREFIX:
            match = _PREFIX.match(self._held, 0, _PREFIX_LIMIT)
            if match is not None:
                self._stage = _Stage.TEXT
                self._held = self._held[match.end() :]
            elif len(self._held) >= _PREFIX_LIMIT:
                self._stage = _Stage.WHOLE
        if self._stage is _Stage.TEXT:
            return self._text()
        if self._stage is _Stage.AFTER:
            self._held = self._held.strip()[:2]
        return ""

    def end(self) -> str:
        """What is left when the arguments end: all of them, if they never had the expected form."""
        if self._stage is _Stage.AFTER:
            self.odd = self._held != "}"
            return ""
        if self._stage is _Stage.TEXT:
            self.odd = True
            return _decoded(self._held)
        text = _only_string(self._held)
        self.odd = text is None
        return self._held if text is None else text

    def _text(self) -> str:
        run = _RUN.match(self._held)
        ready = run[0] if run is not None else ""
        self._held = self._held[len(ready) :]
        if self._held.startswith('"'):
            self._stage = _Stage.AFTER
            self._held = self._held[1:].strip()[:2]
        return _decoded(ready)


def _only_string(arguments: str) -> str | None:
    """The free text inside whole arguments; None when they have any other form."""
    try:
        value = loads(arguments)
    except NotJson:
        return None
    if type(value) is dict and len(value) == 1 and type(value.get(PROPERTY)) is str:
        return well_formed(value[PROPERTY])
    return None


def _decoded(escaped: str) -> str:
    if "\\" not in escaped:
        return well_formed(escaped)
    try:
        return well_formed(str(json.loads(f'"{escaped}"', strict=False)))
    except ValueError:  # an escape that JSON does not know stays as it is
        return well_formed(_ESCAPE.sub(_unescaped, escaped))


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[0])


class _FreeText:
    """The arguments of one call on their way to be its text."""

    __slots__ = ("_decoder", "_pattern", "_pieces")

    def __init__(self, call: Call, patterns: Patterns) -> None:
        self._decoder = StringDecoder()
        self._pattern = patterns.get((call.name, call.namespace))
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        text = self._decoder.feed(piece)
        if self._pattern is not None:
            self._pieces.append(text)
        return text

    def end(self, losses: LossReport) -> str:
        """What is left. Records what was odd, and a text that is not what was asked for: it has been paid for."""
        text = self._decoder.end()
        if self._decoder.odd:
            losses.approx(Rule.BAD_ARGS, _AT)
        if self._pattern is not None and not may_match("".join([*self._pieces, text]), self._pattern):
            losses.drop(Rule.CUSTOM_TOOL, _AT)
        return text


class CustomCalls:
    """A stage behind the backend's reader: arguments of the functions that stand for free-text tools become text."""

    __slots__ = ("_losses", "_patterns", "_texts")

    def __init__(self, patterns: Patterns, losses: LossReport) -> None:
        self._patterns = patterns
        self._losses = losses
        self._texts: dict[int, _FreeText] = {}

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with decoded text in the deltas of such calls."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta() if event.k in self._texts:
                    if text := self._texts[event.k].feed(event.text):
                        out.append(Delta(event.k, text))
                case Open() if isinstance(event.part, Call) and event.part.kind == "custom":
                    begun = self._texts[event.k] = _FreeText(event.part, self._patterns)
                    if event.part.arguments:
                        event.part.arguments = begun.feed(event.part.arguments)
                    out.append(event)
                case Close() if event.k in self._texts:
                    if text := self._texts.pop(event.k).end(self._losses):
                        out.append(Delta(event.k, text))
                    out.append(event)
                case _:
                    out.append(event)
        return out
