"""Tools and tool policy as the target can take them (mapping.md 5 and 6).

Kinds that the backend lacks are left out or refused by rule; nothing is sent in a form that only looks like a tool.
"""

from collections.abc import Container, Iterable
from typing import assert_never

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import LossReport, Path, Rule, format_path
from proxy.canonical.parts import Call, Opaque, Result
from proxy.canonical.request import Request
from proxy.canonical.spelling import joined
from proxy.canonical.target import Target
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.translation import custom_tools, schemas, typed_tools
from proxy.translation.codecs import BACKENDS
from proxy.translation.directives import say
from proxy.translation.hosted_tools import HOSTED, NOT_HOSTED, fit_hosted, fit_limit, keeps_deferred, rename_choices
from proxy.translation.survey import Held


def fit_tools(request: Request, target: Target, held: Held, loaded: Container[str], losses: LossReport) -> None:
    """Leave only what the target takes in `tools` and `tool_policy`, in place. `loaded`: see `loaded_names`."""
    typed_tools.wrap_choices(request)
    if "typed" in held.calls:
        typed_tools.wrap_history(request)
    if request.tools:
        declared = request.tools
        fitted: list[Tool] = []
        for tool in declared:
            if type(tool) is FunctionTool and not tool.deferred:
                _fit_function(tool, target, losses)
                fitted.append(tool)
            else:
                fitted += _fit_tool(tool, request, target, loaded, losses)
        request.tools = fitted
        if HostedTool in held.tools:
            _name_hosted(request, declared)
    if not custom_tools.are_native(target):
        custom_tools.wrap_choices(request)
        if "custom" in held.calls:
            custom_tools.wrap_history(request)
    fit_policy(request, target, losses)


def _name_hosted(request: Request, declared: list[Tool]) -> None:
    """Let choices name the hosted tools that are left by the backend's names."""
    left = {tool.at: tool.name for tool in request.tools if isinstance(tool, HostedTool)}
    if left:
        rename_choices(request, {tool.name: left[tool.at] for tool in declared if tool.at in left})


def _fit_tool(
    tool: Tool, request: Request, target: Target, loaded: Container[str], losses: LossReport
) -> Iterable[FunctionTool | CustomTool | HostedTool]:
    """The tools that stand for a tool at the backend, schemas and strictness set for it; none when it is left out."""
    match tool:
        case FunctionTool():
            if tool.deferred and not _stays(tool, request, target, loaded, losses):
                return
            _fit_function(tool, target, losses)
            yield tool
        case CustomTool():
            if tool.deferred and not _stays(tool, request, target, loaded, losses):
                return
            yield tool if custom_tools.are_native(target) else custom_tools.as_function(tool, losses)
        case TypedTool():
            for function in typed_tools.as_functions(tool, losses):
                yield from _fit_tool(function, request, target, loaded, losses)
        case HostedTool():
            hosted = fit_hosted(tool, request, target, losses)
            if hosted is not None:
                yield hosted
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
    elif tool.strict == "try" and not schemas.is_strict(tool.schema, vendor):
        tool.strict = None
    elif tool.strict == "try" and vendor == "openai":
        tool.strict = None if target.dialect.plain_schemas else True
    # For Anthropic it waits until the limits of all tools are known.
    if tool.strict and vendor == "anthropic" and tool.schema:
        tool.schema = schemas.undated(tool.schema)


def _stays(
    tool: FunctionTool | CustomTool, request: Request, target: Target, loaded: Container[str], losses: LossReport
) -> bool:
    """Whether a deferred tool is sent: to be found by the backend's own search, or as an ordinary one since that of
    the client has found it (mapping.md 5.1).
    """
    if keeps_deferred(request, target):
        return True
    losses.approx(Rule.DEFER_LOADING, (*tool.at, "defer_loading"))
    tool.deferred = False
    return joined(tool.name, tool.namespace) in loaded


class _Everything:
    """Contains whatever is asked for."""

    def __contains__(self, _: object) -> bool:
        return True


def loaded_names(request: Request, held: Held) -> Container[str]:
    """Names of deferred tools that are sent all the same: those that the history has brought in by reference, and those
    that a tool choice names. All of them, where the vendor's own search was to find them: nothing else could. To be
    asked while the history still has its references.
    """
    if HostedTool in held.tools and any(
        isinstance(tool, HostedTool) and tool.kind == "tool_search" for tool in request.tools
    ):
        return _Everything()
    policy = request.tool_policy
    names = {joined(ref.name, ref.namespace) for ref in (*(policy.allowed or ()), policy.named) if ref is not None}
    for turn in request.turns if Opaque in held.in_results else ():
        for part in turn.parts:
            if type(part) is Result:
                for inner in part.parts:
                    if isinstance(inner, Opaque) and inner.type == "tool_reference":
                        name = inner.native.get("tool_name")
                        if isinstance(name, str):
                            names.add(name)
    return names


def fit_policy(request: Request, target: Target, losses: LossReport) -> None:
    """Tool choice, subsets and parallel calls, in place (mapping.md 6)."""
    policy = request.tool_policy
    fit_limit(request, target, losses)
    if not request.tools:
        # A choice without tools is an error at both vendors, and means nothing.
        request.tool_policy = ToolPolicy()
        return
    if policy.named is not None:
        _check_named(request, policy, policy.named, target, losses)
    if policy.allowed is not None:
        _fit_subset(request, policy, policy.allowed, target, losses)
        if not request.tools:
            return
    if policy.parallel is not None and target.dialect.no_parallel_flag:
        if not policy.parallel:
            losses.approx(Rule.PARALLEL_ENFORCED, _parallel_path(request))
            policy.only_first = True
        policy.parallel = None
    if policy.mode == "none" and target.dialect.no_tool_choice_none:
        # Without a call in the history the tools are left out instead, which is the same (mapping.md 6.1).
        if _has_calls(request):
            losses.approx(Rule.TOOL_CHOICE, policy.at)
        elif target.protocol == "responses":
            request.tools, request.tool_policy = [], ToolPolicy()
    if policy.mode in ("any", "named"):
        _fit_forced(request, policy, target, losses)


def _parallel_path(request: Request) -> Path:
    return ("tool_choice", "disable_parallel_tool_use") if request.origin == "messages" else ("parallel_tool_calls",)


def _has_calls(request: Request) -> bool:
    return any(type(part) is Call for turn in request.turns for part in turn.parts)


def _check_named(request: Request, policy: ToolPolicy, named: ToolRef, target: Target, losses: LossReport) -> None:
    """Raises `Rejected` when the chosen tool can't be chosen or is not there."""
    choosable = named.kind in NOT_HOSTED or named.name in BACKENDS[target.protocol].hosted_names.values()
    if not choosable or (named.kind == HOSTED and target.protocol == "chat"):
        losses.refuse(Rule.TOOL_CHOICE, policy.at, f"the backend can't be made to use '{named.name}'.")
    if any(_means(named, tool) for tool in request.tools):
        return
    at = format_path(policy.at)
    raise Rejected(
        Error(
            ErrorClass.INVALID,
            f"{at}: the tool '{named.name}' is not among the tools.",
            param=at,
            reason=Reason.MALFORMED,
        )
    )


def _means(ref: ToolRef, tool: Tool) -> bool:
    if isinstance(tool, HostedTool):
        return ref.kind == HOSTED and tool.name == ref.name
    if not isinstance(tool, FunctionTool | CustomTool) or tool.name != ref.name:
        return False
    typed = isinstance(tool, FunctionTool) and tool.stands_for is not None
    return tool.namespace == ref.namespace and typed == (ref.kind == "typed")


def _fit_subset(request: Request, policy: ToolPolicy, refs: list[ToolRef], target: Target, losses: LossReport) -> None:
    """Only what is there can be allowed; where no subset can be told, only the allowed tools are declared."""
    allowed = [ref for ref in refs if any(_means(ref, tool) for tool in request.tools)]
    if target.protocol == "chat":
        allowed = [ref for ref in allowed if ref.kind != HOSTED]
    # Messages has no subset, nor has a server that does not heed the choice that would say it.
    lacking = target.protocol == "messages" or (target.protocol == "responses" and target.dialect.no_forced_choice)
    if len(allowed) < len(refs) or lacking:
        losses.approx(Rule.ALLOWED_TOOLS, policy.at)
    policy.allowed = allowed
    if not allowed:
        if policy.mode == "any":
            losses.refuse(Rule.TOOL_CHOICE, policy.at, "the backend has none of the tools that are allowed.")
        request.tools, request.tool_policy = [], ToolPolicy()
    elif lacking:
        request.tools = [tool for tool in request.tools if any(_means(ref, tool) for ref in allowed)]
        policy.allowed = None


def _fit_forced(request: Request, policy: ToolPolicy, target: Target, losses: LossReport) -> None:
    """Models that can't be forced are asked in words instead (mapping.md 6.2)."""
    chosen = policy.named
    heeded = target.profile.forced and not target.dialect.no_forced_choice
    if heeded and (chosen is None or target.dialect.named_choice):
        return
    losses.approx(Rule.FORCED_CHOICE, policy.at)
    if chosen is not None:
        request.tools = [tool for tool in request.tools if _means(chosen, tool)]
    policy.named = None
    if heeded:
        policy.mode = "any"
        return
    policy.mode = "auto"
    sentence = "Answer by calling one of the tools."
    if chosen is not None:
        sentence = f"Call the tool `{joined(chosen.name, chosen.namespace)}` now."
    say(request.turns, sentence)
