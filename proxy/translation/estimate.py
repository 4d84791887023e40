"""How many tokens a prompt has, guessed when no backend can be asked (mapping.md 16.2).

Rounded up: agents use the number to stay below a limit.
"""

import math
from collections.abc import Callable, Iterable
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
from proxy.canonical.tools import CustomTool, FunctionTool, Tool
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
    return Tally(request, new_claude=new_claude).tokens()


class Tally:
    """What a prompt is made of, by how it is counted. It may be counted when the request has changed already: best once
    the texts have been dumped, since then their bytes are known, which for other letters than ASCII's takes time.
    """

    __slots__ = ("_cap", "_code", "_count", "_factor", "_texts", "_values")

    def __init__(self, request: Request, *, new_claude: bool = False) -> None:
        self._factor = NEW_TOKENIZER * MARGIN if new_claude else MARGIN
        self._cap = IMAGE_CAP_NEW if new_claude else IMAGE_CAP
        self._count: float = PER_MESSAGE * (len(request.instructions) + len(request.turns) + len(request.tools))
        self._texts: list[str] = []
        self._code: list[str] = []  # names, arguments
        self._values: list[object] = []  # JSON whose bytes are not known yet
        for instruction in request.instructions:
            self._take_parts(instruction.parts)
        for turn in request.turns:
            self._take_parts(turn.parts)
        for tool in request.tools:
            self._take_tool(tool)

    def tokens(self, count: Callable[[str], int] | None = None) -> int:
        """How many tokens it is. `count`: of one text, by the model's own tokenizer."""
        if count is not None:
            dumped_too = [*self._code, *(dumps(value).decode() for value in self._values)]
            return math.ceil((self._count + sum(map(count, [*self._texts, *dumped_too]))) * MARGIN)
        prose = sum([len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in self._texts])
        values = self._values
        dumped = len(dumps(values)) - len(values) - 1 if values else 0  # all at once, without brackets and commas
        code = sum(map(len, self._code)) + dumped
        return math.ceil((self._count + prose / PROSE + code / JSON) * self._factor)

    def _take_parts(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if type(part) is Text:
                self._texts.append(part.text)
            else:
                self._take(part)

    def _take(self, part: Part) -> None:
        match part:
            case Text() | Refusal():
                self._texts.append(part.text)
            case Call():
                self._count += PER_MESSAGE
                self._code += (part.name, part.arguments)
                if part.input is not None:
                    self._values.append(part.input)
            case Result():
                self._count += PER_MESSAGE
                self._take_parts(part.parts)
            case Reasoning():
                pass  # thinking of earlier turns is not counted
            case Image():
                self._count += _image(part, self._cap)
            case Document():
                self._take_document(part)
            case SearchResult():
                self._texts.append(part.title)
                self._take_parts(part.content)
            case Audio():
                self._count += len(part.data) / PDF_BYTES
            case HostedCall() | Opaque():
                self._values.append(part.native)
            case _:
                assert_never(part)

    def _take_document(self, part: Document) -> None:
        source = part.source
        if part.content is not None:
            self._take_parts(part.content)
        elif source is not None:
            match source.kind:
                case "text":
                    self._texts.append(source.data)
                case "base64":
                    self._count += len(source.data) * 3 / 4 / PDF_BYTES
                case "url" | "file":
                    self._count += self._cap
                case _:
                    assert_never(source.kind)

    def _take_tool(self, tool: Tool) -> None:
        if isinstance(tool, FunctionTool):
            self._code += (tool.name, tool.description or "")
            self._values.append(tool.schema)
        elif isinstance(tool, CustomTool):
            self._code.append(tool.name)
            self._texts.append(tool.description or "")
        else:
            self._values.append(tool.native)


def _image(part: Image, cap: int) -> float:
    size = image_size.pixels(part.source.data) if part.source.kind == "base64" else None
    if size is None:
        return cap
    return min(size[0] * size[1] / PIXELS, cap)
