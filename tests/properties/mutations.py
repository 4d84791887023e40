"""JSON bent out of shape: what a buggy or hostile peer may send in place of a real request, reply or stream.

Real values are the base, since nonsense from the start goes no deeper than the first check. A mutated value is written
as text: half surrogates, integers of any size, NaN and nesting without end exist only there.
"""

import json
from itertools import pairwise

from hypothesis import strategies as st

from tests.harness.wire import Json

Step = str | int

# Stands for so many brackets in the text; a value nested as deeply could not even be compared.
DEEP = "\x00deep"
DEPTHS = (90, 300, 1100, 30_000)

TEXTS = (
    *("", " ", "\n", "null", "{}", "[]", "\ud83d", "\ude00x", "\x00", "é" * 70, "x" * 300, '{"a":', "NaN"),
    *("data:image/png;base64,", "data:,x", "https://e.test/a", "auto", "none", "text", "function", "custom", "tool"),
    *("user", "assistant", "system", "developer", "drg0.000000000000.eJw.0123456789abcdef", "drg1.x.y", "[DONE]"),
    *("drg0.000000000000.\ud83d.0123456789abcdef", "drg0.aaaaaaaaaaaa.é.é", "drg1.aaaaaaaaaaaa.\ud83d"),
)
NUMBERS = (0, -1, 1, 1.5, 2**53, 2**63, -(2**63) - 1, 2**64, 10**30, 1e300, -0.0, float("nan"), float("inf"))
FILLERS: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from([[], {}, [[]], [None], [1], ["x"], [{}], {"": None}, {"type": "text"}, {"type": []}, {"a": {}}]),
    st.sampled_from([DEEP + str(depth) for depth in DEPTHS]),
    st.text(max_size=5),
)
OPERATIONS = ("replace", "replace", "delete", "double", "swap", "graft", "cut", "wrap", "retype", "reorder")


def places(value: Json) -> list[tuple[Step, ...]]:
    """The paths of all values within one, its own first."""
    found: list[tuple[Step, ...]] = [()]
    waiting: list[tuple[tuple[Step, ...], Json]] = [((), value)]
    while waiting:
        path, node = waiting.pop()
        below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for step, inner in below:
            found.append((*path, step))
            waiting.append(((*path, step), inner))
    return found


def at(value: Json, path: tuple[Step, ...]) -> Json:
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


def put(value: Json, path: tuple[Step, ...], new: Json) -> Json:
    """The value with a new one at a path; what is not on the way is shared."""
    if not path:
        return new
    copy: Json = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw: st.DrawFn, value: Json, other: Json = None, most: int = 4) -> Json:
    """A value after some changes, which take what they need from `other` too. It is an object if it was one."""
    root = value
    for _ in range(draw(st.integers(0, most))):
        paths = places(root)[1:]
        if not paths:
            break
        root = draw(changed(root, draw(st.sampled_from(paths)), other))
    return root


@st.composite
def changed(draw: st.DrawFn, root: Json, path: tuple[Step, ...], other: Json) -> Json:
    old, (above, step) = at(root, path), (path[:-1], path[-1])
    match draw(st.sampled_from(OPERATIONS)):
        case "delete":
            parent = at(root, above)
            if isinstance(parent, dict):
                return put(root, above, {name: inner for name, inner in parent.items() if name != step})
            return put(root, above, [inner for index, inner in enumerate(parent) if index != step])
        case "double":
            parent = at(root, above)
            if isinstance(parent, dict):
                return put(root, above, {**parent, draw(st.sampled_from([*parent, "not_in_any_sheet"])): old})
            return put(root, above, [*parent[: path[-1]], *[old] * draw(st.integers(1, 3)), *parent[path[-1] :]])
        case "swap":
            second = draw(st.sampled_from(places(root)[1:]))
            taken = at(root, second)
            if second[: len(path)] == path or path[: len(second)] == second:
                return put(root, path, taken)
            return put(put(root, path, taken), second, old)
        case "graft":
            source = other if other is not None else root
            return put(root, path, at(source, draw(st.sampled_from(places(source)))))
        case "cut" if isinstance(old, str) and old:
            start, stop = sorted((draw(st.integers(0, len(old))), draw(st.integers(0, len(old)))))
            return put(root, path, old[start:stop])
        case "wrap":
            return put(root, path, draw(st.sampled_from([[old], {"type": old}, {"x": old}, [old, old]])))
        case "reorder" if isinstance(old, dict):
            return put(root, path, dict(reversed(old.items())))
        case "reorder" if isinstance(old, list):
            return put(root, path, old[::-1])
        case "retype" if isinstance(old, str | int | float):
            return put(root, path, draw(st.sampled_from([str(old), len(str(old)), [str(old)], {str(old): old}])))
        case _:
            return put(root, path, draw(FILLERS))


def text_of(value: Json) -> bytes:
    """The JSON text of a mutated value."""
    text = json.dumps(value, ensure_ascii=True)
    for depth in DEPTHS:
        text = text.replace(json.dumps(DEEP + str(depth)), "[" * depth + "]" * depth)
    return text.encode()


@st.composite
def damaged(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """A stream with bytes changed or gone, in the pieces in which the network brings it."""
    damage = draw(st.sampled_from(("none", "none", "flip", "drop", "repeat", "end")))
    if stream and damage != "none":
        start = draw(st.integers(0, len(stream) - 1))
        stop = start + draw(st.integers(1, 60))
        middle = {
            "flip": bytes([stream[start] ^ (1 << draw(st.integers(0, 7)))]) + stream[start + 1 : stop],
            "drop": b"",
            "repeat": stream[start:stop] * 2,
            "end": b"",
        }[damage]
        stream = stream[:start] + middle + (b"" if damage == "end" else stream[stop:])
    cuts = draw(st.sets(st.integers(0, len(stream)), max_size=4))
    return [stream[start:stop] for start, stop in pairwise(sorted({0, len(stream), *cuts}))]
