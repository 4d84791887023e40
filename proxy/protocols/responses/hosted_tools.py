"""Declarations of tools that a vendor runs, both ways (responses.md 6.6 to 6.10, mapping.md 5.4).

A declaration is read only once the backend is known to run such a tool: else its details don't matter. An MCP server
is asked for approval of every call unless the client says `never`, and no other protocol can ask.
"""

from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Extra
from proxy.canonical.tools import HostedTool, McpServer, WebSearch
from proxy.protocols.fields import (
    Wire,
    array,
    flag,
    invalid,
    is_object,
    kind,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
    texts,
)

LOCATION = ("city", "country", "region", "timezone")
CONTEXT_SIZES = frozenset({"low", "medium", "high"})
_SEARCH = frozenset(
    {"type", "filters", "search_context_size", "user_location", "external_web_access", "search_content_types"}
)
_CODE = frozenset({"type", "container", "allowed_callers"})
_CONTAINER = frozenset({"type", "file_ids", "memory_limit", "network_policy"})
_TOOL_SEARCH = frozenset({"type", "execution", "description", "parameters"})
_MCP = frozenset(
    {
        "type",
        "server_label",
        "server_url",
        "connector_id",
        "tunnel_id",
        "authorization",
        "headers",
        "allowed_tools",
        "require_approval",
        "server_description",
        "defer_loading",
        "allowed_callers",
    }
)


def read_hosted_tool(tool: HostedTool, _extra: Extra | None, losses: LossReport) -> None:
    """Say in `tool.asked` what its declaration asks for. Raises `Rejected` for what no other vendor can give."""
    match tool.kind:
        case "web_search":
            tool.asked = _read_search(tool.native, tool.at, losses)
        case "code":
            _check_code(tool.native, tool.at, losses)
        case "mcp":
            tool.asked = _read_server(tool.native, tool.at, losses)
        case _:
            report_unknown(tool.native, _TOOL_SEARCH, tool.at, losses)
            for name in ("description", "parameters"):
                if tool.native.get(name):
                    losses.drop(Rule.TOOL_SEARCH, (*tool.at, name))


def _read_location(wire: Wire, path: Path, losses: LossReport) -> Extra:
    report_unknown(wire, frozenset({"type", *LOCATION}), path, losses)
    return {name: value for name in LOCATION if (value := text(wire, name, path)) is not None}


def _read_search(wire: Wire, path: Path, losses: LossReport) -> WebSearch:
    report_unknown(wire, _SEARCH, path, losses)
    search = WebSearch(context_size=one_of(wire, "search_context_size", CONTEXT_SIZES, path))
    filters = mapping(wire, "filters", path)
    if filters is not None:
        at = (*path, "filters")
        report_unknown(filters, frozenset({"allowed_domains"}), at, losses)
        search.allowed_domains = texts(filters, "allowed_domains", at)
    location = mapping(wire, "user_location", path)
    if location is not None:
        search.location = _read_location(location, (*path, "user_location"), losses)
    if flag(wire, "external_web_access", path) is False:
        losses.drop(Rule.WEB_SEARCH, (*path, "external_web_access"))
    kinds = texts(wire, "search_content_types", path)
    if kinds is not None and kinds != ["text"]:
        losses.drop(Rule.WEB_SEARCH, (*path, "search_content_types"))
    return search


def _check_code(wire: Wire, path: Path, losses: LossReport) -> None:
    """A container of its own and nothing in it is all that can be asked of another vendor."""
    report_unknown(wire, _CODE, path, losses)
    at = (*path, "container")
    container = wire.get("container")
    if type(container) is str:
        losses.refuse(Rule.CONTAINER, at, "a container stays at the vendor that runs it.")
    if not is_object(container):
        invalid(at, f"expected a string or an object, got {kind(container)}.")
    report_unknown(container, _CONTAINER, at, losses)
    if array(container, "file_ids", at):
        losses.refuse(Rule.FILE_ID, (*at, "file_ids"), "file ids mean something only to the vendor that gave them.")
    for name in ("memory_limit", "network_policy"):
        if container.get(name) is not None:
            losses.drop(Rule.HOSTED_TOOL, (*at, name))
    _note_callers(wire, path, losses)


def _note_callers(wire: Wire, path: Path, losses: LossReport) -> None:
    callers = array(wire, "allowed_callers", path)
    if callers is not None and any(caller != "direct" for caller in callers):
        losses.approx(Rule.ALLOWED_CALLERS, (*path, "allowed_callers"))


# --- MCP servers ---


def _read_server(wire: Wire, path: Path, losses: LossReport) -> McpServer:
    report_unknown(wire, _MCP, path, losses)
    for name in ("connector_id", "tunnel_id"):
        if wire.get(name) is not None:
            losses.refuse(Rule.MCP_SERVERS, (*path, name), "only a server with an address can be given.")
    if wire.get("require_approval") != "never":
        at = (*path, "require_approval")
        losses.refuse(
            Rule.MCP_SERVERS, at, "the backend asks nobody before it calls a tool; only 'never' can be given."
        )
    if text(wire, "server_description", path):
        losses.drop(Rule.MCP_SERVERS, (*path, "server_description"))
    _note_callers(wire, path, losses)
    return McpServer(
        need_text(wire, "server_label", path),
        need_text(wire, "server_url", path),
        _token(wire, path, losses),
        _allowed(wire, path, losses),
        flag(wire, "defer_loading", path) or False,
    )


def _token(wire: Wire, path: Path, losses: LossReport) -> str | None:
    """The token, which may also stand in the one header that means the same elsewhere."""
    token = text(wire, "authorization", path)
    headers = mapping(wire, "headers", path) or {}
    at = (*path, "headers")
    for name in headers:
        value = need_text(headers, name, at)
        scheme, _, rest = value.partition(" ")
        if name.lower() != "authorization" or scheme.lower() != "bearer" or not rest:
            losses.refuse(Rule.MCP_SERVERS, (*at, name), "the backend sends no header but a bearer token.")
        token = token or rest.strip()
    return token


def _allowed(wire: Wire, path: Path, losses: LossReport) -> list[str] | None:
    at = (*path, "allowed_tools")
    given = wire.get("allowed_tools")
    if not is_object(given):
        return texts(wire, "allowed_tools", path)
    report_unknown(given, frozenset({"read_only", "tool_names"}), at, losses)
    if given.get("read_only") is not None:
        losses.refuse(Rule.MCP_SERVERS, (*at, "read_only"), "the backend can't tell which tools only read.")
    return texts(given, "tool_names", at)


# --- writing ---

HOSTED_NAMES = {"web_search": "web_search", "code": "code_interpreter"}
_CODE_TOOL: Wire = {"type": "code_interpreter", "container": {"type": "auto"}}
_PLAIN: dict[str, Wire] = {"code": _CODE_TOOL, "tool_search": {"type": "tool_search"}}


def write_hosted_tool(tool: HostedTool) -> Wire | None:
    """The declaration; None for a kind that is not asked for in this protocol."""
    asked = tool.asked
    match asked:
        case WebSearch():
            return _write_search(asked)
        case McpServer():
            return _write_server(asked)
        case None:
            return _PLAIN.get(tool.kind)
        case _:
            assert_never(asked)


def _write_search(asked: WebSearch) -> Wire:
    wire: Wire = {"type": "web_search"}
    if asked.allowed_domains:
        wire["filters"] = {"allowed_domains": asked.allowed_domains}
    if asked.location is not None:
        wire["user_location"] = {"type": "approximate", **asked.location}
    if asked.context_size is not None:
        wire["search_context_size"] = asked.context_size
    return wire


def _write_server(asked: McpServer) -> Wire:
    wire: Wire = {"type": "mcp", "server_label": asked.label, "server_url": asked.url, "require_approval": "never"}
    if asked.token is not None:
        wire["authorization"] = asked.token
    if asked.allowed is not None:
        wire["allowed_tools"] = asked.allowed
    if asked.deferred:
        wire["defer_loading"] = True
    return wire
