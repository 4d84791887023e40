"""Write tools and the choice among them; Chat nests what Responses has flat."""

from typing import assert_never

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool, WebSearch
from proxy.protocols.fields import Wire


def write_tool(tool: Tool, losses: LossReport) -> Wire:
    """One tool of a prepared request. Raises `Rejected` for kinds that Chat does not have."""
    match tool:
        case FunctionTool():
            return {"type": "function", "function": _function(tool)}
        case CustomTool():
            return {"type": "custom", "custom": _custom(tool)}
        case TypedTool():
            losses.refuse(Rule.TYPED_TOOL, tool.at, f"'{tool.name}' is another vendor's tool.")
        case HostedTool():
            losses.refuse(Rule.HOSTED_TOOL, tool.at, f"the backend has no hosted tool '{tool.kind}'.")
        case _:
            assert_never(tool)


def write_web_search(asked: WebSearch) -> Wire:
    """`web_search_options`, which nests the place that others have flat."""
    options: Wire = {}
    if asked.context_size is not None:
        options["search_context_size"] = asked.context_size
    if asked.location is not None:
        options["user_location"] = {"type": "approximate", "approximate": asked.location}
    return options


def _function(tool: FunctionTool) -> Wire:
    function: Wire = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.schema is not None:
        function["parameters"] = tool.schema
    if isinstance(tool.strict, bool):
        function["strict"] = tool.strict
    return function


def _custom(tool: CustomTool) -> Wire:
    custom: Wire = {"name": tool.name}
    if tool.description:
        custom["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"definition": tool.grammar.definition, "syntax": tool.grammar.syntax}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return custom


def write_tool_choice(policy: ToolPolicy, any_is: str) -> object:
    """`tool_choice`, None when nothing was said; `any_is` is the dialect's word for "some tool"."""
    if policy.allowed is not None:
        mode = "required" if policy.mode == "any" else "auto"
        tools = [_reference(ref) for ref in policy.allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    match policy.mode:
        case "named":
            return _reference(policy.named) if policy.named is not None else any_is
        case "any":
            return any_is
        case "auto" | "none" | None:
            return policy.mode
        case _:
            assert_never(policy.mode)


def _reference(ref: ToolRef) -> Wire:
    kind = "custom" if ref.kind == "custom" else "function"
    return {"type": kind, kind: {"name": ref.name}}
