"""Tools that a request declares, and how the model may use them (mapping.md 5 and 6)."""

from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical.loss import Path
from proxy.canonical.parts import CacheMark, Extra

Schema = dict[str, object]


@dataclass(slots=True)
class FunctionTool:
    """A JSON-schema tool that the client runs.

    `schema` None: the client gave none. `strict` None: not said (which means false in Chat and Messages); `"try"`: the
    Responses default, strict when the schema allows it. `stands_for_custom`: the client's tool is a free-text one that
    the backend lacks; `grammar` is what its text is to match. `stands_for`: it is a typed one of this kind; `namespace`
    is then the toolset that it is a member of.
    """

    name: str
    schema: Schema | None
    description: str | None = None
    strict: bool | Literal["try"] | None = None
    namespace: str | None = None
    deferred: bool = False
    stands_for_custom: bool = False
    grammar: "Grammar | None" = None
    stands_for: str | None = None
    cache: CacheMark | None = None
    extra: Extra | None = None
    at: Path = ()


@dataclass(slots=True)
class Grammar:
    """`syntax` is `lark` or `regex`."""

    syntax: str
    definition: str


@dataclass(slots=True)
class CustomTool:
    """A free-text tool that the client runs; `grammar` None means plain text."""

    name: str
    description: str | None = None
    grammar: Grammar | None = None
    namespace: str | None = None
    deferred: bool = False
    extra: Extra | None = None
    at: Path = ()


@dataclass(slots=True)
class TypedTool:
    """A tool whose schema the vendor's model knows and the client runs (shell, text editor, computer …).

    `native` is the declaration verbatim; the other fields are those of it that any tool may have. `description` is
    only what a declaration adds to what the model knows.
    """

    kind: str
    native: Extra
    name: str
    at: Path = ()
    description: str | None = None
    strict: bool | None = None
    deferred: bool = False
    cache: CacheMark | None = None


@dataclass(slots=True)
class WebSearch:
    """What is asked of a web search. `location` has `city`, `country`, `region` and `timezone`, flat; an empty one says
    that nothing is known of it. `max_uses`: searches in one answer.
    """

    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    location: Extra | None = None
    context_size: str | None = None
    max_uses: int | None = None


@dataclass(slots=True)
class McpServer:
    """A remote server whose tools the vendor calls. `allowed` None: all of its tools."""

    label: str
    url: str
    token: str | None = None
    allowed: list[str] | None = None
    deferred: bool = False


@dataclass(slots=True)
class HostedTool:
    """A tool that the vendor runs. `kind` is one of mapping.md 1.1; `native` the declaration verbatim.

    `name` is what a tool choice may call it by. `asked`: what the declaration says in no one's wire format, known only
    once a backend is known to run such a tool.
    """

    kind: str
    native: Extra
    name: str
    at: Path = ()
    asked: WebSearch | McpServer | None = None


Tool = FunctionTool | CustomTool | TypedTool | HostedTool


@dataclass(slots=True)
class ToolRef:
    """A tool as a tool choice names it. `kind` is `function`, `custom`, `typed` (once it is a function that stands for
    one) or the wire type of another tool.
    """

    kind: str
    name: str
    namespace: str | None = None


@dataclass(slots=True)
class ToolPolicy:
    """`mode` None: not said. `named` only with mode `named`; `allowed` restricts the tools of any mode.

    `only_first`: calls after the first are cut from the reply, since the backend can't be told to make one only.
    """

    mode: Literal["auto", "none", "any", "named"] | None = None
    named: ToolRef | None = None
    allowed: list[ToolRef] | None = None
    parallel: bool | None = None
    only_first: bool = False
    max_calls: int | None = None  # hosted calls in one answer
    at: Path = field(default=("tool_choice",))
