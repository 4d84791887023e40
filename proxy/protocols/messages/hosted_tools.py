"""Declarations of tools that a vendor runs, both ways (messages.md 8.4, mapping.md 5.4).

A declaration is read only once the backend is known to run such a tool: else its details don't matter. An MCP server
stands beside the tools, in `mcp_servers`, and the toolset that names it says which of its tools are on.
"""

from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Extra
from proxy.canonical.tools import HostedTool, McpServer, Tool, WebSearch
from proxy.protocols.fields import (
    Wire,
    as_object,
    flag,
    mapping,
    need_text,
    report_unknown,
    text,
    texts,
    whole,
)
from proxy.protocols.messages.block_reader import read_mark

# Later versions search by code that the model writes, and give no plain results (mapping.md 5.4).
SEARCH_TYPE = "web_search_20250305"
CODE_TYPE = "code_execution_20250825"
TOOL_SEARCH_NAME = "tool_search_tool_bm25"
TOOL_SEARCH_TYPE = f"{TOOL_SEARCH_NAME}_20251119"
HOSTED_NAMES = {"web_search": "web_search", "code": "code_execution", "tool_search": TOOL_SEARCH_NAME}

_LOCATION = ("city", "country", "region", "timezone")
_COMMON = frozenset({"type", "name", "allowed_callers", "cache_control", "defer_loading", "strict"})
_SEARCH = _COMMON | {"max_uses", "allowed_domains", "blocked_domains", "user_location", "response_inclusion"}
_FETCH = _COMMON | {
    "max_uses",
    "allowed_domains",
    "blocked_domains",
    "citations",
    "max_content_tokens",
    "url_sources",
    "use_cache",
    "response_inclusion",
}
_TOOLSET = frozenset({"type", "mcp_server_name", "default_config", "configs", "cache_control", "tools"})
_CONFIG = frozenset({"enabled", "defer_loading"})
_SERVER = frozenset({"type", "url", "name", "authorization_token"})


def read_hosted_tool(tool: HostedTool, extra: Extra | None, losses: LossReport) -> None:
    """Say in `tool.asked` what its declaration asks for. `extra` holds the request's `mcp_servers`.

    Raises `Rejected` for what no other vendor can give.
    """
    wire, path = tool.native, tool.at
    mark = read_mark(wire, path, losses)
    if mark is not None:
        losses.drop(mark.rule, mark.at)
    if tool.kind != "mcp":
        # A tool that is run elsewhere has no schema to be strict about, and is small enough to be there at once.
        if flag(wire, "defer_loading", path):
            losses.approx(Rule.DEFER_LOADING, (*path, "defer_loading"))
        if flag(wire, "strict", path):
            losses.approx(Rule.STRICT_OFF, (*path, "strict"))
    match tool.kind:
        case "web_search":
            tool.asked = _read_search(wire, path, losses)
        case "web_fetch":
            report_unknown(wire, _FETCH, path, losses)
        case "mcp":
            tool.asked = _read_toolset(wire, path, (extra or {}).get("mcp_servers"), losses)
        case _:
            report_unknown(wire, _COMMON, path, losses)


def _read_search(wire: Wire, path: Path, losses: LossReport) -> WebSearch:
    report_unknown(wire, _SEARCH, path, losses)
    callers = texts(wire, "allowed_callers", path)
    if callers is not None and callers != ["direct"]:
        losses.approx(Rule.ALLOWED_CALLERS, (*path, "allowed_callers"))
    if wire.get("response_inclusion") not in (None, "full"):
        losses.drop(Rule.WEB_SEARCH, (*path, "response_inclusion"))
    location = mapping(wire, "user_location", path)
    place: Extra | None = None
    if location is not None:
        at = (*path, "user_location")
        report_unknown(location, frozenset({"type", *_LOCATION}), at, losses)
        place = {name: value for name in _LOCATION if (value := text(location, name, at)) is not None}
    return WebSearch(
        texts(wire, "allowed_domains", path),
        texts(wire, "blocked_domains", path),
        place,
        max_uses=whole(wire, "max_uses", path),
    )


# --- MCP servers ---


def _read_toolset(wire: Wire, path: Path, servers: object, losses: LossReport) -> McpServer:
    report_unknown(wire, _TOOLSET, path, losses)
    if wire.get("tools") is not None:
        losses.drop(Rule.MCP_SERVERS, (*path, "tools"))
    label = need_text(wire, "mcp_server_name", path)
    index, server = _server(servers, label, path, losses)
    at: Path = ("mcp_servers", index)
    report_unknown(server, _SERVER | {"tool_configuration"}, at, losses)
    if server.get("tool_configuration") is not None:
        losses.refuse(Rule.MCP_SERVERS, (*at, "tool_configuration"), "say it in the toolset.")
    default = mapping(wire, "default_config", path) or {}
    default_at = (*path, "default_config")
    report_unknown(default, _CONFIG, default_at, losses)
    return McpServer(
        label,
        need_text(server, "url", at),
        text(server, "authorization_token", at),
        _allowed(wire, path, flag(default, "enabled", default_at) is not False, losses),
        flag(default, "defer_loading", default_at) or False,
    )


def _server(servers: object, label: str, path: Path, losses: LossReport) -> tuple[int, Wire]:
    for index, entry in enumerate(servers if isinstance(servers, list) else ()):
        server = as_object(entry, ("mcp_servers", index))
        if server.get("name") == label:
            return index, server
    losses.refuse(Rule.MCP_SERVERS, (*path, "mcp_server_name"), f"no server in 'mcp_servers' is called '{label}'.")


def _allowed(wire: Wire, path: Path, by_default: bool, losses: LossReport) -> list[str] | None:
    """The tools that are on; None for all. Only a list of those can be given, not one of those that are off."""
    configs = mapping(wire, "configs", path) or {}
    allowed: list[str] = []
    for name in configs:
        at = (*path, "configs", name)
        config = as_object(configs[name], at)
        report_unknown(config, _CONFIG, at, losses)
        enabled = flag(config, "enabled", at)
        if enabled is False and by_default:
            losses.refuse(Rule.MCP_SERVERS, at, "single tools of a server can't be switched off, only chosen.")
        if enabled:
            allowed.append(name)
        if flag(config, "defer_loading", at) is not None:
            losses.approx(Rule.DEFER_LOADING, (*at, "defer_loading"))
    return None if by_default else allowed


# --- writing ---


def write_hosted_tool(tool: HostedTool) -> Wire | None:
    """The declaration; None for a kind that is not asked for in this protocol."""
    asked = tool.asked
    match asked:
        case WebSearch():
            return _write_search(asked)
        case McpServer():
            return _write_toolset(asked)
        case None if tool.kind == "code":
            return {"type": CODE_TYPE, "name": "code_execution"}
        case None if tool.kind == "tool_search":
            return {"type": TOOL_SEARCH_TYPE, "name": TOOL_SEARCH_NAME}
        case None:
            return None
        case _:
            assert_never(asked)


def _write_search(asked: WebSearch) -> Wire:
    wire: Wire = {"type": SEARCH_TYPE, "name": "web_search"}
    if asked.max_uses is not None:
        wire["max_uses"] = asked.max_uses
    if asked.allowed_domains:
        wire["allowed_domains"] = asked.allowed_domains
    if asked.location:
        wire["user_location"] = {"type": "approximate", **asked.location}
    return wire


def _write_toolset(asked: McpServer) -> Wire:
    wire: Wire = {"type": "mcp_toolset", "mcp_server_name": asked.label}
    default: Wire = {}
    if asked.allowed is not None:
        default["enabled"] = False
        wire["configs"] = {name: {"enabled": True} for name in asked.allowed}
    if asked.deferred:
        default["defer_loading"] = True
    if default:
        wire["default_config"] = default
    return wire


def write_servers(tools: list[Tool]) -> list[Wire]:
    """`mcp_servers`, for the toolsets among the tools."""
    servers: list[Wire] = []
    for tool in tools:
        if isinstance(tool, HostedTool) and isinstance(asked := tool.asked, McpServer):
            server: Wire = {"type": "url", "url": asked.url, "name": asked.label}
            if asked.token is not None:
                server["authorization_token"] = asked.token
            servers.append(server)
    return servers
