"""Ids of requests and traces (operations.md 2.1, 2.2).

An id that a client sends is never taken for ours: ingresses and SDKs stamp what they like.
"""

import os
import re
import time

# Crockford's digits: in the order of their code points, so that ids sort by time, and without look-alikes.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_VERSION_7 = 7 << 76
_VARIANT = 2 << 62
_RANDOM_A = 0xFFF << 64
_RANDOM_B = (1 << 62) - 1

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def request_id() -> str:
    """`req_` and 26 characters: a UUID of version 7 in base 32, so ids sort by the time they were made."""
    chance = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000 << 80) | _VERSION_7 | (chance & _RANDOM_A) | _VARIANT | (chance & _RANDOM_B)
    return "req_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def trace_id(traceparent: str | None) -> str:
    """The caller's trace id, 32 hexadecimal digits, or a new one when the header is missing or invalid."""
    if traceparent is not None and (match := _TRACEPARENT.fullmatch(traceparent)):
        version, trace, parent, _flags, rest = match.groups()
        well_formed = version != "ff" and not (version == "00" and rest)
        if well_formed and trace.strip("0") and parent.strip("0"):
            return trace
    return os.urandom(16).hex()


def client_id(text: str | None) -> str | None:
    """An id that the client gave, for the log only: at most 128 visible ASCII characters, else None."""
    if text and len(text) <= 128 and text.isascii() and text.isprintable() and " " not in text:
        return text
    return None
