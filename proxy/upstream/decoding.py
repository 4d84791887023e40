"""Bodies that come compressed, in either direction (mapping.md 13.1).

Backends are asked for `identity`, so this is for those that don't obey, and for clients that compress. A few
bytes can stand for gigabytes: what comes out is always bounded.
"""

import zlib

# Decoded bytes that one call gives at most: a thousandth of it may have been a few KiB of input.
PIECE = 256 * 1024

# Tells zlib to find out by itself whether a gzip or a zlib header comes.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_IDENTITY = frozenset({"", "identity"})
_GZIP = frozenset({"gzip", "x-gzip", "deflate"})
SUPPORTED = "gzip and deflate"


class UnknownEncoding(ValueError):
    """The body is compressed in a way that can't be read here."""


class BrokenEncoding(ValueError):
    """The body is not what its encoding says, or it ends too early."""


class TooLarge(ValueError):
    """More came out than was allowed."""


class Decoder:
    """Decodes one body, piece by piece. `more` says that `feed(b"")` may give more at once."""

    __slots__ = ("_begun", "_inflate", "_tail", "more")

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False
        self._tail = b""
        self.more = False

    def feed(self, chunk: bytes) -> bytes:
        """Decode what came, at most `PIECE` bytes of it. Raises `BrokenEncoding`."""
        if self._inflate.eof:
            self.more = False
            if chunk:
                raise BrokenEncoding("something follows on the compressed body")
            return b""
        coded = self._tail + chunk
        try:
            plain = self._inflate.decompress(coded, PIECE)
        except zlib.error as error:
            plain = self._decompress_raw(coded, error)
        self._begun = True
        self._tail = self._inflate.unconsumed_tail
        self.more = bool(self._tail) or len(plain) == PIECE
        return plain

    def _decompress_raw(self, coded: bytes, error: zlib.error) -> bytes:
        """Some servers call a bare deflate stream `deflate`, without the zlib header that belongs to it."""
        if self._begun:
            raise BrokenEncoding(str(error)) from error
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return self._inflate.decompress(coded, PIECE)
        except zlib.error as still:
            raise BrokenEncoding(str(still)) from still

    def end(self) -> None:
        """No more will come. Raises `BrokenEncoding` when something is missing, or left over."""
        if not self._inflate.eof:
            raise BrokenEncoding("the compressed body ends too early")
        if self._inflate.unused_data:
            raise BrokenEncoding("something follows on the compressed body")


def decoder_for(content_encoding: str) -> Decoder | None:
    """What decodes a body with this `content-encoding`; None when it needs none. Raises `UnknownEncoding`."""
    encoding = content_encoding.strip().lower()
    if encoding in _IDENTITY:
        return None
    if encoding in _GZIP:
        return Decoder()
    raise UnknownEncoding(f"content-encoding {encoding[:40]!r} is not supported, only {SUPPORTED} are")


def decode_whole(content_encoding: str, body: bytes, limit: int) -> bytes:
    """A whole body, at most `limit` bytes decoded. Raises `UnknownEncoding`, `BrokenEncoding`, `TooLarge`."""
    decoder = decoder_for(content_encoding)
    if decoder is None:
        return body
    plain = bytearray(decoder.feed(body))
    while decoder.more and len(plain) <= limit:
        plain += decoder.feed(b"")
    if len(plain) > limit:
        raise TooLarge
    decoder.end()
    return bytes(plain)
