"""Features that a request must be sent with the names of, in a header (messages.md 3.1)."""

from proxy.protocols.fields import Wire, is_object

_MCP = "mcp-client-2025-11-20"
_BINDING_CONTROLS = "thinking-binding-controls-2026-08-01"
_FAST_MODE = "fast-mode-2026-02-01"
_COMPACTION = "compact-2026-01-12"
_MCP_BLOCKS = ("mcp_tool_use", "mcp_tool_result")


def betas_of(body: Wire) -> tuple[str, ...]:
    """The names that what this body holds needs."""
    betas: tuple[str, ...] = ()
    if body.get("mcp_servers") or _mentions_mcp(body.get("messages")):
        betas += (_MCP,)
    if is_object(thinking := body.get("thinking")) and "block_binding" in thinking:
        betas += (_BINDING_CONTROLS,)
    if body.get("speed") == "fast":
        betas += (_FAST_MODE,)
    if "context_management" in body:
        betas += (_COMPACTION,)
    return betas


def _mentions_mcp(messages: object) -> bool:
    """Whether calls of MCP servers are part of the history, which is so even when none is declared any more."""
    for message in messages if isinstance(messages, list) else ():
        content = message["content"] if message["role"] == "assistant" else ()
        for block in content:
            if block["type"] in _MCP_BLOCKS:
                return True
    return False
