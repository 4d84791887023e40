"""Items of tools that the service ran, told in no one's wire format, and the reverse (mapping.md 5.5)."""

from proxy.canonical.deed import Deed
from proxy.protocols.fields import Wire, is_object


def read_deed(item: Wire, _result: Wire | None) -> Deed | None:
    """What a search did; None for other items, which only this protocol shows."""
    if item.get("type") != "web_search_call":
        return None
    given = item.get("action")
    action = given if is_object(given) else {}
    deed = Deed("web_search", _query(action), done=True)
    sources = action.get("sources")
    found = [source.get("url") for source in sources if is_object(source)] if isinstance(sources, list) else []
    deed.sources = [url for url in (*found, action.get("url")) if type(url) is str and url]
    if item.get("status") in ("failed", "incomplete"):
        deed.error = str(item["status"])
    return deed


def _query(action: Wire) -> str:
    """What was searched for; the address of a page that was opened."""
    queries = action.get("queries")
    if isinstance(queries, list) and queries:
        return ", ".join(query for query in queries if type(query) is str)
    for name in ("query", "url"):
        value = action.get(name)
        if type(value) is str:
            return value
    return ""


def show_deed(deed: Deed, _call_id: str, _envelope: str) -> list[Wire]:
    """The item of a deed, without an id. One that is not done is on its way, or was given up."""
    status = "failed" if deed.error is not None else "completed" if deed.done else "incomplete"
    match deed.kind:
        case "web_search":
            sources: list[Wire] = [{"type": "url", "url": url} for url in deed.sources]
            action: Wire = {"type": "search", "query": deed.said, "queries": [deed.said], "sources": sources}
            return [{"type": "web_search_call", "status": status, "action": action}]
        case "code":
            logs = deed.output if deed.error is None else deed.error
            outputs = [{"type": "logs", "logs": logs}] if logs is not None else None
            return [
                {
                    "type": "code_interpreter_call",
                    "status": status,
                    "code": deed.said,
                    "container_id": "",
                    "outputs": outputs,
                }
            ]
        case "mcp":
            return [
                {
                    "type": "mcp_call",
                    "status": status,
                    "server_label": deed.server,
                    "name": deed.name,
                    "arguments": deed.said,
                    "output": deed.output,
                    "error": _error(deed.error) if deed.error is not None else None,
                    "approval_request_id": None,
                }
            ]


def _error(text: str) -> Wire:
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
