"""Hold the assertions of a case against what was captured.

An assertion is `{"path": …, "op": …, "value": …}`. Each operation is a function that returns None if it
holds, and otherwise what was found instead. Operations on values are here, those on a whole reply or
request in `whole_assertions`.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.harness.capture import Capture
from tests.harness.json_values import same, shown
from tests.harness.whole_assertions import ON_WHOLE, Problem
from tests.harness.wire import Json

OnAll: TypeAlias = Callable[[list[Json], Json, Capture], Problem]
OnOne: TypeAlias = Callable[[Json, Json, Capture], Problem]


def problems(assertions: list[Json], seen: Capture) -> list[str]:
    """One line for each assertion that does not hold; a body of an unforeseen shape fails what looks into it."""
    found = []
    for assertion in assertions:
        try:
            problem = _judge(assertion, seen)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            problem = f"can't be judged: {type(error).__name__}: {error}"
        if problem is not None:
            wanted = f" {shown(assertion['value'])}" if "value" in assertion else ""
            found.append(f"{assertion.get('path', '')} {assertion['op']}{wanted}: {problem}".strip())
    return found


def _judge(assertion: Json, seen: Capture) -> Problem:
    operation, wanted = assertion["op"], assertion.get("value")
    if operation in ON_ALL:
        return ON_ALL[operation](seen.values(assertion["path"]), wanted, seen)
    if operation in ON_ONE:
        values = seen.values(assertion["path"])
        if len(values) != 1:
            return f"{len(values)} values are there"
        return ON_ONE[operation](values[0], wanted, seen)
    if operation == "any_of":
        return _any_of(wanted, seen)
    if operation == "upstream":
        return _upstream(wanted, seen)
    return ON_WHOLE[operation](seen, wanted)


def _any_of(groups: list[list[Json]], seen: Capture) -> Problem:
    verdicts = [problems(group, seen) for group in groups]
    return None if not all(verdicts) else " — or — ".join("; ".join(verdict) for verdict in verdicts)


def _upstream(assertions: list[Json], seen: Capture) -> Problem:
    if seen.other is None:
        return "the backend was not asked"
    return "; ".join(problems(assertions, seen.other)) or None


# ---- operations on all values that a path names


def _present(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return None if any(value is not None for value in values) else "nothing is there"


def _absent(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return None if all(value is None for value in values) else f"is {shown(values)}"


def _count(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return None if len(values) == wanted else f"there are {len(values)}"


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for element in value:
            yield from _strings(element)


def _contains(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    if isinstance(wanted, str):
        there = any(wanted in text for text in _strings(values))
    else:
        there = any(same(element, wanted) for value in values if isinstance(value, list) for element in value)
    return None if there else f"is {shown(values)}"


def _not_contains(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return next((f"is in {shown(text)}" for text in _strings(values) if wanted in text), None)


def _not_equals(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return _not_one_of(values, [wanted], seen)


def _not_one_of(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return next((f"is {shown(v)}" for v in values if any(same(v, w) for w in wanted)), None)


def _same_as(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return _compared(values, seen.values(wanted), equal=True)


def _differs_from(values: list[Json], wanted: Json, seen: Capture) -> Problem:
    return _compared(values, seen.values(wanted), equal=False)


def _compared(values: list[Json], others: list[Json], *, equal: bool) -> Problem:
    comparable = len(values) == len(others) == 1 and values[0] is not None
    if comparable and same(values[0], others[0]) is equal:
        return None
    return f"are {shown(values)} and {shown(others)}"


ON_ALL: dict[str, OnAll] = {
    "present": _present,
    "absent": _absent,
    "count": _count,
    "contains": _contains,
    "not_contains": _not_contains,
    "not_equals": _not_equals,
    "not_one_of": _not_one_of,
    "same_as": _same_as,
    "differs_from": _differs_from,
}


# ---- operations on the one value that a path names


def _told(right: bool, value: Json) -> Problem:
    return None if right else f"is {shown(value)}"


def _equals(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(same(value, wanted), value)


def _one_of(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(any(same(value, choice) for choice in wanted), value)


def _matches(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(isinstance(value, str) and re.search(wanted, value) is not None, value)


def _length(value: Json, wanted: Json, seen: Capture) -> Problem:
    return None if len(value) == wanted else f"it is {len(value)}: {shown(value)}"


def _json_equals(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(same(json.loads(value), wanted), value)


def _at_least(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(value >= wanted, value)


def _less_than_path(value: Json, wanted: Json, seen: Capture) -> Problem:
    (other,) = seen.values(wanted)
    return None if value < other else f"are {value} and {other}"


PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "string_or_array": (str, list),
}


def _is_type(value: Json, wanted: Json, seen: Capture) -> Problem:
    return _told(isinstance(value, PYTHON_TYPES[wanted]) and not isinstance(value, bool), value)


def _one_string_property(value: Json, wanted: Json, seen: Capture) -> Problem:
    schemas = list(value["properties"].values())
    return _told(len(schemas) == 1 and schemas[0].get("type") == "string", value)


def _one_string_value(value: Json, wanted: Json, seen: Capture) -> Problem:
    values = list(value.values()) if isinstance(value, dict) else []
    return _told(len(values) == 1 and isinstance(values[0], str), value)


def _strict_schema(value: Json, wanted: Json, seen: Capture) -> Problem:
    return next((f"is open: {shown(schema)}" for schema in _objects(value) if not _is_strict(schema)), None)


def _objects(schema: Json) -> Iterator[dict[str, Json]]:
    """Every schema of an object in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


def _is_strict(schema: dict[str, Json]) -> bool:
    every = set(schema.get("properties", {}))
    return schema.get("additionalProperties") is False and set(schema.get("required", ())) == every


ON_ONE: dict[str, OnOne] = {
    "equals": _equals,
    "one_of": _one_of,
    "matches": _matches,
    "length": _length,
    "json_equals": _json_equals,
    "at_least": _at_least,
    "less_than_path": _less_than_path,
    "is_type": _is_type,
    "one_string_property": _one_string_property,
    "one_string_value": _one_string_value,
    "strict_schema": _strict_schema,
}
