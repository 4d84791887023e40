"""What kinds of tools the vendors' types are, so that one rule holds in every protocol's spelling.

A rule on hosted tools may use the canonical name (the left column), or the vendor's type with or without its date: the
rules `web_search`, `web_search_20250305` and `web_search_2025*` all match Messages' `web_search_20250305`, and
`code_execution` and `code_interpreter` both match Responses' `code_interpreter`.

    canonical name     types of vendors, and what else asks for it
    web_search         web_search*, google_search*, live_search, x_search, browser_search, $web_search;
                       web_search_options, search_parameters, plugins, models that end in `:online`
    web_fetch          web_fetch*, url_context, visit_website
    code_execution     code_execution*, code_interpreter*, programmatic_tool_calling, container, a shell in one
    file_search        file_search*, retrieval, document_library, collections_search, data_sources
    image_generation   image_generation*
    computer_use       computer*
    browser_use        browser_toolset*, browser_automation
    bash, text_editor, local_shell, shell, apply_patch, memory, tool_search, advisor
                       the types that begin so
    mcp                mcp, mcp_toolset, mcp_servers
"""

import re
from functools import lru_cache
from types import NoneType
from typing import NamedTuple

# The first that a type begins with; behind it the type ends, or goes on with `_` and a date or a variant.
_KINDS: tuple[tuple[str, str], ...] = (
    ("web_search", "web_search"),
    ("google_search", "web_search"),
    ("googlesearch", "web_search"),
    ("live_search", "web_search"),
    ("x_search", "web_search"),
    ("browser_search", "web_search"),
    ("search_parameters", "web_search"),
    ("web_fetch", "web_fetch"),
    ("url_context", "web_fetch"),
    ("urlcontext", "web_fetch"),
    ("visit_website", "web_fetch"),
    ("code_execution", "code_execution"),
    ("codeexecution", "code_execution"),
    ("code_interpreter", "code_execution"),
    ("programmatic_tool_calling", "code_execution"),
    ("file_search", "file_search"),
    ("retrieval", "file_search"),
    ("document_library", "file_search"),
    ("collections_search", "file_search"),
    ("data_sources", "file_search"),
    ("image_generation", "image_generation"),
    ("computer", "computer_use"),
    ("browser_toolset", "browser_use"),
    ("browser_automation", "browser_use"),
    ("bash", "bash"),
    ("text_editor", "text_editor"),
    ("local_shell", "local_shell"),
    ("shell", "shell"),
    ("apply_patch", "apply_patch"),
    ("memory", "memory"),
    ("tool_search", "tool_search"),
    ("advisor", "advisor"),
    ("mcp", "mcp"),
)
_ALSO: dict[str, tuple[str, ...]] = {
    "code_execution": ("code_interpreter",),
    "computer_use": ("computer",),
}
_DATE = re.compile(r"(?:[_-]\d{8}|[_-]\d{4}[_-]\d{2}[_-]\d{2})$")
_VENDOR = re.compile(r"^(?:[a-z0-9]+[:./]|\$)")  # `openrouter:web_search`, `$web_search`


# Types of tools that the client runs, in Chat, Responses and Messages.
_CLIENTS = frozenset({"function", "custom", "namespace", None})


class Declared(NamedTuple):
    """The tools of a request, for who keeps records: how many it declares, and which kinds a vendor knows or runs."""

    number: int = 0
    hosted: tuple[str, ...] = ()


NO_TOOLS = Declared()


def declared(tools: object) -> Declared:
    """Of the member `tools` of a request. A kind that no table has is `other`, whatever the client calls it."""
    if type(tools) is not list or not tools:
        return NO_TOOLS
    types = {tool.get("type") for tool in tools if type(tool) is dict and type(tool.get("type")) in (str, NoneType)}
    kinds = {kind_of(str(wire_type)) or "other" for wire_type in types - _CLIENTS}
    return Declared(len(tools), tuple(sorted(kinds)))


_SHORT = 64  # characters of what is kept; clients may send anything


def kind_of(wire_type: str) -> str | None:
    """The canonical name; None for a type that no table has."""
    return _known_kind(wire_type) if len(wire_type) <= _SHORT else _kind(wire_type)


def names_of(wire_type: str) -> tuple[str, ...]:
    """All that a rule may call a tool of this type; what it is called itself comes first."""
    return _known_names(wire_type) if len(wire_type) <= _SHORT else _names(wire_type)


def _kind(wire_type: str) -> str | None:
    plain = _VENDOR.sub("", wire_type.casefold().strip())
    for beginning, kind in _KINDS:
        if plain.startswith(beginning) and plain[len(beginning) : len(beginning) + 1] in ("", "_", "-"):
            return kind
    return None


def _names(wire_type: str) -> tuple[str, ...]:
    kind = kind_of(wire_type)
    known = () if kind is None else (kind, *_ALSO.get(kind, ()))
    return tuple(dict.fromkeys((wire_type, *known, _DATE.sub("", wire_type))))


_known_kind = lru_cache(4096)(_kind)
_known_names = lru_cache(4096)(_names)
