"""Paths into JSON values, such as `messages[-1].content[type=tool_use][0].input`.

A path may name several values: `[*]` names every element, `[key=value]` every element (or the object
itself) whose field reads so. Directly after one of these an index picks from all that was found,
anywhere else it picks from each list that is there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from tests.harness.wire import Json


@dataclass(frozen=True)
class Key:
    name: str


@dataclass(frozen=True)
class Index:
    position: int


@dataclass(frozen=True)
class Every:
    pass


@dataclass(frozen=True)
class Having:
    field: str
    text: str


Step: TypeAlias = Key | Index | Every | Having

STEP = re.compile(
    r"\[(?P<index>-?\d+)\]"
    r"|\[(?P<every>\*)\]"
    r"|\[(?P<field>[\w$-]+)=(?P<text>[^\]]+)\]"
    r"|\.?(?P<key>[\w$-]+)"
)


@cache
def read_path(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises ValueError if it is none."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path!r} is no path: nothing fits at position {position}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"]:
        return Index(int(match["index"]))
    if match["every"]:
        return Every()
    if match["field"]:
        return Having(match["field"], match["text"])
    return Key(match["key"])


def find(root: Json, path: str) -> list[Json]:
    """All values that the path names, in the order they stand in; none if there is nothing."""
    found: list[Json] = [root]
    gathered = False
    for step in read_path(path):
        if gathered and isinstance(step, Index):
            found = pick(found, step.position)
        else:
            found = [value for node in found for value in _follow(node, step)]
        gathered = isinstance(step, Every | Having)
    return found


def _follow(node: Json, step: Step) -> Iterator[Json]:
    match step:
        case Key(name):
            if isinstance(node, dict) and name in node:
                yield node[name]
        case Index(position):
            if isinstance(node, list):
                yield from pick(node, position)
        case Every():
            if isinstance(node, list):
                yield from node
        case Having(field, text):
            for element in node if isinstance(node, list) else [node]:
                if isinstance(element, dict) and field in element and str(element[field]) == text:
                    yield element


def pick(values: Sequence[Json], position: int) -> list[Json]:
    return [values[position]] if -len(values) <= position < len(values) else []
