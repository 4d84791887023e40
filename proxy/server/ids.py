"""Ids of requests (operations.md 2.1).

An id that a client sends is never taken for ours: ingresses and SDKs stamp what they like.
"""

import os
import time
from functools import lru_cache

# Crockford's digits: in the order of their code points, so that ids sort by time, and without look-alikes.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
# Digits for random bytes: any; the first behind the time, which holds the version; and the fourth, which holds the
# variant (RFC 9562, 5.7).
_ANY = bytes(ord(_DIGITS[byte & 31]) for byte in range(256))
_VERSION_7 = bytes(ord(_DIGITS[0b01110 | byte & 0b00001]) for byte in range(256))
_VARIANT = bytes(ord(_DIGITS[0b01000 | byte & 0b10011]) for byte in range(256))


def request_id() -> str:
    """`req_` and 26 characters: a UUID of version 7 in base 32, so ids sort by the time they were made."""
    chance = os.urandom(16)
    digits = bytearray(chance.translate(_ANY))
    digits[0], digits[3] = _VERSION_7[chance[0]], _VARIANT[chance[3]]
    return _prefix(time.time_ns() // 1_000_000) + digits.decode()


@lru_cache(maxsize=4)
def _prefix(millisecond: int) -> str:
    return "req_" + "".join([_PAIRS[millisecond >> shift & 1023] for shift in range(40, -1, -10)])


def kept_id(prefix: str) -> str:
    """The id of something that is kept: the prefix and 48 hex digits that nobody can guess. It sorts by its time."""
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{os.urandom(18).hex()}"


def client_id(text: str | None) -> str | None:
    """An id that the client gave, for the log only: at most 128 visible ASCII characters, else None."""
    if text and len(text) <= 128 and text.isascii() and text.isprintable() and " " not in text:
        return text
    return None
