"""Chunked framing taken off a body (RFC 9112, 7.1).

A backend that streams writes each event as a chunk, and one read brings many. aiohttp's parser makes three calls into
Python for each; here it is a find and a slice, and what one read brought comes out in one piece.
"""

from functools import lru_cache

import aiohttp

_LONGEST_LINE = 8190  # bytes, as aiohttp has it for a header
_MOST_TRAILERS = 64 * 1024  # bytes
_DIGITS = b"0123456789abcdefABCDEF"
_MOST_DIGITS = 16
_BETWEEN = -1


class BrokenFraming(aiohttp.ClientPayloadError):
    """The body is not in chunks as its head says."""


class Chunks:
    """`feed` what comes. `ended`: the body is complete, and `rest` what came behind it."""

    __slots__ = ("_left", "_trailing", "ended", "rest")

    def __init__(self) -> None:
        self._left = _BETWEEN  # bytes that are still to come of a chunk, its line end not counted
        self._trailing = -1  # bytes of trailers so far; -1 before the last chunk
        self.ended = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """What of the body is there now. Raises `BrokenFraming`."""
        if self.rest:
            data = self.rest + data
            self.rest = b""
        if self._trailing >= 0:
            self._skip_trailers(data)
            return b""
        pieces: list[bytes] = []
        at, end, left = 0, len(data), self._left
        while True:
            if left != _BETWEEN:
                stop = at + left
                if stop + 2 > end:
                    pieces.append(data[at:stop])
                    self._left = max(0, stop - end)
                    self.rest = data[stop:]
                    break
                if data[stop : stop + 2] != b"\r\n":
                    raise BrokenFraming("a chunk is not as long as it says")
                pieces.append(data[at:stop])
                at = stop + 2
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                self._left = _BETWEEN
                self.rest = data[at:]
                if len(self.rest) > _LONGEST_LINE:
                    raise BrokenFraming("a chunk's first line is too long")
                break
            line = data[at:line_end]
            left = _known_size(line) if len(line) <= _MOST_DIGITS else _size(line)
            at = line_end + 2
            if left == 0:
                self._trailing = 0
                self._skip_trailers(data[at:])
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _skip_trailers(self, data: bytes) -> None:
        """Up to the blank line that ends the body; nothing here reads them."""
        at = 0
        while (line_end := data.find(b"\r\n", at)) >= 0:
            if line_end == at:
                self.ended = True
                self.rest = data[at + 2 :]
                return
            self._trailing += line_end + 2 - at
            at = line_end + 2
        self.rest = data[at:]
        if self._trailing + len(self.rest) > _MOST_TRAILERS:
            raise BrokenFraming("its trailers are too long")


def _size(line: bytes) -> int:
    """Of the chunk that this line begins."""
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not digits or digits.strip(_DIGITS) or len(digits) > _MOST_DIGITS:
        raise BrokenFraming("a chunk does not begin with its size")
    return int(digits, 16)


_known_size = lru_cache(maxsize=4096)(_size)  # events of an answer are of much the same size
