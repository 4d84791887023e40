"""Read tools and the tool choice (responses.md 6 and 7).

Function tools are flat, and an absent `strict` is not false: the server then tries strict. Members of a `namespace`
become tools of their own that remember the group's name.
"""

from typing import Literal

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, Tool, ToolPolicy, ToolRef, TypedTool
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
)
from proxy.protocols.responses.tables import CONTAINERS

Mode = Literal["none", "auto", "any"]

MODES: dict[str, Mode] = {"none": "none", "auto": "auto", "required": "any"}
PLAIN_FUNCTION = frozenset({"type", "name", "description", "parameters", "strict"})
RARITIES = frozenset({"defer_loading", "async", "output_schema", "allowed_callers"})
FUNCTION = PLAIN_FUNCTION | RARITIES
CUSTOM = frozenset({"type", "name", "description", "format"}) | RARITIES
NAMESPACE = frozenset({"type", "name", "description", "tools"})
SYNTAXES = frozenset({"lark", "regex"})

# Types of hosted tools, with the kind of mapping.md 1.1.
HOSTED_TOOLS: dict[str, str] = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code",
    "image_generation": "image_generation",
    "tool_search": "tool_search",
}
TYPED_TOOL_TYPES: dict[str, str] = {
    "local_shell": "local_shell",
    "apply_patch": "apply_patch",
    "computer": "computer",
    "computer_use_preview": "computer",
    "computer_use": "computer",  # in a tool choice only
}
# What a declaration may say beside its type.
TYPED_FIELDS: dict[str, frozenset[str]] = {
    "shell": frozenset({"environment"}),
    "local_shell": frozenset(),
    "apply_patch": frozenset(),
    "computer": frozenset(),
    "computer_use_preview": frozenset({"display_width", "display_height", "environment"}),
    "tool_search": frozenset({"execution", "description", "parameters"}),
}
# Types that a tool choice may name without a name (responses.md 7).
CHOOSABLE = frozenset(
    {
        "file_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "computer",
        "computer_use_preview",
        "computer_use",
        "image_generation",
        "code_interpreter",
        "apply_patch",
        "shell",
        "local_shell",
        "tool_search",
    }
)


def read_tools(wires: list[object], path: Path, losses: LossReport) -> list[Tool]:
    """The tools of an array at `path`. Raises `Rejected`."""
    tools: list[Tool] = []
    for index, value in enumerate(wires):
        at = (*path, index)
        wire = as_object(value, at)
        wire_type = wire.get("type")
        if type(wire_type) is not str:
            wire_type = need_text(wire, "type", at)
        match wire_type:
            case "function":
                tools.append(_function(wire, at, losses))
            case "custom":
                tools.append(_custom(wire, at, losses))
            case "namespace":
                tools += _namespace(wire, at, losses)
            case "mcp":
                tools.append(HostedTool("mcp", wire, need_text(wire, "server_label", at), at))
            case "shell":
                tools.append(_shell(wire, at, losses))
            case "tool_search" if wire.get("execution") == "client":
                tools.append(_typed(wire, "tool_search", at, losses))
            case "programmatic_tool_calling":
                losses.approx(Rule.PROGRAMMATIC_TOOL_CALLING, at)
                report_unknown(wire, frozenset({"type"}), at, losses)
            case ("local_shell" | "apply_patch" | "computer" | "computer_use_preview") as tool_type:
                tools.append(_typed(wire, tool_type, at, losses))
            case tool_type:
                # An unknown type is left to the policy for hosted tools, which refuses by default.
                tools.append(HostedTool(HOSTED_TOOLS.get(tool_type, tool_type), wire, _plain_name(tool_type), at))
    return tools


def _plain_name(tool_type: str) -> str:
    """What a type is called whatever its version: a choice may name another one than the declaration."""
    return "web_search" if HOSTED_TOOLS.get(tool_type) == "web_search" else tool_type


def whole_name(tool: Tool) -> tuple[str, str | None]:
    """What tells a tool from all others: its name and its group."""
    return tool.name, tool.namespace if isinstance(tool, FunctionTool | CustomTool) else None


def _function(wire: Wire, path: Path, losses: LossReport, namespace: str | None = None) -> FunctionTool:
    strict = flag(wire, "strict", path)
    tool = FunctionTool(
        need_text(wire, "name", path),
        mapping(wire, "parameters", path),
        text(wire, "description", path) or None,
        "try" if strict is None else strict,
        namespace,
        at=path,
    )
    if not wire.keys() <= PLAIN_FUNCTION:
        report_unknown(wire, FUNCTION, path, losses)
        _add_rarities(tool, wire, path, losses)
    return tool


def _custom(wire: Wire, path: Path, losses: LossReport, namespace: str | None = None) -> CustomTool:
    tool = CustomTool(
        need_text(wire, "name", path),
        text(wire, "description", path) or None,
        _grammar(wire, path, losses),
        namespace,
        at=path,
    )
    report_unknown(wire, CUSTOM, path, losses)
    _add_rarities(tool, wire, path, losses)
    return tool


def _grammar(wire: Wire, path: Path, losses: LossReport) -> Grammar | None:
    given = mapping(wire, "format", path)
    if given is None:
        return None
    at = (*path, "format")
    report_unknown(given, frozenset({"type", "syntax", "definition"}), at, losses)
    match need_text(given, "type", at):
        case "text":
            return None
        case "grammar":
            syntax = one_of(given, "syntax", SYNTAXES, at)
            return Grammar(syntax or need_text(given, "syntax", at), need_text(given, "definition", at))
        case other:
            invalid((*at, "type"), f"'{other}' is not one of 'grammar', 'text'.", code="invalid_value")


def _add_rarities(tool: FunctionTool | CustomTool, wire: Wire, path: Path, losses: LossReport) -> None:
    """Fields that few tools have."""
    tool.deferred = flag(wire, "defer_loading", path) or False
    if flag(wire, "async", path):
        losses.refuse(Rule.ASYNC_TOOL, (*path, "async"), "its results may come turns after the call.")
    if wire.get("output_schema") is not None:
        losses.drop(Rule.OUTPUT_SCHEMA, (*path, "output_schema"))
    _note_callers(wire, path, losses)


def _note_callers(wire: Wire, path: Path, losses: LossReport) -> None:
    callers = array(wire, "allowed_callers", path)
    if callers is not None and any(caller != "direct" for caller in callers):
        losses.approx(Rule.ALLOWED_CALLERS, (*path, "allowed_callers"))


def _namespace(wire: Wire, path: Path, losses: LossReport) -> list[Tool]:
    name = need_text(wire, "name", path)
    report_unknown(wire, NAMESPACE, path, losses)
    if text(wire, "description", path):
        losses.approx(Rule.NAMESPACE, (*path, "description"))
    members: list[Tool] = []
    for index, value in enumerate(array(wire, "tools", path) or []):
        at = (*path, "tools", index)
        member = as_object(value, at)
        if member.get("type") == "custom":
            members.append(_custom(member, at, losses, name))
        elif member.get("type") == "function":
            members.append(_function(member, at, losses, name))
        else:
            invalid((*at, "type"), "a namespace holds only 'function' and 'custom' tools.", code="invalid_value")
    return members


def _shell(wire: Wire, path: Path, losses: LossReport) -> Tool:
    environment = mapping(wire, "environment", path)
    if environment is None:
        return _typed(wire, "shell", path, losses)
    if environment.get("type") in CONTAINERS:
        return HostedTool("shell", wire, "shell", path)
    report_unknown(environment, frozenset({"type", "skills"}), (*path, "environment"), losses)
    return _typed(wire, "shell", path, losses)


def _typed(wire: Wire, tool_type: str, path: Path, losses: LossReport) -> TypedTool:
    """A tool that the client runs and OpenAI's models know."""
    report_unknown(wire, TYPED_FIELDS[tool_type] | {"type", "allowed_callers"}, path, losses)
    _note_callers(wire, path, losses)
    kind = TYPED_TOOL_TYPES.get(tool_type, tool_type)
    return TypedTool(kind, wire, kind, path)


def read_tool_choice(value: object, path: Path, policy: ToolPolicy, losses: LossReport) -> None:
    """Put `tool_choice` into the policy. Raises `Rejected`."""
    policy.at = path
    if value is None:
        return
    if type(value) is str:
        policy.mode = _mode(value, path)
        return
    choice = as_object(value, path)
    if choice.get("type") == "allowed_tools":
        report_unknown(choice, frozenset({"type", "mode", "tools"}), path, losses)
        policy.mode = _mode(need_text(choice, "mode", path), (*path, "mode"))
        policy.allowed = []
        for index, entry in enumerate(array(choice, "tools", path) or []):
            at = (*path, "tools", index)
            policy.allowed.append(_reference(as_object(entry, at), at, losses))
        return
    policy.mode = "named"
    policy.named = _reference(choice, path, losses)


def _mode(value: str, path: Path) -> Mode:
    mode = MODES.get(value)
    if mode is None:
        invalid(path, f"'{value}' is not one of 'auto', 'none', 'required'.", code="invalid_value")
    return mode


def _reference(wire: Wire, path: Path, losses: LossReport) -> ToolRef:
    tool_type = need_text(wire, "type", path)
    report_unknown(wire, frozenset({"type", "name", "namespace", "server_label"}), path, losses)
    match tool_type:
        case "function" | "custom":
            return ToolRef(tool_type, need_text(wire, "name", path), text(wire, "namespace", path))
        case "mcp":
            return ToolRef("mcp", need_text(wire, "server_label", path))
        case "programmatic_tool_calling":
            losses.refuse(Rule.PROGRAMMATIC_TOOL_CALLING, path)
        case _ if tool_type in CHOOSABLE:
            return ToolRef(tool_type, TYPED_TOOL_TYPES.get(tool_type) or _plain_name(tool_type))
        case _:
            invalid((*path, "type"), f"'{tool_type}' can't be chosen.", code="invalid_value")
