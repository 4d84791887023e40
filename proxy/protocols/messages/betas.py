"""Features that a request must be sent with the names of, in a header (messages.md 3.1)."""

from proxy.protocols.fields import Wire, is_object

_MCP = "mcp-client-2025-11-20"
_BINDING_CONTROLS = "thinking-binding-controls-2026-08-01"


def betas_of(body: Wire) -> tuple[str, ...]:
    """The names that what this body holds needs."""
    betas: tuple[str, ...] = ()
    if body.get("mcp_servers") or _mentions_mcp(body.get("messages")):
        betas += (_MCP,)
    if is_object(thinking := body.get("thinking")) and "block_binding" in thinking:
        betas += (_BINDING_CONTROLS,)
    return betas


def _mentions_mcp(messages: object) -> bool:
    """Whether calls of MCP servers are part of the history, which is so even when none is declared any more."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if is_object(message) and message.get("role") == "assistant" else None
        for block in content if isinstance(content, list) else ():
            if is_object(block) and block.get("type") in ("mcp_tool_use", "mcp_tool_result"):
                return True
    return False
