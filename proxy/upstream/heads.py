"""The head of an HTTP/1.1 message as bytes."""

import re
from collections.abc import Iterable

_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110, 5.5


def write_head(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """`first`, the request's or status line, the fields, and the blank line. Raises ValueError for what would be more
    than one head: who may choose a value must not add a line.
    """
    lines = [first]
    lines += [f"{name}: {value}" for name, value in fields]
    if not "".join(lines).isprintable() and any(map(_FORBIDDEN.search, lines)):
        raise ValueError("A header holds a control character")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
