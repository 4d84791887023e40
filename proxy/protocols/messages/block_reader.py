"""Read the content blocks of a Messages request: one function a block type, one table a role.

A block in a role that can't hold it is refused, as the vendor does; a block type that no sheet knows is kept as
an opaque part and recorded, since the vendor adds types without a new version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.canonical.errors import InexactNumber
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import (
    CacheMark,
    Call,
    Document,
    Extra,
    HostedCall,
    Image,
    Opaque,
    Part,
    Reasoning,
    Result,
    SearchResult,
    Source,
    Text,
)
from proxy.protocols.arguments import may_be_rounded
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    kind,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
)
from proxy.protocols.media_types import PDF
from proxy.protocols.messages.arguments import unwrapped
from proxy.protocols.messages.citations import read_citations
from proxy.protocols.messages.tables import SERVER_RESULTS, SERVER_TOOLS


@dataclass(slots=True)
class BlockReader:
    """What reading a block needs beside it.

    `typed` maps names of client tools that Anthropic defines to their kind; `exact` says that big numbers are what
    the client wrote.
    """

    losses: LossReport
    exact: bool = False
    typed: dict[str, str] = field(default_factory=dict)

    def parts(self, content: object, path: Path, table: "BlockTable") -> list[Part]:
        """The parts of a `content`: a string, or blocks of the types that `table` reads."""
        if type(content) is str:
            return [Text(content)] if content else []
        if type(content) is not list:
            invalid(path, f"expected a string or an array of blocks, got {kind(content)}.")
        parts: list[Part] = []
        for index, block in enumerate(content):
            at = (*path, index)
            if type(block) is not dict:
                invalid(at, f"expected an object, got {kind(block)}.")
            wire_type = block.get("type")
            read = table.get(wire_type) if type(wire_type) is str else None
            parts.append(read(block, at, self) if read is not None else _other(block, at, self))
        return parts


ReadBlock = Callable[[Wire, Path, BlockReader], Part]
BlockTable = Mapping[str, ReadBlock]


def read_mark(wire: Wire, path: Path, losses: LossReport) -> CacheMark | None:
    """The `cache_control` of a block, a tool or a request."""
    if wire.get("cache_control") is None:
        return None
    mark = mapping(wire, "cache_control", path) or {}
    at = (*path, "cache_control")
    report_unknown(mark, frozenset({"type", "ttl"}), at, losses)
    one_of(mark, "type", frozenset({"ephemeral"}), at)
    return CacheMark("long" if one_of(mark, "ttl", frozenset({"5m", "1h"}), at) == "1h" else "short", at)


TEXT_FIELDS = frozenset({"type", "text", "citations", "cache_control"})


def read_text(block: Wire, path: Path, reader: BlockReader) -> Text:
    """A `text` block."""
    value = block.get("text")
    if type(value) is not str:
        value = need_text(block, "text", path)
    part = Text(value)
    if len(block) > 2:
        part.citations = read_citations(array(block, "citations", path))
        part.cache = read_mark(block, path, reader.losses)
        _report(block, TEXT_FIELDS, path, reader)
    return part


def _report(block: Wire, known: frozenset[str], path: Path, reader: BlockReader) -> None:
    if not block.keys() <= known:
        report_unknown(block, known, path, reader.losses)


# --- images, documents, search results ---

_IMAGE_FIELDS = frozenset({"type", "source", "transformations", "cache_control"})
_DOCUMENT_FIELDS = frozenset({"type", "source", "title", "context", "citations", "cache_control"})
_SEARCH_FIELDS = frozenset({"type", "source", "title", "content", "citations", "cache_control"})


def _image(block: Wire, path: Path, reader: BlockReader) -> Image:
    _report(block, _IMAGE_FIELDS, path, reader)
    source = mapping(block, "source", path)
    if source is None:
        invalid((*path, "source"), "this field is required.")
    return Image(
        _source(source, (*path, "source"), _IMAGE_SOURCES, reader),
        transformed=mapping(block, "transformations", path) is not None,
        cache=read_mark(block, path, reader.losses),
        at=path,
    )


def _document(block: Wire, path: Path, reader: BlockReader) -> Document:
    _report(block, _DOCUMENT_FIELDS, path, reader)
    document = Document(
        None,
        title=text(block, "title", path),
        context=text(block, "context", path),
        cite=_cites(block, path, reader),
        cache=read_mark(block, path, reader.losses),
        at=path,
    )
    source = mapping(block, "source", path)
    at = (*path, "source")
    if source is None:
        invalid(at, "this field is required.")
    if source.get("type") == "content":
        _report(source, _SOURCE_FIELDS["content"], at, reader)
        document.content = reader.parts(source.get("content"), (*at, "content"), _SOURCE_CONTENT)
    else:
        document.source = _source(source, at, _DOCUMENT_SOURCES, reader)
    return document


_IMAGE_SOURCES = frozenset({"base64", "url", "file"})
_DOCUMENT_SOURCES = frozenset({"base64", "url", "file", "text", "content"})


_SOURCE_FIELDS: dict[str, frozenset[str]] = {
    "base64": frozenset({"type", "data", "media_type"}),
    "url": frozenset({"type", "url"}),
    "file": frozenset({"type", "file_id"}),
    "text": frozenset({"type", "data", "media_type"}),
    "content": frozenset({"type", "content"}),
}


def _source(source: Wire, path: Path, allowed: frozenset[str], reader: BlockReader) -> Source:
    need_text(source, "type", path)
    source_type = one_of(source, "type", allowed, path) or ""
    _report(source, _SOURCE_FIELDS[source_type], path, reader)
    match source_type:
        case "base64":
            return Source("base64", need_text(source, "data", path), need_text(source, "media_type", path))
        case "url":
            return Source("url", need_text(source, "url", path), PDF if allowed is _DOCUMENT_SOURCES else None)
        case "file":
            return Source("file", need_text(source, "file_id", path), vendor="anthropic")
        case _:
            return Source("text", need_text(source, "data", path), text(source, "media_type", path) or "text/plain")


def _cites(block: Wire, path: Path, reader: BlockReader) -> bool:
    citations = mapping(block, "citations", path)
    if citations is None:
        return False
    at = (*path, "citations")
    _report(citations, frozenset({"enabled"}), at, reader)
    return flag(citations, "enabled", at) is True


def _search_result(block: Wire, path: Path, reader: BlockReader) -> SearchResult:
    _report(block, _SEARCH_FIELDS, path, reader)
    if _cites(block, path, reader):
        reader.losses.drop(Rule.CITE_REQUEST, (*path, "citations"))
    content: list[Text] = []
    at = (*path, "content")
    for index, entry in enumerate(array(block, "content", path) or ()):
        entry_at = (*at, index)
        content.append(read_text(as_object(entry, entry_at), entry_at, reader))
    return SearchResult(
        need_text(block, "source", path),
        need_text(block, "title", path),
        content,
        cache=read_mark(block, path, reader.losses),
        at=path,
    )


# --- thinking ---


def _thinking(block: Wire, path: Path, _reader: BlockReader) -> Reasoning:
    return Reasoning(need_text(block, "thinking", path), native=block, at=path)


def _redacted_thinking(block: Wire, path: Path, _reader: BlockReader) -> Reasoning:
    need_text(block, "data", path)
    return Reasoning("", native=block, redacted=True, at=path)


# --- calls and results ---

_CALL_FIELDS = frozenset({"type", "id", "name", "input", "caller", "toolset_name", "cache_control"})
_RESULT_FIELDS = frozenset({"type", "tool_use_id", "content", "is_error", "toolset_name", "cache_control"})


def _call(block: Wire, path: Path, reader: BlockReader) -> Call:
    name = need_text(block, "name", path)
    call = Call(need_text(block, "id", path), name, "", None, "function", None, None, None, None, path)
    arguments = mapping(block, "input", path) or {}
    if not reader.exact and may_be_rounded(arguments):
        raise InexactNumber
    wrapped = unwrapped(arguments)
    if wrapped is None:
        call.input = arguments
    else:
        call.arguments = wrapped
    if len(block) > 4 or block.get("input") is None:
        toolset = text(block, "toolset_name", path)
        _note_caller(block, path, reader)
        call.extra = _kept(block, ("caller",))
        call.cache = read_mark(block, path, reader.losses)
        if toolset is not None:
            call.kind, call.tool, call.namespace = "typed", toolset, toolset
        _report(block, _CALL_FIELDS, path, reader)
    if call.kind == "function" and (tool := reader.typed.get(call.name)) is not None:
        call.kind, call.tool = "typed", tool
    return call


def _note_caller(block: Wire, path: Path, reader: BlockReader) -> None:
    """Record that code of the vendor made a call, which other protocols know nothing of."""
    caller = mapping(block, "caller", path)
    if caller is None:
        return
    at = (*path, "caller")
    _report(caller, frozenset({"type", "tool_id"}), at, reader)
    if caller.get("type") != "direct":
        reader.losses.approx(Rule.ALLOWED_CALLERS, at)


def _kept(block: Wire, names: tuple[str, ...]) -> Extra | None:
    """The fields that go back unchanged to their own protocol and have no meaning in another."""
    return {name: block[name] for name in names if block.get(name) is not None} or None


def _result(block: Wire, path: Path, reader: BlockReader) -> Result:
    content = block.get("content")
    parts = [] if content is None else reader.parts(content, (*path, "content"), _RESULT_CONTENT)
    result = Result(need_text(block, "tool_use_id", path), parts, False, "function", None, None, None, path)
    if len(block) > 3 or content is None:
        result.is_error = flag(block, "is_error", path) or False
        text(block, "toolset_name", path)
        result.extra = _kept(block, ("toolset_name",))
        result.cache = read_mark(block, path, reader.losses)
        _report(block, _RESULT_FIELDS, path, reader)
    return result


def _result_only(block: Wire, path: Path, reader: BlockReader) -> Opaque:
    """`tool_reference` and `browser_state`: the translation layer turns them into what the backend can hold."""
    if block["type"] == "tool_reference":
        need_text(block, "tool_name", path)
        _report(block, frozenset({"type", "tool_name", "cache_control"}), path, reader)
    mark = read_mark(block, path, reader.losses)
    if mark is not None:
        reader.losses.drop(mark.rule, mark.at)
        block = {name: value for name, value in block.items() if name != "cache_control"}
    return Opaque(str(block["type"]), block, at=path)


# --- what the vendor runs itself ---


def _server_call(block: Wire, path: Path, _reader: BlockReader) -> HostedCall:
    name = need_text(block, "name", path)
    tool = "mcp" if block["type"] == "mcp_tool_use" else SERVER_TOOLS.get(name, name)
    return HostedCall(tool, block, need_text(block, "id", path), at=path)


def _server_result(block: Wire, path: Path, _reader: BlockReader) -> HostedCall:
    call_id = need_text(block, "tool_use_id", path)
    return HostedCall(SERVER_RESULTS[str(block["type"])], block, call_id, is_result=True, at=path)


def _container_upload(_block: Wire, path: Path, reader: BlockReader) -> Opaque:
    reader.losses.refuse(Rule.CONTAINER_UPLOAD, path, "files of a container stay at the vendor that holds them.")


def _left_out(rule: Rule) -> ReadBlock:
    """A block that no other protocol has a form for and that the answer does not rest on."""

    def read(block: Wire, path: Path, reader: BlockReader) -> Opaque:
        reader.losses.drop(rule, path)
        return Opaque(str(block["type"]), block, at=path)

    return read


def _compaction(block: Wire, path: Path, reader: BlockReader) -> Text | Opaque:
    """A summary in place of all that came before it. Its words are carried, its signature can't be."""
    summary = text(block, "content", path)
    if summary is None:
        reader.losses.drop(Rule.COMPACTION, path)
        return Opaque("compaction", block, at=path)
    reader.losses.approx(Rule.COMPACTION, path)
    return Text(summary, cache=read_mark(block, path, reader.losses))


def _tool_change(block: Wire, path: Path, _reader: BlockReader) -> Opaque:
    """`tool_addition` and `tool_removal`: whoever reads the message applies them."""
    return Opaque(str(block["type"]), block, at=path)


def _misplaced(block: Wire, path: Path, _reader: BlockReader) -> Part:
    invalid((*path, "type"), f"a '{block['type']}' block can't stand here.")


def _other(block: Wire, path: Path, reader: BlockReader) -> Opaque:
    wire_type = need_text(block, "type", path)
    reader.losses.drop(Rule.UNKNOWN_FIELD, path)
    return Opaque(wire_type, block, at=path)


# Which block may appear where (messages.md 7.3).
_ANYWHERE: dict[str, ReadBlock] = {
    "text": read_text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "compaction": _compaction,
}
_IN_ASSISTANT: dict[str, ReadBlock] = {
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
    "tool_use": _call,
    "server_tool_use": _server_call,
    "mcp_tool_use": _server_call,
    **dict.fromkeys(SERVER_RESULTS, _server_result),
    "mcp_tool_listing": _left_out(Rule.MCP_SERVERS),
    "fallback": _left_out(Rule.FALLBACKS),
}
_IN_USER: dict[str, ReadBlock] = {"tool_result": _result, "container_upload": _container_upload}
_IN_RESULT: dict[str, ReadBlock] = {"tool_reference": _result_only, "browser_state": _result_only}

_NOWHERE: dict[str, ReadBlock] = dict.fromkeys(
    (*_IN_ASSISTANT, *_IN_USER, *_IN_RESULT, "tool_addition", "tool_removal"), _misplaced
)
USER_BLOCKS: BlockTable = {**_NOWHERE, **_ANYWHERE, **_IN_USER}
ASSISTANT_BLOCKS: BlockTable = {
    **_NOWHERE,
    **_ANYWHERE,
    **_IN_ASSISTANT,
    "container_upload": _left_out(Rule.CONTAINER_UPLOAD),
}
SYSTEM_BLOCKS: BlockTable = {**_NOWHERE, **dict.fromkeys(_ANYWHERE, _misplaced), "text": read_text}
SYSTEM_MESSAGE_BLOCKS: BlockTable = {**SYSTEM_BLOCKS, "tool_addition": _tool_change, "tool_removal": _tool_change}
_RESULT_CONTENT: BlockTable = {**_NOWHERE, **_ANYWHERE, "compaction": _misplaced, **_IN_RESULT}
_SOURCE_CONTENT: BlockTable = {**_NOWHERE, "text": read_text, "image": _image}
