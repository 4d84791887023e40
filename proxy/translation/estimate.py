"""How many tokens a prompt has, guessed when no backend can be asked (mapping.md 16.2).

Rounded up: agents use the number to stay below a limit.
"""

import math
from collections.abc import Iterable
from typing import assert_never

from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import (
    Audio,
    Call,
    Document,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Result,
    SearchResult,
    Text,
)
from proxy.canonical.request import Request
from proxy.canonical.tools import CustomTool, FunctionTool
from proxy.translation import image_size

PROSE = 3.6  # bytes a token
JSON = 3.0
PER_MESSAGE = 4
PDF_BYTES = 20  # bytes of a PDF a token
PIXELS = 750
IMAGE_CAP = 1568
IMAGE_CAP_NEW = 4784  # Claude 4.7 and later look closer
NEW_TOKENIZER = 1.3  # Claude 4.7 and later
MARGIN = 1.05


def tokens(request: Request, *, new_claude: bool = False) -> int:
    """Tokens of the prompt: instructions, turns, tools. `new_claude`: for a Claude model from 4.7 on."""
    cap = IMAGE_CAP_NEW if new_claude else IMAGE_CAP
    count = 0.0
    for instruction in request.instructions:
        count += PER_MESSAGE + sum(_prose(part.text) for part in instruction.parts)
    for turn in request.turns:
        count += PER_MESSAGE + _parts(turn.parts, cap)
    for tool in request.tools:
        if isinstance(tool, FunctionTool):
            described = len(dumps(tool.schema)) + len(tool.name) + len(tool.description or "")
            count += PER_MESSAGE + described / JSON
        elif isinstance(tool, CustomTool):
            count += PER_MESSAGE + _prose(tool.description or "") + len(tool.name) / JSON
        else:
            count += PER_MESSAGE + len(dumps(tool.native)) / JSON
    if new_claude:
        count *= NEW_TOKENIZER
    return math.ceil(count * MARGIN)


def _prose(text: str) -> float:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size / PROSE


def _parts(parts: Iterable[Part], cap: int) -> float:
    count = 0.0
    for part in parts:
        count += _prose(part.text) if type(part) is Text else _part(part, cap)
    return count


def _part(part: Part, cap: int) -> float:
    match part:
        case Text() | Refusal():
            return _prose(part.text)
        case Call():
            size = len(dumps(part.input)) if part.input is not None else len(part.arguments)
            return PER_MESSAGE + (size + len(part.name)) / JSON
        case Result():
            return PER_MESSAGE + _parts(part.parts, cap)
        case Reasoning():
            return 0  # thinking of earlier turns is not counted
        case Image():
            return _image(part, cap)
        case Document():
            return _document(part, cap)
        case SearchResult():
            return _prose(part.title) + sum(_prose(text.text) for text in part.content)
        case Audio():
            return len(part.data) / PDF_BYTES
        case HostedCall() | Opaque():
            return len(dumps(part.native)) / JSON
        case _:
            assert_never(part)


def _image(part: Image, cap: int) -> float:
    size = image_size.pixels(part.source.data) if part.source.kind == "base64" else None
    if size is None:
        return cap
    return min(size[0] * size[1] / PIXELS, cap)


def _document(part: Document, cap: int) -> float:
    if part.content is not None:
        return _parts(part.content, cap)
    source = part.source
    if source is None:
        return 0
    match source.kind:
        case "text":
            return _prose(source.data)
        case "base64":
            return len(source.data) * 3 / 4 / PDF_BYTES
        case "url" | "file":
            return cap
