"""Write the parts of user turns and tool results as content parts of a message.

Parts that no Chat server knows have become text before (see `proxy.protocols`); what is left depends on the dialect.
"""

from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
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
    Source,
    Text,
)
from proxy.canonical.target import Target
from proxy.protocols.chat.tables import OPAQUE_RULES
from proxy.protocols.fields import Wire
from proxy.protocols.media_types import file_name, sent_type

_MEDIA_TYPES = {"image/jpg": "image/jpeg"}  # the registered name; some backends refuse the other
MARKS = frozenset({"prompt_cache_breakpoint", "cache_control"})  # what a cache mark is called


def text_part(text: str) -> Wire:
    """A text part."""
    return {"type": "text", "text": text}


class PartWriter:
    """Writes parts for one target; `at` of a method is the place of the turn, for parts that have none of their own."""

    __slots__ = ("_losses", "_target")

    def __init__(self, target: Target, losses: LossReport) -> None:
        self._target = target
        self._losses = losses

    def marked(self, part: Wire, mark: CacheMark | None) -> Wire:
        """The content part with its cache mark, in the words of the server."""
        if mark is None:
            return part
        if self._target.dialect.cache_marks == "cache_control":
            part["cache_control"] = {"type": "ephemeral", "ttl": "1h"} if mark.ttl == "long" else {"type": "ephemeral"}
        else:
            long = {"mode": "explicit", "ttl": "12h"}
            part["prompt_cache_breakpoint"] = long if mark.ttl == "long" else {"mode": "explicit"}
        return part

    def note_citations(self, at: Path) -> None:
        """Record citations of an earlier text, which only the vendor that made them could check."""
        self._losses.drop(Rule.CITATIONS, at)

    def part(self, part: Part, at: Path) -> Wire | None:
        """The content part; None when it is left out, which is recorded. Raises `Rejected`."""
        match part:
            case Text():
                if part.citations:
                    self.note_citations(at)
                return self.marked(text_part(part.text), part.cache) if part.text else None
            case Image():
                return self.marked(self._image(part), part.cache)
            case Document():
                written = self._file(part)
                return self.marked(written, part.cache) if written is not None else None
            case Audio():
                written = self._audio(part)
                return self.marked(written, part.cache) if written is not None else None
            case Opaque():
                self._losses.drop(OPAQUE_RULES.get(part.type, Rule.UNKNOWN_FIELD), part.at or at)
                return None
            case Refusal() | SearchResult() | HostedCall() | Reasoning() | Call() | Result():
                self._losses.drop(Rule.CONTENT, at)
                return None
            case _:
                assert_never(part)

    def _image(self, part: Image) -> Wire:
        source = part.source
        match source.kind:
            case "url":
                if self._target.dialect.no_url_images:
                    self._losses.refuse(Rule.IMAGE, part.at, "the backend takes no image URLs; send the image itself.")
                url = source.data
            case "base64":
                url = _data_url(source.media_type or "image/png", source)
            case "file":
                self._losses.refuse(Rule.FILE_ID, part.at, "Chat Completions has no file ids for images.")
            case "text":
                self._losses.refuse(Rule.IMAGE, part.at, "an image can't be plain text.")
            case _:
                assert_never(source.kind)
        image: Wire = {"url": url}
        if part.detail is not None:
            image["detail"] = part.detail
        return {"type": "image_url", "image_url": image}

    def _file(self, part: Document) -> Wire | None:
        source = part.source
        if source is None or source.kind == "text":
            self._losses.drop(Rule.TEXT_DOC, part.at)
            return None
        if source.kind == "url":
            self._losses.refuse(
                Rule.PDF_URL_CHAT, part.at, "Chat Completions takes no file URLs; send the file itself."
            )
        if source.kind == "file":
            return self._file_id(part, source)
        if not self._target.dialect.file_parts:
            self._losses.refuse(Rule.DOC_TYPE, part.at, "the backend takes no files; send what they say as text.")
        self._note_detail(part)
        media_type = sent_type(part)
        content = _data_url(media_type, source)
        return {"type": "file", "file": {"filename": file_name(part, media_type), "file_data": content}}

    def _file_id(self, part: Document, source: Source) -> Wire:
        if source.vendor != self._target.dialect.family:
            self._losses.refuse(Rule.FILE_ID, part.at, "file ids mean something only to the vendor that gave them.")
        self._note_detail(part)
        return {"type": "file", "file": {"file_id": source.data}}

    def _note_detail(self, part: Document) -> None:
        """How closely to look at a file is Responses' to say; `auto` asks nothing."""
        if part.detail not in (None, "auto"):
            self._losses.drop(Rule.DETAIL, part.at)

    def _audio(self, part: Audio) -> Wire | None:
        if part.id is not None:
            self._losses.drop(Rule.AUDIO, part.at)
            return None
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}


def _data_url(media_type: str, source: Source) -> str:
    return f"data:{_MEDIA_TYPES.get(media_type, media_type)};base64,{source.data}"
