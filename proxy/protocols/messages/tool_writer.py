"""Write tools and tool choice of a Messages request (mapping.md 5.1, 6)."""

from typing import assert_never

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Request
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, TypedTool
from proxy.protocols.fields import Wire
from proxy.protocols.messages.block_writer import marked
from proxy.protocols.messages.hosted_tools import write_hosted_tool


def write_tools(tools: list[Tool], losses: LossReport) -> list[Wire]:
    """The `tools` of a prepared request."""
    return [_tool(tool, losses) for tool in tools]


def _tool(tool: Tool, losses: LossReport) -> Wire:
    match tool:
        case FunctionTool():
            wire: Wire = {"name": tool.name}
            if tool.description:
                wire["description"] = tool.description
            wire["input_schema"] = _schema(tool)
            if tool.strict is True:
                wire["strict"] = True
            if tool.deferred:
                wire["defer_loading"] = True
            return wire if tool.cache is None else marked(wire, tool.cache)
        case CustomTool():
            losses.refuse(Rule.CUSTOM_TOOL, tool.at, "free-form tools are not translated yet.")
        case TypedTool():
            losses.refuse(Rule.TYPED_TOOL, tool.at, "tools of another vendor are not translated yet.")
        case HostedTool():
            hosted = write_hosted_tool(tool)
            if hosted is None:
                losses.refuse(Rule.HOSTED_TOOL, tool.at, f"the backend has no hosted tool '{tool.kind}'.")
            return hosted
        case _:
            assert_never(tool)


def _schema(tool: FunctionTool) -> Wire:
    schema = tool.schema
    if not schema:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema else {"type": "object", **schema}


def write_tool_choice(request: Request) -> Wire | None:
    """`tool_choice`; None when nothing was said about it or there are no tools."""
    policy = request.tool_policy
    if not request.tools:
        return None
    choice: Wire
    match policy.mode:
        case "none":
            return {"type": "none"}
        case "any":
            choice = {"type": "any"}
        case "named":
            choice = {"type": "tool", "name": policy.named.name if policy.named is not None else ""}
        case "auto":
            choice = {"type": "auto"}
        case None:
            if policy.parallel is not False:
                return None
            choice = {"type": "auto"}  # the flag lives in a choice
        case _:
            assert_never(policy.mode)
    if policy.parallel is False:
        choice["disable_parallel_tool_use"] = True
    return choice
