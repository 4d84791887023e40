"""The head of an HTTP/1.1 message as bytes."""

from collections.abc import Iterable

_CONTROLS = bytes({*range(32), 127} - {9})  # all but the tab (RFC 9110, 5.5)


def write_head(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """`first`, the request's or status line, the fields, and the blank line. Raises ValueError for what would be more
    than one head: who may choose a value must not add a line.
    """
    lines = [first]
    lines += [f"{name}: {value}" for name, value in fields]
    lines += ("", "")
    head = "\r\n".join(lines).encode()
    if len(head) - len(head.translate(None, _CONTROLS)) != 2 * (len(lines) - 1):
        raise ValueError("A header holds a control character")
    return head
