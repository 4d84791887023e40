"""Constants of the Messages wire: block kinds, tool kinds, media types, the grammar of a stream.

A dated tool type (`web_search_20260318`) is its base name and a version: the base says what it is, so that a
version of tomorrow is still the same tool.
"""

import re
from typing import Literal

ToolSide = Literal["client", "server"]

# Tools that Anthropic defines: base of the wire type -> who runs it, canonical kind, fixed name
# (messages.md 8.2 to 8.4).
VENDOR_TOOLS: dict[str, tuple[ToolSide, str, str]] = {
    "bash": ("client", "bash", "bash"),
    "text_editor": ("client", "text_editor", "str_replace_based_edit_tool"),
    "memory": ("client", "memory", "memory"),
    "computer": ("client", "computer", "computer"),
    "computer_toolset": ("client", "computer", "computer"),
    "browser_toolset": ("client", "browser", "browser"),
    "web_search": ("server", "web_search", "web_search"),
    "web_fetch": ("server", "web_fetch", "web_fetch"),
    "code_execution": ("server", "code", "code_execution"),
    "tool_search_tool_regex": ("server", "tool_search", "tool_search_tool_regex"),
    "tool_search_tool_bm25": ("server", "tool_search", "tool_search_tool_bm25"),
    "advisor": ("server", "advisor", "advisor"),
    "mcp_toolset": ("server", "mcp", "mcp_toolset"),
}
_VERSION = re.compile(r"_\d{8}$")


def base_type(wire_type: str) -> str:
    """A tool type without its version."""
    return _VERSION.sub("", wire_type)


# Names of `server_tool_use` blocks -> canonical kind (messages.md 7.6).
SERVER_TOOLS: dict[str, str] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code",
    "bash_code_execution": "code",
    "text_editor_code_execution": "code",
    "tool_search_tool_regex": "tool_search",
    "tool_search_tool_bm25": "tool_search",
    "advisor": "advisor",
}

# Blocks that hold what a server tool answered -> canonical kind (messages.md 7.7).
SERVER_RESULTS: dict[str, str] = {
    "web_search_tool_result": "web_search",
    "web_fetch_tool_result": "web_fetch",
    "code_execution_tool_result": "code",
    "bash_code_execution_tool_result": "code",
    "text_editor_code_execution_tool_result": "code",
    "tool_search_tool_result": "tool_search",
    "advisor_tool_result": "advisor",
    "mcp_tool_result": "mcp",
}

# Blocks of server tools, calls and results: a reply writer that meets one as `native` gives it back as it was.
HOSTED_BLOCKS = frozenset({"server_tool_use", "mcp_tool_use", *SERVER_RESULTS})

# Blocks that only this protocol knows. `compaction` is also an item of Responses, which has an `id`.
OPAQUE_BLOCKS = frozenset({"container_upload", "compaction", "fallback", "mcp_tool_listing", "connector_text"})

# All that may come back out of an envelope, where anyone could have written that.
HOSTED_TYPES = HOSTED_BLOCKS | OPAQUE_BLOCKS - {"container_upload"}

COMPACT = "compact_20260112"  # the type of the edit that sums a conversation up (messages.md 13.2)

# What a base64 image may be (messages.md 7.5).
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def is_native(block: dict[str, object]) -> bool:
    """Whether a part's `native` is a block of this protocol that goes out as it is."""
    wire_type = block.get("type")
    if type(wire_type) is not str:
        return False
    return wire_type in HOSTED_BLOCKS or (wire_type in OPAQUE_BLOCKS and "id" not in block)


EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})

# The grammar of a stream: state -> event type -> next state (messages.md 15.2). `ended` takes nothing.
StreamState = Literal["begin", "between", "block", "stopped", "ended"]
GRAMMAR: dict[StreamState, dict[str, StreamState]] = {
    "begin": {"message_start": "between", "error": "ended"},
    "between": {"content_block_start": "block", "message_delta": "stopped", "ping": "between", "error": "ended"},
    "block": {"content_block_delta": "block", "content_block_stop": "between", "ping": "block", "error": "ended"},
    "stopped": {"message_delta": "stopped", "message_stop": "ended", "ping": "stopped", "error": "ended"},
    "ended": {},
}
