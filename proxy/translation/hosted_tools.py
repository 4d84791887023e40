"""Tools that a vendor runs, asked of another vendor that runs the same kind (mapping.md 5.4, 6.1, 6.4).

A declaration goes over by its kind: what it says is read by the client's protocol and written by the backend's. What
the backend lacks is left out or refused, as the request can or can't do without it.
"""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.canonical.tools import HostedTool, McpServer, ToolRef, WebSearch
from proxy.translation.codecs import BACKENDS, CLIENTS

# Coding agents declare these on every call and work without them (mapping.md 5.4).
DROPPED_HOSTED = frozenset({"web_search", "image_generation", "tool_search"})
HOSTED = "hosted"  # kind of a tool choice that names one
NOT_HOSTED = frozenset({"function", "custom", "typed"})
_RULES: dict[str, Rule] = {
    "web_search": Rule.WEB_SEARCH,
    "image_generation": Rule.IMAGE_GENERATION,
    "tool_search": Rule.TOOL_SEARCH,
    "mcp": Rule.MCP_SERVERS,
}


def kinds_of(target: Target) -> frozenset[str]:
    """The kinds of hosted tools that a translated request may ask the backend for."""
    if target.protocol == "chat":
        # Only the models that always search take the options; others answer 400 (chat_completions.md 3.5).
        searches = "web_search_options" in target.dialect.fields and "search" in target.model
        return frozenset({"web_search"}) if searches else frozenset()
    return target.dialect.hosted_tools


def fit_hosted(tool: HostedTool, request: Request, target: Target, losses: LossReport) -> HostedTool | None:
    """The tool as the backend has it; None when it is left out. Raises `Rejected` when the request exists for it."""
    kinds = kinds_of(target)
    rule = _RULES.get(tool.kind, Rule.HOSTED_TOOL)
    if tool.kind == "web_fetch" and target.protocol == "responses" and _searches(request, kinds):
        losses.approx(Rule.WEB_SEARCH, tool.at)  # its search opens pages too
        return None
    if tool.kind not in kinds:
        _leave_out(tool, request, target, losses)
        return None
    CLIENTS[request.origin].read_hosted_tool(tool, request.extra, losses)
    losses.approx(rule, tool.at)
    asked = tool.asked
    if isinstance(asked, WebSearch):
        _fit_search(tool, asked, target, losses)
    elif isinstance(asked, McpServer) and asked.deferred and not keeps_deferred(request, target):
        losses.approx(Rule.DEFER_LOADING, (*tool.at, "defer_loading"))
        asked.deferred = False
    name = BACKENDS[target.protocol].hosted_names.get(tool.kind, "")
    return HostedTool(tool.kind, tool.native, name or tool.name, tool.at, asked)


def _searches(request: Request, kinds: frozenset[str]) -> bool:
    return "web_search" in kinds and any(
        isinstance(tool, HostedTool) and tool.kind == "web_search" for tool in request.tools
    )


def keeps_deferred(request: Request, target: Target) -> bool:
    """Whether the backend's own search is there to find deferred tools, so that they may stay so."""
    return "tool_search" in kinds_of(target) and any(
        isinstance(tool, HostedTool) and tool.kind == "tool_search" for tool in request.tools
    )


def _leave_out(tool: HostedTool, request: Request, target: Target, losses: LossReport) -> None:
    """Drop a hosted tool, or refuse when the request exists for it."""
    by_kind = target.hosted_tools is None and tool.kind in DROPPED_HOSTED
    droppable = by_kind or target.hosted_tools == "drop"
    named = request.tool_policy.named
    kinds = kinds_of(target)
    alone = all(isinstance(other, HostedTool) and other.kind not in kinds for other in request.tools)
    wanted = named is not None and named.name == tool.name and named.kind not in NOT_HOSTED
    rule = _RULES.get(tool.kind, Rule.HOSTED_TOOL)
    if alone or wanted or not droppable:
        losses.refuse(rule, tool.at, f"the backend has no hosted tool '{tool.kind}'.")
    losses.drop(rule, tool.at)


def _fit_search(tool: HostedTool, asked: WebSearch, target: Target, losses: LossReport) -> None:
    """Only what the backend's search can be told."""
    if target.protocol != "messages" and asked.blocked_domains:
        losses.drop(Rule.WEB_SEARCH, (*tool.at, "blocked_domains"))
        asked.blocked_domains = None
    if target.protocol == "messages" and asked.context_size is not None:
        losses.drop(Rule.WEB_SEARCH, (*tool.at, "search_context_size"))
        asked.context_size = None
    if target.protocol == "chat" and asked.allowed_domains:
        at = (*tool.at, "filters", "allowed_domains") if "filters" in tool.native else (*tool.at, "allowed_domains")
        losses.drop(Rule.WEB_SEARCH, at)
        asked.allowed_domains = None


def fit_limit(request: Request, target: Target, losses: LossReport) -> None:
    """How many hosted calls one answer may make, which each vendor counts its own way (mapping.md 6.4)."""
    policy = request.tool_policy
    hosted = [tool for tool in request.tools if isinstance(tool, HostedTool)]
    searches = [tool.asked for tool in hosted if isinstance(tool.asked, WebSearch)]
    if target.protocol == "responses":
        for tool in hosted:
            if isinstance(asked := tool.asked, WebSearch) and asked.max_uses is not None:
                if len(hosted) == 1:
                    policy.max_calls = asked.max_uses
                else:
                    losses.drop(Rule.WEB_SEARCH, (*tool.at, "max_uses"))
        return
    if policy.max_calls is not None:
        if searches and target.protocol == "messages":
            losses.approx(Rule.MAX_TOOL_CALLS, ("max_tool_calls",))
            for search in searches:
                search.max_uses = policy.max_calls
        else:
            losses.drop(Rule.MAX_TOOL_CALLS, ("max_tool_calls",))
        policy.max_calls = None
    elif target.protocol == "chat":
        for tool in hosted:
            if isinstance(asked := tool.asked, WebSearch) and asked.max_uses is not None:
                losses.drop(Rule.WEB_SEARCH, (*tool.at, "max_uses"))


def rename_choices(request: Request, renamed: dict[str, str]) -> None:
    """Let tool choices name hosted tools as the backend does, in place. `renamed`: its names by the client's."""
    policy = request.tool_policy

    def ref(given: ToolRef) -> ToolRef:
        if given.kind in NOT_HOSTED or given.name not in renamed:
            return given
        return ToolRef(HOSTED, renamed[given.name])

    policy.named = ref(policy.named) if policy.named is not None else None
    if policy.allowed is not None:
        policy.allowed = [ref(given) for given in policy.allowed]
