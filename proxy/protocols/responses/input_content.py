"""Read the content parts of messages and tool outputs (responses.md 5).

Unlike in Chat, `image_url` is a string and the fields of a file are flat. Output parts are read wherever input parts
are, since clients replay answers in both forms.
"""

from collections.abc import Callable

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    Audio,
    CacheMark,
    Document,
    Image,
    Opaque,
    Part,
    Refusal,
    Source,
    Text,
)
from proxy.protocols.fields import (
    Wire,
    array,
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
from proxy.protocols.responses.citations import read_citation

IMAGE_DETAILS = frozenset({"auto", "low", "high", "original"})
FILE_DETAILS = frozenset({"auto", "low", "high"})
BREAKPOINT_TTLS = frozenset({"30m", "12h"})
PDF_HEAD = "JVBERi0"  # base64 of `%PDF-`


def read_content(content: object, path: Path, losses: LossReport, phase: str | None = None) -> list[Part]:
    """The parts of `content`: a string, or an array of content parts. Raises `Rejected`."""
    if type(content) is str:
        return [Text(content, None, phase)]
    if type(content) is not list:
        invalid(path, f"expected a string or an array of content parts, got {kind(content)}.")
    parts: list[Part] = []
    for index, wire in enumerate(content):
        at = (*path, index)
        part = _read_part(as_object(wire, at), at, losses)
        if phase is not None and isinstance(part, Text):
            part.phase = phase
        parts.append(part)
    return parts


def _read_part(wire: Wire, path: Path, losses: LossReport) -> Part:
    part_type = need_text(wire, "type", path)
    known = ON_PART.get(part_type)
    if known is None:
        losses.drop(Rule.UNKNOWN_FIELD, path)
        return Opaque(part_type, wire, path)
    read, names = known
    if not wire.keys() <= names:
        report_unknown(wire, names, path, losses)
    return read(wire, path, losses)


def _text(wire: Wire, path: Path, losses: LossReport) -> Text:
    shown = need_text(wire, "text", path)
    return Text(shown, cache=_cache_mark(wire, path, losses)) if len(wire) > 2 else Text(shown)


def _output_text(wire: Wire, path: Path, losses: LossReport) -> Text:
    """Text of an earlier answer. How likely its tokens were is of no use to a backend."""
    shown = need_text(wire, "text", path)
    if not wire.get("annotations") and not wire.get("logprobs"):
        return Text(shown)
    if array(wire, "logprobs", path):
        losses.drop(Rule.LOGPROBS, (*path, "logprobs"))
    annotations = array(wire, "annotations", path)
    return Text(shown, [read_citation(entry) for entry in annotations or () if is_object(entry)] or None)


def _refusal(wire: Wire, path: Path, _: LossReport) -> Refusal:
    return Refusal(need_text(wire, "refusal", path))


def _image(wire: Wire, path: Path, losses: LossReport) -> Image:
    source = read_image_source(wire, path, losses)
    return Image(source, one_of(wire, "detail", IMAGE_DETAILS, path), cache=_cache_mark(wire, path, losses), at=path)


def read_image_source(wire: Wire, path: Path, losses: LossReport) -> Source:
    """Where an image is: `image_url` (a URL or a data URL) or `file_id`."""
    _note_others(wire, ("image_url", "file_id"), path, losses)
    url = text(wire, "image_url", path)
    if url is not None:
        return _source_of_url(url, (*path, "image_url"))
    file_id = text(wire, "file_id", path)
    if file_id is not None:
        return Source("file", file_id, vendor="openai")
    invalid(path, "an image needs 'image_url' or 'file_id'.", code="missing_required_parameter")


def _note_others(wire: Wire, sources: tuple[str, ...], path: Path, losses: LossReport) -> None:
    """Record the sources behind the first one that is given: a part has one."""
    given = [name for name in sources if wire.get(name) is not None]
    for name in given[1:]:
        losses.drop(Rule.CONTENT, (*path, name))


def _file(wire: Wire, path: Path, losses: LossReport) -> Document:
    return Document(
        _file_source(wire, path, losses),
        title=text(wire, "filename", path),
        detail=one_of(wire, "detail", FILE_DETAILS, path),
        cache=_cache_mark(wire, path, losses),
        at=path,
    )


def _file_source(wire: Wire, path: Path, losses: LossReport) -> Source:
    _note_others(wire, ("file_data", "file_url", "file_id"), path, losses)
    contents = text(wire, "file_data", path)
    if contents is not None:
        if contents.startswith("data:"):
            return _source_of_url(contents, (*path, "file_data"))
        return Source("base64", contents, "application/pdf" if contents.startswith(PDF_HEAD) else None)
    url = text(wire, "file_url", path)
    if url is not None:
        return _source_of_url(url, (*path, "file_url"))
    file_id = text(wire, "file_id", path)
    if file_id is not None:
        return Source("file", file_id, vendor="openai")
    invalid(path, "a file needs 'file_data', 'file_url' or 'file_id'.", code="missing_required_parameter")


def _source_of_url(url: str, path: Path) -> Source:
    if not url.startswith("data:"):
        return Source("url", url)
    head, comma, encoded = url.partition(",")
    media_type, *parameters = head.removeprefix("data:").lower().split(";")
    if not comma or "base64" not in parameters:
        invalid(path, "a data URL must read 'data:<media type>;base64,<data>'.", code="invalid_value")
    return Source("base64", encoded, media_type or None)


def _audio(wire: Wire, path: Path, losses: LossReport) -> Audio:
    at = (*path, "input_audio")
    sound = mapping(wire, "input_audio", path)
    if sound is None:
        invalid(at, "this field is required.", code="missing_required_parameter")
    report_unknown(sound, frozenset({"data", "format"}), at, losses)
    return Audio(need_text(sound, "data", at), need_text(sound, "format", at), at=path)


def _cache_mark(wire: Wire, path: Path, losses: LossReport) -> CacheMark | None:
    mark = mapping(wire, "prompt_cache_breakpoint", path)
    if mark is None:
        return None
    at = (*path, "prompt_cache_breakpoint")
    report_unknown(mark, frozenset({"mode", "ttl"}), at, losses)
    return CacheMark("long" if one_of(mark, "ttl", BREAKPOINT_TTLS, at) == "12h" else "short", at)


_TEXT = frozenset({"type", "text", "prompt_cache_breakpoint"})

# How a part is read, and the fields that it may have.
ON_PART: dict[str, tuple[Callable[[Wire, Path, LossReport], Part], frozenset[str]]] = {
    "input_text": (_text, _TEXT),
    "text": (_text, _TEXT),
    "output_text": (_output_text, frozenset({"type", "text", "annotations", "logprobs"})),
    "input_image": (
        _image,
        frozenset({"type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"}),
    ),
    "input_file": (
        _file,
        frozenset({"type", "file_data", "file_url", "file_id", "filename", "detail", "prompt_cache_breakpoint"}),
    ),
    "refusal": (_refusal, frozenset({"type", "refusal"})),
    "input_audio": (_audio, frozenset({"type", "input_audio"})),
}
