"""Tool names that each side accepts, through one table a request (mapping.md 3.3).

Only names over the limit or with characters outside the common set are changed, since the model reads them; a changed
name carries a hash of the whole, so distinct tools stay distinct.
"""

import hashlib
import re
from collections.abc import Iterable

from proxy.canonical.parts import Call, CallKind
from proxy.canonical.request import Request
from proxy.canonical.spelling import ToolName, joined
from proxy.canonical.target import Target
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, ToolRef

LIMIT = 64  # the only length that all servers of all three protocols accept
_HASH = 10
_Key = tuple[str, str | None, bool]  # name, namespace, whether it is a typed tool
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN = re.compile(rf"[A-Za-z0-9_-]{{1,{LIMIT}}}")


def spell(name: str, salt: int = 0) -> str:
    """The name itself when it is acceptable, else a readable stem and a hash. At most `LIMIT` characters."""
    if not salt and _PLAIN.fullmatch(name) is not None:
        return name
    clean = _UNSAFE.sub("_", name)
    seed = f"{name}\n{salt}" if salt else name
    digest = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:_HASH]
    return f"{clean[: LIMIT - _HASH - 1]}_{digest}"


class ToolNames:
    """The names of one request: the client's (name, namespace) to the backend's and back.

    A client may have a typed tool and another one of the same name, which are two tools, and so are those whose names
    only look alike once they are joined with their groups'. `reserved` are names of the backend's own tools. `original`
    has the changed names only.
    """

    __slots__ = ("_joined", "_spelled", "_taken", "original")

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._spelled: dict[_Key, str] = {}
        self._joined: dict[str, str] = {}
        self._taken: set[str] = set(reserved)
        self.original: dict[str, ToolName] = {}

    def declare(self, tool: FunctionTool | CustomTool) -> str:
        """The backend's name of a declared tool. Of two tools with one name the first counts."""
        kind: CallKind = "custom" if isinstance(tool, CustomTool) or tool.stands_for_custom else "function"
        stands_for = tool.stands_for if isinstance(tool, FunctionTool) else None
        if stands_for is not None:
            kind = "typed"
        key = (tool.name, tool.namespace, kind == "typed")
        known = self._spelled.get(key)
        if known is not None:
            return known
        spelled = self._choose(key)
        if spelled != tool.name or tool.namespace or kind != "function":
            self.original[spelled] = ToolName(tool.name, tool.namespace, kind, stands_for)
        return spelled

    def mention(self, name: str, namespace: str | None, *, typed: bool = False) -> str:
        """The backend's name of a tool that the history or a tool choice mentions, declared or not."""
        key: _Key = (name, namespace, typed)
        spelled = self._spelled.get(key) or self._spelled.get((name, namespace, not typed))
        if spelled is None and namespace is None:
            spelled = self._joined.get(name)  # a client may know its tool by the joined name only
        if spelled is None:
            spelled = self._choose(key)
            if spelled != name:
                self.original[spelled] = ToolName(name, namespace)
        return spelled

    def _choose(self, key: _Key) -> str:
        whole = joined(key[0], key[1])
        salt = 0
        spelled = spell(whole)
        while spelled in self._taken:
            salt += 1
            spelled = spell(whole, salt)
        self._taken.add(spelled)
        self._spelled[key] = spelled
        self._joined.setdefault(whole, spelled)
        return spelled


def respell(request: Request, target: Target) -> dict[str, ToolName]:
    """Rewrite every tool name of the request for the backend; gives the way back, changed names only."""
    # Messages knows its own tools by name, as it knows those of the client.
    hosted = [tool.name for tool in request.tools if isinstance(tool, HostedTool) and target.protocol == "messages"]
    names = ToolNames(hosted)
    for tool in request.tools:
        if isinstance(tool, FunctionTool | CustomTool):
            tool.name = names.declare(tool)
            tool.namespace = None
    policy = request.tool_policy
    if policy.named is not None:
        policy.named = _mention(names, policy.named)
    if policy.allowed is not None:
        policy.allowed = [_mention(names, ref) for ref in policy.allowed]
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is Call:
                part.name = names.mention(part.name, part.namespace, typed=part.kind == "typed")
                part.namespace = None
                part.kind = "function" if part.kind == "typed" else part.kind
    return names.original


def _mention(names: ToolNames, ref: ToolRef) -> ToolRef:
    if ref.kind == "typed":
        return ToolRef("function", names.mention(ref.name, ref.namespace, typed=True))
    if ref.kind not in ("function", "custom"):
        return ref
    return ToolRef(ref.kind, names.mention(ref.name, ref.namespace))
