"""What must not be sent twice: a request that does something at the backend (operations.md 11, "Idempotency")."""

from proxy.canonical.jsontext import NotJson, loads

# Types of tools that the backend runs and that do something, by how they begin: others only read.
_DOES = ("mcp", "code_interpreter", "code_execution")


def leaves_traces(body: bytes) -> bool:
    """Whether a request that may have been carried out has done more than to answer."""
    try:
        asked = loads(body)
    except NotJson:
        return True
    if type(asked) is not dict or asked.get("store") is True or asked.get("background") is True:
        return True
    if asked.get("mcp_servers") or asked.get("container"):
        return True
    tools = asked.get("tools")
    return any(map(_acts, tools)) if type(tools) is list else False


def _acts(tool: object) -> bool:
    if type(tool) is not dict or type(kind := tool.get("type")) is not str:
        return False
    # A shell is the client's own unless it has a place to run in.
    return kind.startswith(_DOES) or (kind == "shell" and tool.get("environment") is not None)
