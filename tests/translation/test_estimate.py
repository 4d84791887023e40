"""Token estimates: never zero for a prompt, larger for larger prompts, images by their pixels (mapping.md 16.2)."""

import base64
import struct

import pytest

from proxy.canonical.parts import Call, Document, Image, Result, Source, Text, Turn
from proxy.canonical.request import Instruction, Request
from proxy.canonical.tools import FunctionTool
from proxy.translation import estimate, image_size

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 750, 100) + b"\x08\x06\x00\x00\x00"
GIF = b"GIF89a" + struct.pack("<HH", 31, 17)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + b"\x03"
)
WEBP_EXTENDED = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + b"\x0f\x00\x00\x1f\x00\x00"
WEBP_LOSSLESS = (
    b"RIFF\x00\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f" + (99 | 49 << 14).to_bytes(4, "little") + b"\x00" * 8
)
WEBP_LOSSY = b"RIFF\x00\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 8, 9)


@pytest.mark.parametrize(
    ("image", "size"),
    [
        (PNG, (750, 100)),
        (GIF, (31, 17)),
        (JPEG, (640, 480)),
        (WEBP_EXTENDED, (16, 32)),
        (WEBP_LOSSLESS, (100, 50)),
        (WEBP_LOSSY, (8, 9)),
        (b"not an image", None),
        (b"\xff\xd8\xff\xe0\x00", None),
    ],
)
def test_pixels(image: bytes, size: tuple[int, int] | None) -> None:
    assert image_size.pixels(base64.b64encode(image).decode()) == size


@pytest.mark.parametrize("encoded", ["%%%", "a", "é", "\ud83d"])
def test_pixels_of_text_that_is_not_base64(encoded: str) -> None:
    assert image_size.pixels(encoded) is None


def count(*parts: Text | Call | Result | Image | Document, **fields: object) -> int:
    return estimate.tokens(Request("chat", "m", turns=[Turn("user", list(parts))], **fields))  # type: ignore[arg-type]


def test_prose_code_and_pictures() -> None:
    assert count(Text("x" * 360)) == 110  # (100 + 4) and 5 percent, rounded up
    assert count(Image(Source("base64", base64.b64encode(PNG).decode(), "image/png"))) == 110
    assert count(Image(Source("url", "https://a.example/a.png"))) == 1651  # unknown size: the cap
    assert count(Document(Source("base64", "A" * 4000, "application/pdf"))) == 162


def test_tools_and_instructions_count() -> None:
    bare = count(Text("hi"))
    with_tool = count(Text("hi"), tools=[FunctionTool("f", {"type": "object"}, "what it does")])
    with_system = count(Text("hi"), instructions=[Instruction([Text("be brief")])])
    assert bare < with_system
    assert bare < with_tool


def test_the_newer_claude_tokenizer_counts_more() -> None:
    request = Request("messages", "m", turns=[Turn("user", [Text("x" * 3600)])])
    assert estimate.tokens(request, new_claude=True) == pytest.approx(estimate.tokens(request) * 1.3, rel=0.01)
