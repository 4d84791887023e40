"""Write the parts of a turn as content blocks of a Messages request.

Mirrors `block_reader`. A part that Messages has no block for is recorded or refused here; where blocks go in a
message is the business of `turn_writer`.
"""

from base64 import b64decode
from dataclasses import dataclass
from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Call,
    Citation,
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
    Ttl,
    Turn,
)
from proxy.canonical.target import Target
from proxy.protocols.fields import Wire, invalid
from proxy.protocols.media_types import PDF, decoded_text, essence, is_text, type_of
from proxy.protocols.messages.arguments import arguments_object
from proxy.protocols.messages.citations import WEB, is_own
from proxy.protocols.messages.tables import IMAGE_TYPES, is_native

EMPTY_ERROR = "error"  # an error without content is refused (messages.md 12, rule 18)


@dataclass(slots=True)
class BlockWriter:
    """Writes parts for one target."""

    target: Target
    losses: LossReport

    def turn(self, turn: Turn, results: list[Wire], blocks: list[Wire]) -> None:
        """Append the blocks of a turn, without texts that are empty, which the vendor refuses.

        Results are kept apart, since they come first in the message that they end up in.
        """
        thinking = False
        block: Wire | None
        for part in turn.parts:
            match part:
                case Text():
                    block = self._text(part, turn.at)
                case Call():
                    block = self._call(part, turn.at)
                case Result():
                    results.append(self._result(part))
                    continue
                case Reasoning():
                    thinking = thinking or (turn.role == "assistant" and self._keeps_thinking(turn))
                    if not thinking:
                        self.losses.drop(Rule.FOREIGN_REASONING, part.at or turn.at)
                        continue
                    block = part.native
                case _:
                    block = self._other(part, turn.at)
            if block is not None:
                blocks.append(block)

    def _nested(self, parts: list[Part], path: Path) -> list[Wire]:
        """The blocks inside a result or a document."""
        blocks: list[Wire] = []
        for part in parts:
            block = self._text(part, path) if isinstance(part, Text) else self._other(part, path)
            if block is not None:
                blocks.append(block)
        return blocks

    def _other(self, part: Part, turn_at: Path) -> Wire | None:
        match part:
            case Text():
                return self._text(part, turn_at)
            case Call():
                return self._call(part, turn_at)
            case Result():
                return self._result(part)
            case Reasoning():
                self.losses.drop(Rule.FOREIGN_REASONING, part.at or turn_at)
                return None
            case Image():
                return self._image(part)
            case Document():
                return self._document(part)
            case SearchResult():
                return self._search_result(part, turn_at)
            case Refusal():
                return self._text(Text(part.text, cache=part.cache), turn_at)
            case Audio():
                return self._audio(part, turn_at)
            case HostedCall() | Opaque():
                return self._vendor_block(part)
            case _:
                assert_never(part)

    def _text(self, part: Text, path: Path) -> Wire | None:
        if not part.text or part.text.isspace():
            return None
        block: Wire = {"type": "text", "text": part.text}
        if part.citations:
            citations = self._citations(part.citations, path)
            if citations:
                block["citations"] = citations
        return block if part.cache is None else marked(block, part.cache)

    def _citations(self, citations: list[Citation], path: Path) -> list[Wire]:
        """Only the vendor's own, whole ones: it checks them (mapping.md 4.7)."""
        own: list[Wire] = []
        for citation in citations:
            native = citation.native
            if native is not None and is_own(native) and (native["type"] != WEB or native.get("encrypted_index")):
                own.append(native)
            else:
                self.losses.drop(Rule.CITATIONS, path)
        return own

    # --- images, documents, search results (mapping.md 4.2, 4.3, 4.6) ---

    def _image(self, part: Image) -> Wire:
        if part.detail not in (None, "auto"):
            self.losses.drop(Rule.IMAGE_DETAIL, part.at)
        return marked({"type": "image", "source": self._image_source(part)}, part.cache)

    def _image_source(self, part: Image) -> Wire:
        source = part.source
        match source.kind:
            case "url":
                if self.target.dialect.no_url_images:
                    self.losses.refuse(Rule.IMAGE, part.at, "the backend takes no image by URL.")
                return {"type": "url", "url": source.data}
            case "base64" | "text":
                media_type = _image_type(source)
                if media_type is None:
                    self.losses.refuse(
                        Rule.IMAGE, part.at, f"images are JPEG, PNG, GIF or WebP, not '{source.media_type}'."
                    )
                return {"type": "base64", "media_type": media_type, "data": source.data}
            case "file":
                return self._file(source, part.at)
            case _:
                assert_never(source.kind)

    def _file(self, source: Source, path: Path) -> Wire:
        if source.vendor != self.target.dialect.family:
            self.losses.refuse(Rule.FILE_ID, path, "files stay at the vendor that holds them.")
        return {"type": "file", "file_id": source.data}

    def _document(self, part: Document) -> Wire:
        if part.detail not in (None, "auto"):
            self.losses.drop(Rule.DETAIL, part.at)
        if not self.target.dialect.file_parts:
            self.losses.refuse(Rule.DOC_TYPE, part.at, "the backend takes no files; send what they say as text.")
        if part.content is not None:
            content = self._nested(part.content, part.at)
            block: Wire = {"type": "document", "source": {"type": "content", "content": content}}
        elif part.source is not None:
            block = {"type": "document", "source": self._document_source(part, part.source)}
        else:
            invalid(part.at, "expected a document, got none.")
        if part.title:
            block["title"] = part.title
        if part.context:
            block["context"] = part.context
        if part.cite:
            block["citations"] = {"enabled": True}
        return marked(block, part.cache)

    def _document_source(self, part: Document, source: Source) -> Wire:
        match source.kind:
            case "url":
                return {"type": "url", "url": source.data}
            case "text":
                return {"type": "text", "media_type": "text/plain", "data": source.data}
            case "file":
                return self._file(source, part.at)
            case "base64":
                media_type = type_of(part)
                if media_type == PDF:
                    return {"type": "base64", "media_type": PDF, "data": source.data}
                if not is_text(media_type):
                    known = media_type or source.media_type
                    self.losses.refuse(Rule.DOC_TYPE, part.at, f"documents are PDF or plain text, not '{known}'.")
                return {"type": "text", "media_type": "text/plain", "data": decoded_text(source.data, part.at)}
            case _:
                assert_never(source.kind)

    def _search_result(self, part: SearchResult, path: Path) -> Wire:
        content = [written for inner in part.content if (written := self._text(inner, path)) is not None]
        block: Wire = {"type": "search_result", "source": part.source, "title": part.title, "content": content}
        return marked(block, part.cache)

    def _audio(self, part: Audio, path: Path) -> Wire | None:
        """An earlier spoken answer is its words; speech of the user can't be carried (mapping.md 4.4)."""
        if part.id is None and not part.transcript:
            self.losses.refuse(Rule.AUDIO_IN, part.at or path, "the backend hears no audio.")
        self.losses.approx(Rule.AUDIO, part.at or path)
        return self._text(Text(part.transcript or ""), path)

    # --- calls and results (mapping.md 4.5, 4.9) ---

    def _call(self, part: Call, path: Path) -> Wire:
        arguments: object = part.input
        kind = part.kind
        if kind == "typed":
            self.losses.approx(Rule.TYPED_TOOL, part.at or path)
        if kind == "custom":
            self.losses.approx(Rule.CUSTOM_TOOL, part.at or path)
            arguments = {"input": part.arguments}
        elif arguments is None:
            arguments, sound = arguments_object(part.arguments)
            if not sound:
                self.losses.approx(Rule.BAD_ARGS, part.at or path)
        block: Wire = {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
        return block if part.cache is None else marked(block, part.cache)

    def _result(self, part: Result) -> Wire:
        block: Wire = {"type": "tool_result", "tool_use_id": part.call_id or ""}
        parts = part.parts
        only = parts[0] if len(parts) == 1 else None
        if type(only) is Text and only.cache is None and only.citations is None:
            content: str | list[Wire] = only.text
        else:
            content = self._nested(parts, part.at)
        if part.is_error:
            block["content"] = content or EMPTY_ERROR
            block["is_error"] = True
        elif content:
            block["content"] = content
        return block if part.cache is None else marked(block, part.cache)

    # --- what only a vendor can read ---

    def _keeps_thinking(self, turn: Turn) -> bool:
        """All or nothing a turn: with one block missing the vendor refuses the others (mapping.md 8.7)."""
        return all(self._is_genuine(part) for part in turn.parts if type(part) is Reasoning)

    def _is_genuine(self, part: Reasoning) -> bool:
        native = part.native
        if native is None:
            return False
        match native.get("type"):
            case "thinking":
                return bool(native.get("signature")) or self.target.dialect.unsigned_thinking
            case "redacted_thinking":
                return bool(native.get("data"))
            case _:
                return False

    def _vendor_block(self, part: HostedCall | Opaque) -> Wire | None:
        if is_native(part.native) or (isinstance(part, HostedCall) and part.own):
            return part.native
        self.losses.drop(Rule.HOSTED_TOOL if isinstance(part, HostedCall) else _opaque_rule(part), part.at)
        return None


def _opaque_rule(part: Opaque) -> Rule:
    return Rule.COMPACTION if part.type == "compaction" else Rule.UNKNOWN_FIELD


def marked(block: Wire, mark: CacheMark | None) -> Wire:
    """The block, or tool, with its cache mark; five minutes is what an unsaid lifetime means."""
    if mark is not None:
        block["cache_control"] = write_mark(mark.ttl)
    return block


def write_mark(ttl: Ttl | None) -> Wire:
    """A `cache_control`."""
    return {"type": "ephemeral", "ttl": "1h"} if ttl == "long" else {"type": "ephemeral"}


# --- types of images ---

_MAGIC = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG", "image/png"),
    (b"GIF8", "image/gif"),
)
_ALIASES = {"image/jpg": "image/jpeg"}


def _image_type(source: Source) -> str | None:
    """What the image really is: the vendor refuses bytes that are not what they are declared to be."""
    try:
        start = b64decode(source.data[:16])
    except ValueError:
        start = b""
    for magic, media_type in _MAGIC:
        if start.startswith(magic):
            return media_type
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    declared = essence(source.media_type)
    declared = _ALIASES.get(declared, declared)
    return declared if declared in IMAGE_TYPES else None
