"""JSON as this proxy reads and writes it (mapping.md 0.3).

orjson does the work; the standard module steps in for what orjson refuses: half surrogates, integers beyond
64 bit, and the NaN and Infinity of backends. None of them leaves but the integers: half surrogates become U+FFFD,
NaN and Infinity null, and only in the text of arguments do they stay what they are.
"""

import json
import re
from collections.abc import Callable
from typing import NoReturn

import orjson

_CONSTANT = re.compile("NaN|Infinity")  # perhaps in a string
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
        return _loads_slowly(text, error, _refuse_constant)


def loads_leniently(text: bytes | str) -> object:
    """Parse what a backend takes for JSON: as `loads`, but NaN and Infinity are floats. Raises `NotJson`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return _loads_slowly(text, error, None)


def loads_exact(text: bytes | str) -> object:
    """Parse as `loads_leniently` and keep integers of any size. Raises `NotJson`."""
    return _loads_slowly(text, None, None)


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _loads_slowly(text: bytes | str, first: Exception | None, constant: Callable[[str], object] | None) -> object:
    try:
        return json.loads(text, parse_constant=constant)
    except RecursionError as error:
        raise NotJson("nested too deeply") from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError and NotJson are ValueErrors
        raise NotJson(str(first or error)) from error


def dumps(value: object) -> bytes:
    """Compact JSON, keys in their order, no ASCII escaping. Never fails on what a decoder gave."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = _dumps_slowly(value)
        if _CONSTANT.search(text):
            text = _dumps_slowly(json.loads(text, parse_constant=lambda _: None))
        return well_formed(text).encode()


def dumps_exact(value: object) -> bytes:
    """As `dumps`, but NaN and Infinity stay what they are, so that it need not be JSON."""
    dumped = dumps(value)
    if b"null" not in dumped:  # as which NaN is written
        return dumped
    text = _dumps_slowly(value)
    return well_formed(text).encode() if _CONSTANT.search(text) else dumped


def _dumps_slowly(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_splice)


def _splice(value: object) -> object:
    if isinstance(value, orjson.Fragment):
        return loads_exact(orjson.dumps(value))  # its text is not to be had otherwise
    raise TypeError(f"not JSON: {type(value).__name__}")


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone halves replaced by U+FFFD."""
    if _HALF_SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
