"""Whether a tenant may ask for the tools of a request."""

from collections.abc import Iterator

from proxy.canonical.errors import Error, Reason, Rejected
from proxy.canonical.loss import Path
from proxy.protocols.fields import Wire
from proxy.settings.tenants import ToolRules
from proxy.tenancy.mcp_names import McpServers
from proxy.tenancy.names import Names
from proxy.tenancy.refusals import denied, malformed, shown
from proxy.tenancy.tool_places import Client, FoundTool, find_tools

MOST_TOOLS = 4096  # in one request; nothing else is done meanwhile, and a body may hold millions


class ToolPolicy:
    """`ToolRules`, compiled. Names of functions and types of hosted tools count as they are written in `allow`; `deny`
    also holds in other case."""

    __slots__ = ("_functions", "_hosted", "_mcp", "_most", "open")

    def __init__(self, rules: ToolRules) -> None:
        self._most = rules.most_functions
        self._functions = Names(rules.functions)
        self._hosted = Names(rules.hosted)
        self.open = self._functions.open and self._hosted.open and rules.mcp_servers.open and self._most is None
        self._mcp = McpServers(rules.mcp_servers)

    def judge(self, client: Client, wire: Wire, path: Path = ()) -> Iterator[tuple[FoundTool, Error | None]]:
        """Each tool, and why it is refused. Raises `Rejected` for one that can't be read, and for too many.
        `path`: where the request stands."""
        functions = 0
        for number, tool in enumerate(find_tools(client, wire)):
            functions += tool.sort == "function"
            at = (*path, *tool.path)
            if number == MOST_TOOLS:
                raise Rejected(malformed(at, f"only {MOST_TOOLS} tools are looked at, so there may be no more."))
            refusal = self._refusal(tool, at)
            if refusal is None and tool.sort == "function" and self._most is not None and functions > self._most:
                refusal = denied(Reason.TOOL_DENIED, f"this key may use at most {self._most} functions.", at)
            yield tool, refusal

    def _refusal(self, tool: FoundTool, at: Path) -> Error | None:
        name = shown(tool.names[0]) if tool.names else ""
        match tool.sort:
            case "function" if not (self._functions.open or (tool.names and self._functions.allow(*tool.names))):
                return denied(Reason.TOOL_DENIED, f"this key may not use the function '{name}'.", at)
            case "hosted" if "mcp" in tool.names:
                # Who names servers has allowed to use some.
                if self._hosted.denied(*tool.names) or not (self._mcp.named or self._hosted.listed(*tool.names)):
                    return denied(Reason.MCP_DENIED, "this key may not use MCP servers.", at)
            case "hosted" if not self._hosted.allow(*tool.names):
                return denied(Reason.HOSTED_TOOL_DENIED, f"this key may not use the tool '{name}'.", at)
            case "mcp" if not self._mcp.allow(tool.names[0]):
                return denied(Reason.MCP_DENIED, "this key may not use this MCP server.", at)
        return None
