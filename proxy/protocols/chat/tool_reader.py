"""Read the tools of a request and how the model may use them, the deprecated functions included."""

from typing import Literal

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Extra
from proxy.canonical.tools import CustomTool, FunctionTool, Grammar, HostedTool, Tool, ToolPolicy, ToolRef, WebSearch
from proxy.protocols.chat.part_reader import read_mark
from proxy.protocols.chat.tables import GRAMMAR_SYNTAXES
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    kind,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
)

_TOOL_TYPES = frozenset({"function", "custom"})
_PLAIN_TOOL_FIELDS = frozenset({"type", "function"})
_TOOL_FIELDS = frozenset({"type", "function", "custom", "cache_control"})
_FUNCTION_FIELDS = frozenset({"name", "description", "parameters", "strict"})
_CUSTOM_FIELDS = frozenset({"name", "description", "format"})
_NAME = frozenset({"name"})
_FORMATS = frozenset({"text", "grammar"})
_MODES: dict[str, Literal["auto", "none", "any"]] = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
_ALLOWED_MODES = frozenset({"auto", "required"})


def read_tools(wire: Wire, losses: LossReport) -> list[Tool]:
    """`tools`, then `functions`, then the web search that `web_search_options` asks for."""
    tools: list[Tool] = []
    for index, item in enumerate(array(wire, "tools", ()) or ()):
        at: Path = ("tools", index)
        tools.append(_read_tool(as_object(item, at), at, losses))
    for index, item in enumerate(array(wire, "functions", ()) or ()):
        at = ("functions", index)
        tools.append(_read_function(as_object(item, at), at, losses))
    options = mapping(wire, "web_search_options", ())
    if options is not None:
        tools.append(HostedTool("web_search", options, "web_search", at=("web_search_options",)))
    return tools


_SEARCH_FIELDS = frozenset({"search_context_size", "user_location"})
_LOCATION_FIELDS = frozenset({"type", "approximate"})
_PLACE = ("city", "country", "region", "timezone")
_CONTEXT_SIZES = frozenset({"low", "medium", "high"})


def read_hosted_tool(tool: HostedTool, _extra: Extra | None, losses: LossReport) -> None:
    """Say in `tool.asked` what the web search is told; there is no other hosted tool."""
    wire, path = tool.native, tool.at
    report_unknown(wire, _SEARCH_FIELDS, path, losses)
    search = WebSearch(context_size=one_of(wire, "search_context_size", _CONTEXT_SIZES, path))
    location = mapping(wire, "user_location", path)
    if location is not None:
        at = (*path, "user_location")
        report_unknown(location, _LOCATION_FIELDS, at, losses)
        place = mapping(location, "approximate", at) or {}
        at = (*at, "approximate")
        report_unknown(place, frozenset(_PLACE), at, losses)
        search.location = {name: value for name in _PLACE if (value := text(place, name, at)) is not None}
    tool.asked = search


def _read_tool(wire: Wire, path: Path, losses: LossReport) -> Tool:
    if wire.get("type") == "function" and wire.keys() <= _PLAIN_TOOL_FIELDS:
        at = (*path, "function")
        return _read_function(as_object(wire.get("function"), at), at, losses)
    type_ = one_of(wire, "type", _TOOL_TYPES, path) or ("custom" if "custom" in wire else "function")
    if not wire.keys() <= _TOOL_FIELDS:
        report_unknown(wire, _TOOL_FIELDS, path, losses)
    if type_ == "custom":
        mark = read_mark(wire, path, losses)
        if mark is not None:
            losses.drop(mark.rule, mark.at)
        at = (*path, "custom")
        return _read_custom(as_object(wire.get("custom"), at), at, losses)
    at = (*path, "function")
    tool = _read_function(as_object(wire.get("function"), at), at, losses)
    if "cache_control" in wire:
        tool.cache = read_mark(wire, path, losses)
    return tool


def _read_function(wire: Wire, path: Path, losses: LossReport) -> FunctionTool:
    if not wire.keys() <= _FUNCTION_FIELDS:
        report_unknown(wire, _FUNCTION_FIELDS, path, losses)
    return FunctionTool(
        need_text(wire, "name", path),
        mapping(wire, "parameters", path),
        text(wire, "description", path),
        flag(wire, "strict", path) if "strict" in wire else None,
        at=path,
    )


def _read_custom(wire: Wire, path: Path, losses: LossReport) -> CustomTool:
    if not wire.keys() <= _CUSTOM_FIELDS:
        report_unknown(wire, _CUSTOM_FIELDS, path, losses)
    return CustomTool(
        need_text(wire, "name", path),
        description=text(wire, "description", path),
        grammar=_read_format(wire, path, losses),
        at=path,
    )


def _read_format(wire: Wire, path: Path, losses: LossReport) -> Grammar | None:
    """`format` nests the grammar here, which Responses does not."""
    form = mapping(wire, "format", path)
    if form is None:
        return None
    at = (*path, "format")
    report_unknown(form, frozenset({"type", "grammar"}), at, losses)
    if one_of(form, "type", _FORMATS, at) != "grammar":
        return None
    at = (*at, "grammar")
    grammar = as_object(form.get("grammar"), at)
    report_unknown(grammar, frozenset({"syntax", "definition"}), at, losses)
    syntax = one_of(grammar, "syntax", GRAMMAR_SYNTAXES, at)
    if syntax is None:
        invalid((*at, "syntax"), "this field is required.", code="missing_required_parameter")
    return Grammar(syntax, need_text(grammar, "definition", at))


def uses_functions(wire: Wire) -> bool:
    """Whether the tools are the deprecated `functions`, so that a call is `function_call` in the reply."""
    return bool(wire.get("functions")) and not wire.get("tools")


def read_tool_policy(wire: Wire, losses: LossReport) -> ToolPolicy:
    """`tool_choice`, or the deprecated `function_call`; and `parallel_tool_calls`."""
    parallel = flag(wire, "parallel_tool_calls", ())
    if uses_functions(wire):
        parallel = False  # the deprecated form of a reply has room for one call
    choice = wire.get("tool_choice")
    legacy = wire.get("function_call")
    if choice is None:
        return ToolPolicy(parallel=parallel) if legacy is None else _read_function_call(legacy, parallel, losses)
    if legacy is not None:
        losses.drop(Rule.TOOL_CHOICE, ("function_call",))
    if type(choice) is str:
        return ToolPolicy(_read_mode(choice, ("tool_choice",)), parallel=parallel)
    at: Path = ("tool_choice",)
    choice = as_object(choice, at)
    if need_text(choice, "type", at) == "allowed_tools":
        return _read_allowed(choice, parallel, losses)
    return ToolPolicy("named", named=_read_reference(choice, at, losses), parallel=parallel)


def _read_mode(mode: str, path: Path) -> Literal["auto", "none", "any"]:
    if mode not in _MODES:
        invalid(path, f"'{mode}' is not one of 'auto', 'none', 'required'.", code="invalid_value")
    return _MODES[mode]


def _read_function_call(choice: object, parallel: bool | None, losses: LossReport) -> ToolPolicy:
    at: Path = ("function_call",)
    if type(choice) is str:
        return ToolPolicy(_read_mode(choice, at), parallel=parallel, at=at)
    function = as_object(choice, at)
    report_unknown(function, _NAME, at, losses)
    name = need_text(function, "name", at)
    return ToolPolicy("named", named=ToolRef("function", name), parallel=parallel, at=at)


def _read_allowed(choice: Wire, parallel: bool | None, losses: LossReport) -> ToolPolicy:
    report_unknown(choice, frozenset({"type", "allowed_tools"}), ("tool_choice",), losses)
    at: Path = ("tool_choice", "allowed_tools")
    allowed = as_object(choice.get("allowed_tools"), at)
    report_unknown(allowed, frozenset({"mode", "tools"}), at, losses)
    mode = one_of(allowed, "mode", _ALLOWED_MODES, at)
    if mode is None:
        invalid((*at, "mode"), "this field is required.", code="missing_required_parameter")
    tools: list[ToolRef] = []
    for index, item in enumerate(array(allowed, "tools", at) or ()):
        where = (*at, "tools", index)
        tools.append(_read_reference(as_object(item, where), where, losses))
    return ToolPolicy(_MODES[mode], allowed=tools, parallel=parallel)


def _read_reference(wire: Wire, path: Path, losses: LossReport) -> ToolRef:
    """A tool as a choice names it: `{"type": "function", "function": {"name": …}}`."""
    type_ = one_of(wire, "type", _TOOL_TYPES, path)
    if type_ is None:
        invalid((*path, "type"), f"expected a string, got {kind(None)}.")
    at = (*path, type_)
    named = as_object(wire.get(type_), at)
    report_unknown(wire, frozenset({"type", type_}), path, losses)
    report_unknown(named, _NAME, at, losses)
    return ToolRef(type_, need_text(named, "name", at))
