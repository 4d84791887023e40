"""Write tools and the tool choice (responses.md 6 and 7): flat, without a `function` wrapper."""

from typing import assert_never

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.fields import Wire
from proxy.protocols.responses.hosted_tools import write_hosted_tool

EMPTY_SCHEMA: Wire = {"type": "object", "properties": {}}
ALLOWED_MODES = {"any": "required", "named": "required"}


def write_tool(tool: Tool, losses: LossReport) -> Wire:
    """One entry of `tools`. Raises `Rejected` for a tool that only another vendor runs or knows."""
    match tool:
        case FunctionTool():
            return _function(tool, losses)
        case CustomTool():
            return _custom(tool)
        case TypedTool():
            losses.refuse(Rule.TYPED_TOOL, tool.at, f"'{tool.kind}' is another vendor's tool.")
        case HostedTool():
            hosted = write_hosted_tool(tool)
            if hosted is None:
                losses.refuse(Rule.HOSTED_TOOL, tool.at, f"'{tool.kind}' is run by another vendor.")
            return hosted
        case _:
            assert_never(tool)


def _function(tool: FunctionTool, losses: LossReport) -> Wire:
    written: Wire = {"type": "function", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["parameters"] = tool.schema if tool.schema is not None else EMPTY_SCHEMA
    if tool.strict != "try":
        written["strict"] = tool.strict is True
    if tool.deferred:
        written["defer_loading"] = True
    if tool.cache is not None:
        losses.drop(tool.cache.rule, tool.cache.at)
    return written


def _custom(tool: CustomTool) -> Wire:
    written: Wire = {"type": "custom", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    if tool.grammar is not None:
        written["format"] = {
            "type": "grammar",
            "syntax": tool.grammar.syntax,
            "definition": tool.grammar.definition,
        }
    if tool.deferred:
        written["defer_loading"] = True
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
            if policy.named is None:
                return "required"
            choice = _reference(policy.named, policy, losses)
            if choice == {"type": "web_search"}:
                # The only hosted tool that can't be named by itself (responses.md 7).
                return {"type": "allowed_tools", "mode": "required", "tools": [choice]}
            return choice
        case _:
            assert_never(policy.mode)


def _reference(ref: ToolRef, policy: ToolPolicy, losses: LossReport) -> Wire:
    if ref.kind == "hosted":
        return {"type": ref.name}
    if ref.kind not in ("function", "custom"):
        losses.refuse(Rule.TOOL_CHOICE, policy.at, f"'{ref.name}' is another vendor's tool.")
    return {"type": ref.kind, "name": ref.name}
