"""Tools and tool policy as the target can take them (mapping.md 5 and 6).

Kinds that the backend lacks are left out or refused by rule; nothing is sent in a form that only looks like a tool.
"""

from typing import assert_never

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import LossReport, Path, Rule, format_path
from proxy.canonical.parts import Call, Opaque, Result, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.translation import custom_tools, schemas

# Coding agents declare these on every call and work without them (mapping.md 5.4).
DROPPED_HOSTED = frozenset({"web_search", "image_generation", "tool_search"})


def fit_tools(request: Request, target: Target, losses: LossReport) -> None:
    """Leave only what the target takes in `tools` and `tool_policy`, in place."""
    if request.tools:
        loaded = _loaded_names(request)
        request.tools = [
            fitted for tool in request.tools if (fitted := _fit_tool(tool, request, target, loaded, losses)) is not None
        ]
    if not custom_tools.are_native(target):
        custom_tools.wrap_history(request)
    fit_policy(request, target, losses)


def _fit_tool(tool: Tool, request: Request, target: Target, loaded: frozenset[str], losses: LossReport) -> Tool | None:
    """The tool as it goes to the backend, its schema and strictness set for it; None when it is left out."""
    match tool:
        case FunctionTool():
            if tool.deferred and not _undeferred(tool, loaded, losses):
                return None
            _fit_function(tool, target, losses)
            return tool
        case CustomTool():
            if tool.deferred and not _undeferred(tool, loaded, losses):
                return None
            return tool if custom_tools.are_native(target) else custom_tools.as_function(tool, losses)
        case TypedTool():
            losses.refuse(Rule.TYPED_TOOL, tool.at, "vendor-defined tools are not translated yet.")
        case HostedTool():
            _leave_out(tool, request, target, losses)
            return None
        case _:
            assert_never(tool)


def _fit_function(tool: FunctionTool, target: Target, losses: LossReport) -> None:
    given = tool.schema
    schema_path = (*tool.at, "parameters")
    vendor: schemas.Vendor
    if target.protocol == "messages":
        tool.schema = schemas.for_messages(given, schema_path, losses)
        vendor = "anthropic"
    else:
        tool.schema = schemas.for_openai(given)
        vendor = "openai"
    if tool.strict is True and not schemas.is_strict(tool.schema, vendor):
        losses.approx(Rule.STRICT_OFF, (*tool.at, "strict"))
        tool.strict = False
    elif tool.strict == "try":
        tool.strict = True if schemas.is_strict(tool.schema, vendor) else None


def _undeferred(tool: FunctionTool | CustomTool, loaded: frozenset[str], losses: LossReport) -> bool:
    """Whether the client's own search has found a deferred tool, which makes it an ordinary one (mapping.md 5.1)."""
    losses.approx(Rule.DEFER_LOADING, (*tool.at, "defer_loading"))
    tool.deferred = False
    return tool.name in loaded


def _loaded_names(request: Request) -> frozenset[str]:
    """Names of tools that the history has brought in by reference."""
    names: set[str] = set()
    for turn in request.turns:
        for part in turn.parts:
            if type(part) is Result:
                for inner in part.parts:
                    if isinstance(inner, Opaque) and inner.type == "tool_reference":
                        name = inner.native.get("tool_name")
                        if isinstance(name, str):
                            names.add(name)
    return frozenset(names)


def _leave_out(tool: HostedTool, request: Request, target: Target, losses: LossReport) -> None:
    """Drop a hosted tool, or refuse when the request exists for it."""
    by_kind = target.hosted_tools is None and tool.kind in DROPPED_HOSTED
    droppable = by_kind or target.hosted_tools == "drop"
    named = request.tool_policy.named
    alone = all(isinstance(other, HostedTool) for other in request.tools)
    wanted = named is not None and named.name == tool.name and named.kind not in ("function", "custom")
    if alone or wanted or not droppable:
        losses.refuse(_hosted_rule(tool), tool.at, f"the backend has no hosted tool '{tool.kind}'.")
    losses.drop(_hosted_rule(tool), tool.at)


def _hosted_rule(tool: HostedTool) -> Rule:
    match tool.kind:
        case "web_search":
            return Rule.WEB_SEARCH
        case "image_generation":
            return Rule.IMAGE_GENERATION
        case "tool_search":
            return Rule.TOOL_SEARCH
        case "mcp":
            return Rule.MCP_SERVERS
        case _:
            return Rule.HOSTED_TOOL


def fit_policy(request: Request, target: Target, losses: LossReport) -> None:
    """Tool choice, subsets and parallel calls, in place (mapping.md 6)."""
    policy = request.tool_policy
    if policy.max_calls is not None:
        losses.drop(Rule.MAX_TOOL_CALLS, ("max_tool_calls",))
        policy.max_calls = None
    if not request.tools:
        # A choice without tools is an error at both vendors, and means nothing.
        request.tool_policy = ToolPolicy()
        return
    _check_named(request, policy, losses)
    if policy.allowed is not None and target.protocol == "messages":
        _apply_subset(request, policy, losses)
    if policy.parallel is False and target.dialect.no_parallel_flag:
        losses.drop(Rule.PARALLEL_TOOL_CALLS, _parallel_at(request))
        policy.parallel = None
    if policy.mode == "none" and target.dialect.no_tool_choice_none and _has_calls(request):
        # Without a call in the history the tools are left out instead, which is the same (mapping.md 6.1).
        losses.approx(Rule.TOOL_CHOICE, policy.at)
    if policy.mode in ("any", "named"):
        _fit_forced(request, policy, target, losses)


def _parallel_at(request: Request) -> Path:
    """Where the client said that one call at a time is enough."""
    return ("tool_choice", "disable_parallel_tool_use") if request.origin == "messages" else ("parallel_tool_calls",)


def _has_calls(request: Request) -> bool:
    return any(type(part) is Call for turn in request.turns for part in turn.parts)


def _check_named(request: Request, policy: ToolPolicy, losses: LossReport) -> None:
    named = policy.named
    if named is None:
        return
    if named.kind not in ("function", "custom"):
        losses.refuse(Rule.TOOL_CHOICE, policy.at, f"the backend can't be made to use '{named.name}'.")
    if not any(not isinstance(tool, HostedTool) and _is(tool, named) for tool in request.tools):
        at = format_path(policy.at)
        raise Rejected(
            Error(
                ErrorClass.INVALID,
                f"{at}: the tool '{named.name}' is not among the tools.",
                param=at,
                reason=Reason.MALFORMED,
            )
        )


def _is(tool: FunctionTool | CustomTool | TypedTool, ref: ToolRef) -> bool:
    return tool.name == ref.name


def _apply_subset(request: Request, policy: ToolPolicy, losses: LossReport) -> None:
    """Messages has no subset: only the allowed tools are declared."""
    losses.approx(Rule.ALLOWED_TOOLS, policy.at)
    allowed = {ref.name for ref in policy.allowed or ()}
    request.tools = [tool for tool in request.tools if tool.name in allowed]
    policy.allowed = None
    if not request.tools:
        request.tool_policy = ToolPolicy()


def _fit_forced(request: Request, policy: ToolPolicy, target: Target, losses: LossReport) -> None:
    """Models that can't be forced are asked in words instead (mapping.md 6.2)."""
    chosen = policy.named
    if target.profile.forced and (chosen is None or target.dialect.named_choice):
        return
    losses.approx(Rule.FORCED_CHOICE, policy.at)
    if chosen is not None:
        request.tools = [tool for tool in request.tools if tool.name == chosen.name]
    policy.named = None
    if target.profile.forced:
        policy.mode = "any"
        return
    policy.mode = "auto"
    _ask_in_words(request, f"Call the tool `{chosen.name}` now." if chosen else "Answer by calling one of the tools.")


def _ask_in_words(request: Request, sentence: str) -> None:
    if not request.turns or request.turns[-1].role != "user":
        request.turns.append(Turn("user", at=request.turns[-1].at if request.turns else ()))
    request.turns[-1].parts.append(Text(sentence))
