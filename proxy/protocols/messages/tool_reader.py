"""Read `tools`, `tool_choice` and the tool changes that system messages make.

A tool without a type is the client's own; any other type is Anthropic's, run by the client or by the vendor. A type
that no sheet knows counts as the vendor's: refusing it is safer than showing the model a tool without a schema.
"""

from proxy.canonical.jsontext import dumps
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.tools import FunctionTool, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    is_object,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
    texts,
)
from proxy.protocols.messages.block_reader import read_mark
from proxy.protocols.messages.tables import VENDOR_TOOLS, base_type

EXAMPLES_LIMIT = 4096  # bytes of `input_examples` that a description takes up (mapping.md 5.1)

_TOOL_FIELDS = frozenset(
    {
        "type",
        "name",
        "description",
        "input_schema",
        "strict",
        "cache_control",
        "defer_loading",
        "allowed_callers",
        "input_examples",
        "eager_input_streaming",  # how fast arguments come, not what they are
    }
)


def read_tools(wire: Wire, losses: LossReport) -> list[Tool]:
    """The tools of a request, in their order."""
    tools: list[Tool] = []
    for index, entry in enumerate(array(wire, "tools", ()) or ()):
        at: Path = ("tools", index)
        tool = read_tool(as_object(entry, at), at, losses)
        if tool is not None:
            tools.append(tool)
    return tools


def read_tool(wire: Wire, path: Path, losses: LossReport) -> Tool | None:
    """One entry of `tools`; None for a function that only code of the vendor may call."""
    wire_type = text(wire, "type", path)
    if wire_type is None or wire_type == "custom":
        return _function_tool(wire, path, losses)
    side, kind, name = VENDOR_TOOLS.get(base_type(wire_type), ("server", wire_type, wire_type))
    name = text(wire, "name", path) or name
    if side == "client":
        return _typed_tool(wire, kind, name, path, losses)
    return HostedTool(kind, wire, name, at=path)


_ANY_TYPED_FIELDS = _TOOL_FIELDS - {"description", "input_schema"}
_TYPED_FIELDS: dict[str, frozenset[str]] = {
    "text_editor": frozenset({"max_characters"}),
    "computer": frozenset({"display_width_px", "display_height_px", "display_number", "enable_zoom"}),
}


def _typed_tool(wire: Wire, kind: str, name: str, path: Path, losses: LossReport) -> TypedTool | None:
    """A tool that the client runs and Claude knows; None for one that only code of the vendor may call."""
    toolset = "_toolset" in str(wire["type"])
    known = frozenset({"type", "cache_control", "allowed_callers", "configs"})
    if not toolset:
        known = _ANY_TYPED_FIELDS | _TYPED_FIELDS.get(kind, frozenset())
    report_unknown(wire, known, path, losses)
    if not _is_callable(wire, path, losses):
        return None
    tool = TypedTool(kind, wire, name, path, cache=read_mark(wire, path, losses))
    if not toolset:
        tool.description = _description(wire, path, losses)
        tool.strict = flag(wire, "strict", path)
        tool.deferred = flag(wire, "defer_loading", path) or False
    return tool


def _is_callable(wire: Wire, path: Path, losses: LossReport) -> bool:
    """Whether the model itself may call a tool; that code of the vendor may is recorded."""
    callers = texts(wire, "allowed_callers", path)
    if callers is None or callers == ["direct"]:
        return True
    losses.approx(Rule.ALLOWED_CALLERS, (*path, "allowed_callers"))
    return "direct" in callers


_PLAIN_FIELDS = frozenset({"name", "description", "input_schema"})


def _function_tool(wire: Wire, path: Path, losses: LossReport) -> FunctionTool | None:
    if wire.keys() <= _PLAIN_FIELDS:
        schema, description = mapping(wire, "input_schema", path), text(wire, "description", path)
        return FunctionTool(need_text(wire, "name", path), schema, description, at=path)
    if not wire.keys() <= _TOOL_FIELDS:
        report_unknown(wire, _TOOL_FIELDS, path, losses)
    name = need_text(wire, "name", path)
    if not _is_callable(wire, path, losses):
        return None
    return FunctionTool(
        name,
        mapping(wire, "input_schema", path),
        description=_description(wire, path, losses),
        strict=flag(wire, "strict", path),
        deferred=flag(wire, "defer_loading", path) or False,
        cache=read_mark(wire, path, losses),
        at=path,
    )


def _description(wire: Wire, path: Path, losses: LossReport) -> str | None:
    """What the tool does, and the examples of its arguments that other protocols have no field for."""
    description = text(wire, "description", path)
    examples = array(wire, "input_examples", path)
    if not examples:
        return description
    lines = [dumps(example).decode() for example in examples]
    appendix = "\n".join(("Examples:", *lines))
    losses.approx(Rule.INPUT_EXAMPLES, (*path, "input_examples"))
    if len(appendix.encode(errors="replace")) > EXAMPLES_LIMIT:
        return description
    return f"{description}\n\n{appendix}" if description else appendix


_CHOICE_FIELDS = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHOICES = frozenset({"auto", "any", "tool", "none"})


def read_tool_choice(wire: Wire, tools: list[Tool], losses: LossReport) -> ToolPolicy:
    """`tool_choice`, with the parallel flag that lives in it."""
    choice = mapping(wire, "tool_choice", ())
    policy = ToolPolicy()
    if choice is None:
        return policy
    path: Path = ("tool_choice",)
    report_unknown(choice, _CHOICE_FIELDS, path, losses)
    disabled = flag(choice, "disable_parallel_tool_use", path)
    policy.parallel = None if disabled is None else not disabled
    match one_of(choice, "type", _CHOICES, path):
        case "auto":
            policy.mode = "auto"
        case "any":
            policy.mode = "any"
        case "none":
            policy.mode = "none"
        case "tool":
            policy.mode = "named"
            policy.named = _reference(need_text(choice, "name", path), tools)
        case _:
            invalid((*path, "type"), "this field is required.")
    return policy


def _reference(name: str, tools: list[Tool]) -> ToolRef:
    for tool in tools:
        if tool.name == name and isinstance(tool, TypedTool | HostedTool):
            return ToolRef(text(tool.native, "type", tool.at) or tool.kind, name)
    return ToolRef("function", name)


_CHANGE_FIELDS = frozenset({"type", "tool", "cache_control"})
_REFERENCE_FIELDS = frozenset({"type", "name", "server_name", "definition"})


def change_tools(tools: list[Tool], declared: list[Tool], block: Wire, path: Path, losses: LossReport) -> None:
    """Apply a `tool_addition` or `tool_removal` block to the tools in force, in place.

    `declared` are the tools that the request declares. Other protocols have one list for the whole request, so the
    last state holds for all of it (mapping.md 2.2).
    """
    losses.approx(Rule.TOOL_CHANGE, path)
    reference = mapping(block, "tool", path)
    at = (*path, "tool")
    report_unknown(block, _CHANGE_FIELDS, path, losses)
    mark = read_mark(block, path, losses)
    if mark is not None:
        losses.drop(mark.rule, mark.at)
    if reference is None:
        invalid(at, "this field is required.")
    report_unknown(reference, _REFERENCE_FIELDS, at, losses)
    added = block["type"] == "tool_addition"
    match text(reference, "type", at):
        case "tool_reference":
            _change_named(tools, declared, need_text(reference, "name", at), at, added=added)
        case "tool_definition" if added:
            tool = read_tool(as_object(reference.get("definition"), (*at, "definition")), (*at, "definition"), losses)
            if tool is not None:
                tools.append(tool)
        case "mcp_toolset_reference" if not added:
            server = need_text(reference, "server_name", at)
            tools[:] = [tool for tool in tools if not _is_toolset(tool, server)]
        case "mcp_toolset_reference" | "mcp_tool_reference":
            losses.drop(Rule.MCP_SERVERS, at)
        case _:
            losses.drop(Rule.UNKNOWN_FIELD, at)


def _change_named(tools: list[Tool], declared: list[Tool], name: str, path: Path, *, added: bool) -> None:
    if not added:
        tools[:] = [tool for tool in tools if tool.name != name]
        return
    if any(tool.name == name and not (isinstance(tool, FunctionTool) and tool.deferred) for tool in tools):
        return
    found = next((tool for tool in declared if tool.name == name), None)
    if found is None:
        invalid((*path, "name"), f"the tool '{name}' is not among the tools.")
    if isinstance(found, FunctionTool):
        found.deferred = False
    if not any(tool is found for tool in tools):
        tools.append(found)


def _is_toolset(tool: Tool, server: str) -> bool:
    return isinstance(tool, HostedTool) and is_object(tool.native) and tool.native.get("mcp_server_name") == server
