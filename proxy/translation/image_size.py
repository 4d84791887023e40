"""Width and height out of the first bytes of an image, for token estimates."""

import base64
import struct

_PREFIX = 64 * 1024  # base64 characters; a JPEG's size may stand behind a thumbnail


def pixels(encoded: str) -> tuple[int, int] | None:
    """(width, height) of a base64 PNG, JPEG, GIF or WebP; None when it can't be told."""
    head = encoded[: _PREFIX - _PREFIX % 4]
    try:
        image = base64.b64decode(head + "=" * (-len(head) % 4))
    except ValueError:  # of characters as of their number
        return None
    if image.startswith(b"\x89PNG\r\n\x1a\n") and len(image) >= 24:
        width, height = struct.unpack(">II", image[16:24])
        return width, height
    if image.startswith((b"GIF87a", b"GIF89a")) and len(image) >= 10:
        width, height = struct.unpack("<HH", image[6:10])
        return width, height
    if image.startswith(b"RIFF") and image[8:12] == b"WEBP":
        return _webp(image)
    if image.startswith(b"\xff\xd8"):
        return _jpeg(image)
    return None


def _webp(image: bytes) -> tuple[int, int] | None:
    if len(image) < 30:
        return None
    if image[12:16] == b"VP8X":
        width = int.from_bytes(image[24:27], "little") + 1
        return width, int.from_bytes(image[27:30], "little") + 1
    if image[12:16] == b"VP8L":
        bits = int.from_bytes(image[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", image[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(image: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(image) and image[at] == 0xFF:
        marker = image[at + 1]
        # Start-of-frame segments hold the size; C4, C8 and CC are other segments of that range.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", image[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(image[at + 2 : at + 4], "big")
    return None
