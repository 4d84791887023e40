"""A document with a stray value in one place: every place, and every kind of JSON value."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

STRAY: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    7,
    1.5,
    2.0**70,
    "",
    " ",
    "null",
    "text",
    "data:x",
    "\ud800",
    [],
    [None],
    [[]],
    ["a"],
    [{}],
    {},
    {"a": 1},
    {"type": "text"},
    {"type": []},
    {"name": {}},
]


def places(document: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside a document."""
    keys: Iterator[Any] | range = iter(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        yield (key,)
        if isinstance(document[key], dict | list):
            for rest in places(document[key]):
                yield (key, *rest)


def spoiled(document: Any) -> Iterator[Any]:
    """The document with each of its values replaced by each stray value, and left out."""
    for path in places(document):
        for value in STRAY:
            yield _replaced(document, path, value)
        if isinstance(path[-1], str):
            yield _without(document, path)


def _replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = deepcopy(value)
    return changed


def _without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return changed
