"""The parts that turns and replies are made of (mapping.md 1.2).

Parts are immutable by convention: readers make them, writers only look. `at` is where a part stood in the
client's request, kept on those parts that some protocol can't carry, so that a loss can name its place.
`extra` holds what only the protocol of origin knows.
"""

from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical.loss import Path, Rule

Extra = dict[str, object]
Ttl = Literal["short", "long"]  # 5 min / 30 min, 1 h / 12 h (mapping.md 10.1)


@dataclass(slots=True)
class CacheMark:
    """A prompt-cache breakpoint right behind the part that carries it. `at` is the mark's own place."""

    ttl: Ttl = "short"
    at: Path = field(default=(), compare=False)

    @property
    def rule(self) -> Rule:
        """What its loss is recorded under: the client's name of the field."""
        return Rule.PROMPT_CACHE_BREAKPOINT if self.at[-1:] == ("prompt_cache_breakpoint",) else Rule.CACHE_CONTROL


@dataclass(slots=True)
class Citation:
    """Where a statement of the answer came from (mapping.md 4.7).

    `kind` `url` is a web page; the others point into documents. `start` and `end` are code points in
    the text part that holds the citation; None: the whole part. `native` is the citation as its protocol
    wrote it.
    """

    kind: Literal["url", "file", "document"]
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    native: Extra | None = None


@dataclass(slots=True)
class Text:
    """Visible text. `phase` is Responses' `commentary` or `final_answer`; `logprobs` has Chat's entry shape.
    `apart`: in a reply, it belongs to another message than the text before it.
    """

    text: str
    citations: list[Citation] | None = None
    phase: str | None = None
    logprobs: list[object] | None = None
    cache: CacheMark | None = None
    apart: bool = False


@dataclass(slots=True)
class Source:
    """Where the bytes of an image or a document are.

    `url`: `data` is an http(s) URL; `base64`: `data` is base64 of `media_type`; `text`: plain text;
    `file`: a file id of `vendor`, to whom the client's protocol belongs and who alone knows it.
    """

    kind: Literal["url", "base64", "text", "file"]
    data: str
    media_type: str | None = None
    vendor: str | None = None


@dataclass(slots=True)
class Image:
    """An image. `detail` is `auto`, `low`, `high`, `original` or None (not said)."""

    source: Source
    detail: str | None = None
    transformed: bool = False  # Messages' `transformations` was set
    cache: CacheMark | None = None
    at: Path = ()


@dataclass(slots=True)
class Document:
    """A file that the model reads. `content` holds the blocks of Messages' content source instead of bytes."""

    source: Source | None
    title: str | None = None
    context: str | None = None
    cite: bool = False
    detail: str | None = None
    content: list["Part"] | None = None
    cache: CacheMark | None = None
    at: Path = ()


@dataclass(slots=True)
class Audio:
    """Spoken input, base64 of `format` (`wav`, `mp3`), or an earlier spoken answer of the assistant (`id`)."""

    data: str
    format: str
    id: str | None = None
    transcript: str | None = None
    cache: CacheMark | None = None
    at: Path = ()


@dataclass(slots=True)
class SearchResult:
    """Messages' `search_result`: text with a source that may be cited."""

    source: str
    title: str
    content: list[Text]
    cache: CacheMark | None = None
    at: Path = ()


CallKind = Literal["function", "custom", "typed"]


@dataclass(slots=True)
class Call:
    """The model asks for a client-side tool.

    `arguments` is JSON text as the model wrote it (for `custom`: the free text); it is never repaired.
    `input` is set only in requests, by a protocol whose arguments are objects; `arguments` is then "". In replies and
    streams arguments are always text.
    `namespace` is Responses' group name. `tool` names the kind of a typed call (`shell`, `apply_patch`, …).
    """

    id: str
    name: str
    arguments: str = ""
    input: dict[str, object] | None = None
    kind: CallKind = "function"
    namespace: str | None = None
    tool: str | None = None
    cache: CacheMark | None = None
    extra: Extra | None = None
    at: Path = ()


@dataclass(slots=True)
class Result:
    """What a client-side tool answered. `call_id` is None for an output that names no call."""

    call_id: str | None
    parts: list["Part"]
    is_error: bool = False
    kind: CallKind = "function"
    name: str | None = None
    cache: CacheMark | None = None
    extra: Extra | None = None
    at: Path = ()


@dataclass(slots=True)
class Reasoning:
    """The model's thinking.

    `text` is what may be shown ("" when the vendor hides it); `full` says that it is the chain itself and
    not a summary. `native` is the vendor's own block or item with its signature or encrypted content,
    verbatim; `redacted` marks one without any text by design. `field` is the Chat field it came under.
    """

    text: str
    full: bool = False
    native: Extra | None = None
    redacted: bool = False
    field: str | None = None
    at: Path = ()


@dataclass(slots=True)
class Refusal:
    """The model declines, in its own words."""

    text: str
    cache: CacheMark | None = None


@dataclass(slots=True)
class HostedCall:
    """A tool that the backend ran itself, call and result together or apart.

    `tool` is the kind (`web_search`, `web_fetch`, `code`, `file_search`, `image_generation`, `mcp`,
    `tool_search`, other native names); `native` is the item or block verbatim. `own`: in a request, this very backend
    sent it and wants it back as it is. `shown`: in a reply, it is of the client's protocol, made to show what was done.
    """

    tool: str
    native: Extra
    id: str = ""
    is_result: bool = False
    at: Path = ()
    own: bool = False
    shown: bool = False


@dataclass(slots=True)
class Opaque:
    """A part that only its own protocol knows: compaction, container uploads, items of the future."""

    type: str
    native: Extra
    at: Path = ()


Part = Text | Image | Document | Audio | SearchResult | Call | Result | Reasoning | Refusal | HostedCall | Opaque

# Parts that a reply can hold; a stream opens, grows and closes these.
ReplyPart = Text | Call | Reasoning | Refusal | HostedCall | Opaque

Role = Literal["user", "assistant", "system", "developer"]


@dataclass(slots=True)
class Turn:
    """One message, or one run of Responses items of one side. Tool results are parts of `user` turns.

    Turns of one role that follow each other are not merged here; writers merge where their protocol
    wants it. `at` is the place of the message (or of the first item) in the client's request.
    """

    role: Role
    parts: list[Part] = field(default_factory=list)
    name: str | None = None
    extra: Extra | None = None
    at: Path = ()
