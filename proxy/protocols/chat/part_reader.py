"""Read the content of a message: a string, or an array of typed parts.

Which parts a role may hold is not checked here beyond what OpenAI's own servers differ in: servers take images in
tool messages that OpenAI refuses there, so one table serves all roles.
"""

from collections.abc import Callable

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Audio, CacheMark, Document, Image, Part, Reasoning, Refusal, Source, Text
from proxy.protocols.chat.tables import AUDIO_FORMATS, DETAILS, IN_CONTENT
from proxy.protocols.fields import (
    Wire,
    as_object,
    invalid,
    is_object,
    kind,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
)

PartReader = Callable[[Wire, Path, LossReport], Part | None]

_LONG = {"prompt_cache_breakpoint": "12h", "cache_control": "1h"}  # what a long life is called in each kind of mark
_MARKS = _LONG.keys()
_MARK_FIELDS = frozenset({"type", "mode", "ttl"})
_TEXT_FIELDS = frozenset({"type", "text"}) | _MARKS
_IMAGE_FIELDS = frozenset({"type", "image_url"}) | _MARKS
_AUDIO_FIELDS = frozenset({"type", "input_audio"}) | _MARKS
_FILE_FIELDS = frozenset({"type", "file"}) | _MARKS
_REFUSAL_FIELDS = frozenset({"type", "refusal"})
_PDF_IN_BASE64 = "JVBERi"  # `%PDF-`


def read_parts(value: object, path: Path, losses: LossReport) -> list[Part]:
    """The parts of a message's `content` that is no string; it stands at `path`."""
    if type(value) is not list:
        invalid(path, f"expected a string or an array of content parts, got {kind(value)}.")
    parts: list[Part] = []
    for index, item in enumerate(value):
        at = (*path, index)
        wire = as_object(item, at)
        read = PARTS.get(need_text(wire, "type", at))
        if read is None:
            losses.drop(Rule.UNKNOWN_FIELD, at)
            continue
        part = read(wire, at, losses)
        if part is not None:
            parts.append(part)
    return parts


def texts_of(parts: list[Part], path: Path) -> list[Text]:
    """The parts of a system message, which may hold nothing but text."""
    texts: list[Text] = []
    for index, part in enumerate(parts):
        if not isinstance(part, Text):
            invalid((*path, index), "only text parts are allowed in messages of this role.", code="invalid_value")
        texts.append(part)
    return texts


def _read_text(wire: Wire, path: Path, losses: LossReport) -> Text | None:
    if not wire.keys() <= _TEXT_FIELDS:
        report_unknown(wire, _TEXT_FIELDS, path, losses)
    value = text(wire, "text", path)
    if value is None:
        return None  # some clients send a null (mapping.md 2.5)
    return Text(value, cache=read_mark(wire, path, losses) if len(wire) > 2 else None)


def _read_image(wire: Wire, path: Path, losses: LossReport) -> Image:
    report_unknown(wire, _IMAGE_FIELDS, path, losses)
    value = wire.get("image_url")
    if type(value) is str:
        return Image(_read_url(value, (*path, "image_url")), cache=read_mark(wire, path, losses), at=path)
    at = (*path, "image_url")
    image = as_object(value, at)
    report_unknown(image, frozenset({"url", "detail"}), at, losses)
    return Image(
        _read_url(need_text(image, "url", at), (*at, "url")),
        detail=one_of(image, "detail", DETAILS, at),
        cache=read_mark(wire, path, losses),
        at=path,
    )


def _read_url(url: str, path: Path) -> Source:
    if not url.startswith("data:"):
        return Source("url", url)
    media_type, content = _split_data_url(url, path)
    return Source("base64", content, media_type)


def _split_data_url(url: str, path: Path) -> tuple[str | None, str]:
    """`data:image/png;base64,…` as (media type, base64)."""
    header, comma, content = url.partition(",")
    media_type, *parameters = header.removeprefix("data:").split(";")
    if not comma or "base64" not in parameters:
        invalid(path, "expected a data URL of the form 'data:<media type>;base64,<data>'.", code="invalid_value")
    return media_type.strip().lower() or None, content


def _read_audio(wire: Wire, path: Path, losses: LossReport) -> Audio:
    report_unknown(wire, _AUDIO_FIELDS, path, losses)
    at = (*path, "input_audio")
    audio = as_object(wire.get("input_audio"), at)
    report_unknown(audio, frozenset({"data", "format"}), at, losses)
    form = one_of(audio, "format", AUDIO_FORMATS, at)
    if form is None:
        invalid((*at, "format"), "this field is required.", code="missing_required_parameter")
    return Audio(need_text(audio, "data", at), form, cache=read_mark(wire, path, losses), at=path)


def _read_file(wire: Wire, path: Path, losses: LossReport) -> Document:
    report_unknown(wire, _FILE_FIELDS, path, losses)
    at = (*path, "file")
    file = as_object(wire.get("file"), at)
    report_unknown(file, frozenset({"file_data", "file_id", "filename"}), at, losses)
    content = text(file, "file_data", at)
    file_id = text(file, "file_id", at)
    if content is not None and file_id is not None:
        losses.drop(Rule.CONTENT, (*at, "file_id"))
    if content is None:
        if file_id is None:
            invalid(at, "one of 'file_data' and 'file_id' is required.", code="missing_required_parameter")
        source = Source("file", file_id, vendor="openai")
    elif content.startswith("data:"):
        media_type, content = _split_data_url(content, (*at, "file_data"))
        source = Source("base64", content, media_type)
    else:
        source = Source("base64", content, "application/pdf" if content.startswith(_PDF_IN_BASE64) else None)
    return Document(source, title=text(file, "filename", at), cache=read_mark(wire, path, losses), at=path)


def _read_refusal(wire: Wire, path: Path, losses: LossReport) -> Refusal:
    report_unknown(wire, _REFUSAL_FIELDS, path, losses)
    return Refusal(need_text(wire, "refusal", path))


def _read_video(_wire: Wire, path: Path, losses: LossReport) -> None:
    losses.refuse(Rule.VIDEO_URL, path)


def _read_thinking(wire: Wire, path: Path, _losses: LossReport) -> Reasoning:
    """Mistral's `{"type": "thinking", "thinking": [{"type": "text", "text": …}]}`."""
    return Reasoning(thinking_text(wire.get("thinking")), full=True, native=wire, field=IN_CONTENT, at=path)


def thinking_text(value: object) -> str:
    """The text of Mistral's list of thinking pieces."""
    if type(value) is str:
        return value
    if type(value) is not list:
        return ""
    pieces = (piece.get("text") for piece in value if is_object(piece))
    return "".join(piece for piece in pieces if type(piece) is str)


PARTS: dict[str, PartReader] = {
    "text": _read_text,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "refusal": _read_refusal,
    "video_url": _read_video,
    "thinking": _read_thinking,
}


def read_mark(wire: Wire, path: Path, losses: LossReport) -> CacheMark | None:
    """`prompt_cache_breakpoint` of OpenAI, or the `cache_control` that gateways in front of Claude take."""
    for name, long in _LONG.items():
        mark = mapping(wire, name, path)
        if mark is not None:
            at = (*path, name)
            report_unknown(mark, _MARK_FIELDS, at, losses)
            return CacheMark("long" if text(mark, "ttl", at) == long else "short", at)
    return None
