"""What a request holds, looked at once, so that the rules for what is rare need not look for it in a long history."""

from dataclasses import dataclass

from proxy.canonical.parts import Call, CallKind, Part, Result, Text
from proxy.canonical.request import Request
from proxy.canonical.tools import FunctionTool, Tool, TypedTool


@dataclass(slots=True)
class Held:
    """`parts` and `in_results`: kinds of parts beside texts, in the turns and in tool results; `calls`: kinds of calls
    and results; `errors`: a result says that its tool failed; `marks`: there may be a cache mark. What later rules
    remove still counts as held.
    """

    parts: set[type[Part]]
    in_results: set[type[Part]]
    calls: set[CallKind]
    tools: set[type[Tool]]
    errors: bool
    marks: bool


def survey(request: Request) -> Held:
    """What the request holds now."""
    parts: set[type[Part]] = set()
    in_results: set[type[Part]] = set()
    calls: set[CallKind] = set()
    errors = False
    marks = any(tool.cache is not None for tool in request.tools if isinstance(tool, FunctionTool | TypedTool))
    for instruction in request.instructions:
        for text in instruction.parts:
            marks = marks or text.cache is not None
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is Text:
                marks = marks or part.cache is not None
                continue
            parts.add(type(part))
            if type(part) is Call:
                calls.add(part.kind)
                marks = marks or part.cache is not None
            elif type(part) is Result:
                calls.add(part.kind)
                errors = errors or part.is_error
                marks = marks or part.cache is not None
                for inner in part.parts:
                    if type(inner) is Text:
                        marks = marks or inner.cache is not None
                    else:
                        in_results.add(type(inner))
                        marks = True
            else:
                marks = True  # a document may hold texts with marks of their own
    return Held(parts, in_results, calls, set(map(type, request.tools)), errors, marks)
