"""Ids of requests (operations.md 2.1).

An id that a client sends is never taken for ours: ingresses and SDKs stamp what they like.
"""

import os
import time

# Crockford's digits: in the order of their code points, so that ids sort by time, and without look-alikes.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_VERSION_7 = 7 << 76
_VARIANT = 2 << 62
_RANDOM_A = 0xFFF << 64
_RANDOM_B = (1 << 62) - 1


def request_id() -> str:
    """`req_` and 26 characters: a UUID of version 7 in base 32, so ids sort by the time they were made."""
    chance = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000 << 80) | _VERSION_7 | (chance & _RANDOM_A) | _VARIANT | (chance & _RANDOM_B)
    return "req_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def kept_id(prefix: str) -> str:
    """The id of something that is kept: the prefix and 48 hex digits that nobody can guess. It sorts by its time."""
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{os.urandom(18).hex()}"


def client_id(text: str | None) -> str | None:
    """An id that the client gave, for the log only: at most 128 visible ASCII characters, else None."""
    if text and len(text) <= 128 and text.isascii() and text.isprintable() and " " not in text:
        return text
    return None
