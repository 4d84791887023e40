"""Write turns as the items of `input` (responses.md 4, mapping.md 2.4).

No item carries an id: OpenAI looks ids up. That is also why an assistant's text goes in the short form, role and
string, since `output_text` parts belong to messages that have an id and a status.
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
    Turn,
)
from proxy.canonical.request import Instruction
from proxy.canonical.target import Target
from proxy.protocols.arguments import arguments_text
from proxy.protocols.fields import Wire
from proxy.protocols.media_types import file_name, sent_type

MAX_OUTPUT_CHARACTERS = 10 * 1024 * 1024  # of one tool output (responses.md 4.2)
MEDIA_TYPES = {"image/jpg": "image/jpeg"}  # the registered name; the other one is refused
FILE_DETAILS = frozenset({"auto", "low", "high"})


def write_items(turns: list[Turn], target: Target, losses: LossReport) -> list[Wire]:
    """The items of all turns, in order. Raises `Rejected` for a part that no item can hold."""
    items: list[Wire] = []
    for turn in turns:
        match turn.role:
            case "assistant":
                _assistant_items(items, turn, losses)
            case "user" | "system" | "developer":
                _input_items(items, turn, target, losses)
            case _:
                assert_never(turn.role)
    if turns and turns[-1].role == "assistant" and not any(isinstance(part, Call) for part in turns[-1].parts):
        losses.approx(Rule.PREFILL, turns[-1].at)  # it is history here, and the answer begins anew (mapping.md 2.4)
    return items


def instruction_item(instruction: Instruction, role: str) -> Wire:
    """Leading system text as a message."""
    return _message(role, _short([_input_text(part) for part in instruction.parts]))


def _input_text(part: Text) -> Wire:
    return _marked({"type": "input_text", "text": part.text}, part.cache)


def _marked(part: Wire, mark: CacheMark | None) -> Wire:
    """The content part with its cache mark; half an hour is what an unsaid lifetime means."""
    if mark is not None:
        long = {"mode": "explicit", "ttl": "12h"}
        part["prompt_cache_breakpoint"] = long if mark.ttl == "long" else {"mode": "explicit"}
    return part


def _message(role: str, content: object) -> Wire:
    return {"type": "message", "role": role, "content": content}


# --- the assistant's side ---


def _assistant_items(items: list[Wire], turn: Turn, losses: LossReport) -> None:
    texts: list[Text] = []
    for part in turn.parts:
        if isinstance(part, Text):
            if texts and texts[0].phase != part.phase:
                _flush_texts(items, texts)
            texts.append(part)
            _note_unsaid(part, turn.at, losses)
        elif isinstance(part, Audio):
            losses.approx(Rule.AUDIO, part.at or turn.at)  # an earlier spoken answer is its words (mapping.md 4.4)
            _flush_texts(items, texts)
            texts.append(Text(part.transcript or ""))
            _flush_texts(items, texts)
        else:
            item = _assistant_item(part, turn, losses)
            if item is not None:
                _flush_texts(items, texts)
                items.append(item)
    _flush_texts(items, texts)


def _note_unsaid(part: Text, at: Path, losses: LossReport) -> None:
    """Record what a text had beside its words."""
    if part.citations:
        losses.drop(Rule.CITATIONS, at)


def _flush_texts(items: list[Wire], texts: list[Text]) -> None:
    """One message for texts with nothing between them: Messages splits one text where citations are."""
    if not texts:
        return
    content = "".join([part.text for part in texts])
    if content:
        message = _message("assistant", content)
        if texts[0].phase is not None:
            message["phase"] = texts[0].phase
        items.append(message)
    texts.clear()


def _assistant_item(part: Part, turn: Turn, losses: LossReport) -> Wire | None:
    """The item of a part that is not text; None when the part is left out, which is recorded."""
    match part:
        case Call():
            return _call(part, losses)
        case Reasoning():
            # Only an item of this protocol can be replayed; a text would be imitated (mapping.md 8.6).
            if part.native is not None and part.native.get("type") == "reasoning":
                return part.native
            losses.drop(Rule.FOREIGN_REASONING, part.at or turn.at)
            return None
        case Refusal():
            losses.approx(Rule.REFUSAL, turn.at)
            return _message("assistant", part.text) if part.text else None
        case HostedCall():
            if part.own:
                return part.native
            losses.drop(Rule.HOSTED_TOOL, part.at)
            return None
        case Opaque():
            losses.drop(Rule.UNKNOWN_FIELD, part.at)
            return None
        case Text() | Image() | Document() | Audio() | SearchResult() | Result():
            losses.drop(Rule.CONTENT, turn.at)
            return None
        case _:
            assert_never(part)


def _call(call: Call, losses: LossReport) -> Wire:
    match call.kind:
        case "function":
            return {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments_text(call),
            }
        case "custom":
            return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments}
        case "typed":
            losses.refuse(Rule.TYPED_TOOL, call.at, f"'{call.tool or call.name}' is another vendor's tool.")
        case _:
            assert_never(call.kind)


# --- everyone else's side ---


def _input_items(items: list[Wire], turn: Turn, target: Target, losses: LossReport) -> None:
    """Tool outputs are items of their own; what stands between them is a message."""
    content: list[Wire] = []
    for part in turn.parts:
        if isinstance(part, Result):
            _flush_content(items, turn, content)
            items.append(_output(part, target, losses))
        else:
            written = _input_part(part, turn.at, target, losses)
            if written is not None:
                content.append(written)
    _flush_content(items, turn, content)


def _flush_content(items: list[Wire], turn: Turn, content: list[Wire]) -> None:
    if content:
        items.append(_message(turn.role, _short(content)))
        content.clear()


def _short(content: list[Wire]) -> object:
    """A single text as a string, which every server takes. The list is copied, since its owner goes on with it."""
    if len(content) == 1 and content[0]["type"] == "input_text" and len(content[0]) == 2:
        return content[0]["text"]
    return content.copy()


def _output(result: Result, target: Target, losses: LossReport) -> Wire:
    content = [
        written for part in result.parts if (written := _input_part(part, result.at, target, losses)) is not None
    ]
    if sum([len(str(part.get("text", ""))) for part in content]) > MAX_OUTPUT_CHARACTERS:
        losses.refuse(Rule.CONTENT, result.at, "a tool output may have 10 MiB of characters.")
    item: Wire = {"type": "custom_tool_call_output" if result.kind == "custom" else "function_call_output"}
    if result.call_id is not None:
        item["call_id"] = result.call_id
    item["output"] = _short(content) if content else ""
    return item


def _input_part(part: Part, at: Path, target: Target, losses: LossReport) -> Wire | None:
    """The content part; None when the part is left out, which is recorded. `at` is the place of its turn."""
    match part:
        case Text():
            _note_unsaid(part, at, losses)
            return _input_text(part)
        case Image():
            return _marked(_image(part, target, losses), part.cache)
        case Document():
            return _marked(_file(part, target, losses), part.cache)
        case Audio():
            if not target.dialect.audio_parts:
                losses.refuse(Rule.AUDIO_IN, part.at, "the backend hears no audio.")
            sound = {"data": part.data, "format": part.format}
            return _marked({"type": "input_audio", "input_audio": sound}, part.cache)
        case SearchResult():
            losses.approx(Rule.SEARCH_RESULT, part.at)
            texts = "\n".join(text.text for text in part.content)
            return {"type": "input_text", "text": f"Source: {part.title} ({part.source})\n{texts}"}
        case Refusal():
            losses.approx(Rule.REFUSAL, at)
            return {"type": "input_text", "text": part.text}
        case Call() | Reasoning() | Result():
            losses.drop(Rule.CONTENT, part.at or at)
            return None
        case HostedCall():
            losses.drop(Rule.HOSTED_TOOL, part.at)
            return None
        case Opaque():
            losses.drop(Rule.UNKNOWN_FIELD, part.at)
            return None
        case _:
            assert_never(part)


def _image(part: Image, target: Target, losses: LossReport) -> Wire:
    detail = part.detail or "auto"
    if part.source.kind == "file":
        return {"type": "input_image", "file_id": _file_id(part.source, part.at, target, losses), "detail": detail}
    if part.source.kind == "text":
        losses.refuse(Rule.CONTENT, part.at, "an image can't be given as text.")
    if part.source.kind == "url" and target.dialect.no_url_images:
        losses.refuse(Rule.IMAGE, part.at, "the backend takes no image URLs; send the image itself.")
    url = (
        part.source.data if part.source.kind == "url" else _data_url(part.source.media_type or "image/png", part.source)
    )
    return {"type": "input_image", "image_url": url, "detail": detail}


def _file(part: Document, target: Target, losses: LossReport) -> Wire:
    source = part.source
    if source is None or source.kind == "text":
        losses.approx(Rule.TEXT_DOC, part.at)
        return {"type": "input_text", "text": _document_text(part)}
    written: Wire = {"type": "input_file"}
    if not target.dialect.file_parts:
        losses.refuse(Rule.DOC_TYPE, part.at, "the backend takes no files; send what they say as text.")
    if source.kind == "file":
        written["file_id"] = _file_id(source, part.at, target, losses)
    elif source.kind == "url":
        written["file_url"] = source.data
        if part.title:
            written["filename"] = part.title
    else:
        media_type = sent_type(part)
        written["file_data"] = _data_url(media_type, source)
        written["filename"] = file_name(part, media_type)
    if part.detail in FILE_DETAILS:
        written["detail"] = part.detail
    return written


def _document_text(part: Document) -> str:
    texts = [inner.text for inner in part.content or () if isinstance(inner, Text)]
    return part.source.data if part.source is not None else "\n".join(texts)


def _data_url(media_type: str, source: Source) -> str:
    return f"data:{MEDIA_TYPES.get(media_type, media_type)};base64,{source.data}"


def _file_id(source: Source, at: Path, target: Target, losses: LossReport) -> str:
    if source.vendor != target.dialect.family:
        losses.refuse(Rule.FILE_ID, at, "file ids mean something only to the vendor that gave them.")
    return source.data
