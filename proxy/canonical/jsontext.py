"""JSON as this proxy reads and writes it (mapping.md 0.3).

orjson does the work; the standard module steps in for what orjson refuses: half surrogates, integers beyond
64 bit, NaN. Half surrogates never leave: they become U+FFFD.
"""

import json
import re
from typing import NoReturn

import orjson

_ROUNDED = re.compile(rb"\d[eE]\+?\d")
_HALF_SURROGATE = re.compile("[\ud800-\udfff]")

Fragment = orjson.Fragment

# For what comes by the thousand and is parsed again by `loads` when this raises ValueError.
loads_plain = orjson.loads


class NotJson(ValueError):
    """The text is not JSON; the message says where."""


def loads(text: bytes | str) -> object:
    """Parse JSON. Raises `NotJson`. Integers beyond 64 bit come back as floats: see `loads_exact`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return _loads_slowly(text, error)


def loads_exact(text: bytes | str) -> object:
    """Parse JSON and keep integers of any size. Raises `NotJson`."""
    return _loads_slowly(text, None)


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _loads_slowly(text: bytes | str, first: Exception | None) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise NotJson("nested too deeply") from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError and NotJson are ValueErrors
        raise NotJson(str(first or error)) from error


def dumps(value: object) -> bytes:
    """Compact JSON, keys in their order, no ASCII escaping. Never fails on what a decoder gave."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_splice)
        return well_formed(text).encode()


def _splice(value: object) -> object:
    if isinstance(value, orjson.Fragment):
        return loads_exact(orjson.dumps(value))  # its text is not to be had otherwise
    raise TypeError(f"not JSON: {type(value).__name__}")


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone halves replaced by U+FFFD."""
    if _HALF_SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def may_be_rounded(dumped: bytes) -> bool:
    """Whether dumped JSON shows an exponent, as an integer does that the decoder turned into a float."""
    return _ROUNDED.search(dumped) is not None
