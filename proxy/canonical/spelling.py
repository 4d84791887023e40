"""How call ids and tool names are spelled toward the backend, and back (mapping.md 3.2, 3.3).

One object per request. The request side is rewritten in place before a writer sees it; readers of replies
ask here what the client calls a tool or a call. How the spellings are chosen is the translation layer's business.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.canonical.parts import CallKind


class ToolName(NamedTuple):
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    kind: CallKind = "function"
    tool: str | None = None  # kind of a typed tool


def joined(name: str, namespace: str | None) -> str:
    """A namespaced tool's name for protocols without namespaces."""
    return f"{namespace}__{name}" if namespace else name


def _same(call_id: str) -> str:
    return call_id


@dataclass(slots=True)
class Spelling:
    """`names` maps what the backend calls a tool to what the client calls it; a name that is not in it is passed as it
    is, since a tool that the model made up must reach the client unchanged. `encode` re-spells an id of the backend
    that the client's protocol would refuse; `known` are the ids of the conversation's calls, as the client has them.
    `wraps_custom`: functions stand for free-text tools, so the arguments of calls of kind `custom` are still JSON.
    `declared` are the backend's names of the tools; `one_call`: the backend can't be told to make one call only.
    `mint` makes an id from (response id, index of the call) where the backend gave none, or one that it has given
    before: servers that count the calls of each response would repeat theirs from response to response.
    """

    names: dict[str, ToolName] = field(default_factory=dict)
    encode: Callable[[str], str] = _same
    mint: Callable[[str, int], str] = lambda response_id, index: f"call_{response_id}_{index}"
    known: Container[str] = frozenset()
    seen: set[str] = field(default_factory=set)
    wraps_custom: bool = False
    declared: frozenset[str] = frozenset()
    one_call: bool = False

    def tool(self, name: str) -> ToolName:
        """What the client calls the tool that the backend calls `name`."""
        known = self.names.get(name)
        return known if known is not None else ToolName(name)

    def call_id(self, backend_id: str | None, response_id: str, index: int) -> str:
        """The id that the client sees for call number `index` (from 0) of this reply. Unique in the conversation."""
        call_id = self.encode(backend_id) if backend_id and backend_id != "null" else None
        if call_id is None or call_id in self.known:
            call_id = self.mint(response_id, index)
        return self.unique(call_id)

    def unique(self, call_id: str) -> str:
        """The id, with a suffix if the conversation has it already."""
        unique = call_id
        repeat = 2
        while unique in self.seen or unique in self.known:
            unique = f"{call_id}-{repeat}"
            repeat += 1
        self.seen.add(unique)
        return unique
