"""Write tools and the tool choice (responses.md 6 and 7): flat, without a `function` wrapper."""

from typing import assert_never

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.fields import Wire

EMPTY_SCHEMA: Wire = {"type": "object", "properties": {}}
ALLOWED_MODES = {"any": "required", "named": "required"}


def write_tool(tool: Tool, losses: LossReport) -> Wire:
    """One entry of `tools`. Raises `Rejected` for a tool that only another vendor runs or knows."""
    match tool:
        case FunctionTool():
            return _function(tool, losses)
        case CustomTool():
            return _custom(tool, losses)
        case TypedTool():
            losses.refuse(Rule.TYPED_TOOL, tool.at, f"'{tool.kind}' is another vendor's tool.")
        case HostedTool():
            losses.refuse(Rule.HOSTED_TOOL, tool.at, f"'{tool.kind}' is run by another vendor.")
        case _:
            assert_never(tool)


def _function(tool: FunctionTool, losses: LossReport) -> Wire:
    written: Wire = {"type": "function", "name": tool.name}
    if tool.description is not None:
        written["description"] = tool.description
    written["parameters"] = tool.schema if tool.schema is not None else EMPTY_SCHEMA
    if tool.strict != "try":
        written["strict"] = tool.strict is True
    if tool.deferred:
        losses.approx(Rule.DEFER_LOADING, tool.at)
    if tool.cache is not None:
        losses.drop(tool.cache.rule, tool.cache.at)
    return written


def _custom(tool: CustomTool, losses: LossReport) -> Wire:
    written: Wire = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.grammar is not None:
        written["format"] = {
            "type": "grammar",
            "syntax": tool.grammar.syntax,
            "definition": tool.grammar.definition,
        }
    if tool.deferred:
        losses.approx(Rule.DEFER_LOADING, tool.at)
    return written


def write_tool_choice(policy: ToolPolicy, losses: LossReport) -> object:
    """`tool_choice`, or None when the client did not say. Only for a request that has tools."""
    if policy.allowed is not None:
        tools = [_reference(ref, policy, losses) for ref in policy.allowed]
        return {"type": "allowed_tools", "mode": ALLOWED_MODES.get(policy.mode or "auto", "auto"), "tools": tools}
    match policy.mode:
        case None | "auto" | "none":
            return policy.mode
        case "any":
            return "required"
        case "named":
            return _reference(policy.named, policy, losses) if policy.named is not None else "required"
        case _:
            assert_never(policy.mode)


def _reference(ref: ToolRef, policy: ToolPolicy, losses: LossReport) -> Wire:
    if ref.kind not in ("function", "custom"):
        losses.refuse(Rule.TOOL_CHOICE, policy.at, f"'{ref.name}' is another vendor's tool.")
    return {"type": ref.kind, "name": ref.name}
