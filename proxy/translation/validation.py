"""Whether an answer keeps to the form that the client asked for, where the backend does not see to it (mapping.md 9.2).

A schema is the client's word and an answer is the model's, so checking one by the other must not cost more than a
bound: what is beyond it, or refers to itself, is not checked.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jsonschema_rs import RegexOptions, ValidationError, validator_for

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.events import Delta, Event, Fail, Finish, Open
from proxy.canonical.jsontext import NotJson, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Call, Refusal, Text
from proxy.canonical.tools import Schema
from proxy.protocols.fields import is_object

_AT = ("reply",)
_MOST_WORK = 50_000_000  # nodes of the schema, references followed, times characters of the answer
_MOST_COMPILED = 200_000  # bytes of a regular expression
_MOST_PATTERNS = 32  # each may take a millisecond to make ready
_MOST_NODES = 20_000
_DEEPEST = 64  # references that lead to one another
_NEVER = _MOST_WORK + 1
_DEFINITIONS = frozenset({"$defs", "definitions"})  # count where they are referred to
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})  # schemas by names of the answer's own
# What refers to a schema in ways that are not followed here.
_OTHER_REFERENCES = frozenset({"$dynamicRef", "$recursiveRef", "$id", "$anchor"})


@dataclass(frozen=True, slots=True)
class Expected:
    """What the answer is to be: JSON of this schema, or any JSON object where that is None.

    `rule`: what a failure is recorded under; `fails`: it is an error of the backend's besides.
    """

    schema: Schema | None
    rule: Rule
    fails: bool


class Checking:
    """A stage of the reply, the last that sees its text: at the end it is held against what was expected."""

    __slots__ = ("_expected", "_losses", "_other", "_pieces", "_texts")

    def __init__(self, expected: Expected, losses: LossReport) -> None:
        self._expected = expected
        self._losses = losses
        self._texts: set[int] = set()
        self._pieces: list[str] = []
        self._other = False  # the answer is a call or a refusal

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events; a failure, if it is to be one, takes the place of the end."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta() if event.k in self._texts:
                    self._pieces.append(event.text)
                case Open():
                    self._open(event)
                case Finish() if event.stop.kind == "end" and not self._other:
                    if (wrong := misfit("".join(self._pieces), self._expected.schema)) is not None:
                        self._losses.drop(self._expected.rule, _AT)
                        if self._expected.fails:
                            out.append(Fail(_failure(wrong)))
                            continue
                case _:
                    pass
            out.append(event)
        return out

    def _open(self, event: Open) -> None:
        if isinstance(event.part, Text):
            self._texts.add(event.k)
            self._pieces.append(event.part.text)
        elif isinstance(event.part, Call | Refusal):
            self._other = True


def _failure(wrong: str) -> Error:
    message = f"The backend's answer is not what was asked for: {wrong}."
    return Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)


def misfit(text: str, schema: Schema | None) -> str | None:
    """What is wrong with the answer, in words of the schema alone; None when nothing is, or it can't be told."""
    try:
        answer = loads_exact(text)
    except NotJson:
        return "it is not JSON"
    if schema is None:
        return None if is_object(answer) else "it is not a JSON object"
    if work(schema) * max(1, len(text)) > _MOST_WORK:
        return None
    try:
        check = validator_for(schema, pattern_options=RegexOptions(size_limit=_MOST_COMPILED), offline=True)
        error = next(check.iter_errors(answer), None)
    except (ValidationError, ValueError):  # the schema is none, or asks for what is not at hand
        return None
    if error is None:
        return None
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in error.schema_path)
    return f"it fails the schema at '{'/'.join(steps)}'"


def may_match(text: str, pattern: str) -> bool:
    """Whether all of a text matches a regular expression, or it can't be told. Takes time in proportion to the text."""
    if len(pattern) * len(text) > _MOST_WORK:
        return True
    schema = {"type": "string", "pattern": f"^(?:{pattern})$"}
    try:
        check = validator_for(schema, pattern_options=RegexOptions(size_limit=_MOST_COMPILED), offline=True)
        return check.is_valid(text)
    except (ValidationError, ValueError):  # not this dialect of regular expressions, too large, or half a character
        return True


def work(schema: Schema) -> int:
    """How many nodes the schema has with its references followed; more than any bound where they lead in a circle, or
    where it would take too long to make it ready."""
    size = patterns = 0
    waiting: list[object] = [schema]
    while waiting and size <= _MOST_NODES:
        here = waiting.pop()
        size += 1
        if isinstance(here, list):
            waiting += here
        elif is_object(here):
            waiting += here.values()
            patterns += "pattern" in here
            if is_object(named := here.get("patternProperties")):
                patterns += len(named)
    if size > _MOST_NODES or patterns > _MOST_PATTERNS:
        return _NEVER
    return size + _Work(schema).of(schema, 0)


class _Work:
    """References are counted once each, however often they are followed."""

    __slots__ = ("_known", "_root")

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[str, int] = {}

    def of(self, node: object, depth: int) -> int:
        """Nodes of one schema; `depth`: references that lead to it."""
        if depth > _DEEPEST:
            return _NEVER
        count, waiting = 0, [node]
        while waiting and count <= _MOST_WORK:
            here = waiting.pop()
            count += 1
            if isinstance(here, list):
                waiting += here
            elif is_object(here):
                if not _OTHER_REFERENCES.isdisjoint(here) and here is not self._root:
                    return _NEVER
                for word, value in here.items():
                    if word in _NAMED and is_object(value):
                        waiting += value.values()  # their names are no words of a schema
                    elif word not in _DEFINITIONS:
                        waiting.append(value)
                if isinstance(reference := here.get("$ref"), str):
                    count += self._referred(reference, depth + 1)
        return count

    def _referred(self, reference: str, depth: int) -> int:
        if reference in self._known:
            return self._known[reference]
        self._known[reference] = _NEVER  # while it is counted: a circle
        node: object = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if is_object(node) and name else node if not name else None
        self._known[reference] = self.of(node, depth) if node is not None and reference.startswith("#") else _NEVER
        return self._known[reference]
