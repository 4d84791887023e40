"""Names of the Responses wire that more than one module needs (responses.md 4, 9, 10; mapping.md 1.2, 12.1).

An item has two ids: `id` is the item's own and means nothing to anyone but the server that made it; `call_id` pairs a
call with its output.
"""

from proxy.canonical.stop import StopKind
from proxy.protocols.fields import Wire, is_object

# Items of tools that the service ran itself, with the kind of tool (mapping.md 1.1). The right column of
# responses.md 6.12 is not here: the client runs those.
HOSTED_ITEMS: dict[str, str] = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code",
    "image_generation_call": "image_generation",
    "mcp_list_tools": "mcp",
    "mcp_approval_request": "mcp",
    "mcp_approval_response": "mcp",
    "mcp_call": "mcp",
    "tool_search_call": "tool_search",
    "tool_search_output": "tool_search",
    "program": "program",
    "program_output": "program",
}
# All that may come back out of an envelope, where anyone could have written that.
HOSTED_TYPES = frozenset({*HOSTED_ITEMS, "shell_call", "shell_call_output", "compaction"})
HOSTED_RESULTS = frozenset({"mcp_approval_response", "tool_search_output", "program_output", "shell_call_output"})

# Items of typed tools that the client runs: the tool, the field that holds its arguments, the prefix of item ids.
TYPED_CALLS: dict[str, tuple[str, str, str]] = {
    "shell_call": ("shell", "action", "sh"),
    "local_shell_call": ("local_shell", "action", "lsh"),
    "apply_patch_call": ("apply_patch", "operation", "apc"),
    "computer_call": ("computer", "actions", "cu"),
    "tool_search_call": ("tool_search", "arguments", "tsc"),
}
TYPED_ITEM: dict[str, str] = {tool: item for item, (tool, _, _) in TYPED_CALLS.items()}
# Environments in which the service runs the shell itself (responses.md 6.11). A tuple, since what is looked up in it
# may be any JSON value.
CONTAINERS = ("container_auto", "container_reference")


def runs_at_service(item: Wire) -> bool:
    """Whether a call or output of a tool that a client may run is one that the service ran itself."""
    environment = item.get("environment")
    if is_object(environment) and environment.get("type") in CONTAINERS:
        return True
    # The service gives its own searches no `call_id`.
    searches = item.get("type") in ("tool_search_call", "tool_search_output")
    return searches and (item.get("execution") or ("client" if item.get("call_id") else "server")) != "client"


# Prefixes of item ids as recorded (responses.md 10).
ITEM_PREFIX: dict[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "compaction": "cmp",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_call": "mcp",
    "tool_search_output": "tso",
    "program": "cm",
    "program_output": "cmo",
    "shell_call_output": "sho",
    **{item: prefix for item, (_, _, prefix) in TYPED_CALLS.items()},
}

# What a stop reason reads as: the response's status, and the reason when it is incomplete (mapping.md 12.1).
STATUS_OF_STOP: dict[StopKind, tuple[str, str | None]] = {
    "end": ("completed", None),
    "tool": ("completed", None),
    "stop_sequence": ("completed", None),
    "refusal": ("completed", None),
    "compaction": ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    "context": ("incomplete", "max_output_tokens"),
    "pause": ("incomplete", "max_output_tokens"),
    "filter": ("incomplete", "content_filter"),
    "max_messages": ("incomplete", "max_messages"),
    "steered": ("incomplete", "steered"),
}
STOP_OF_REASON: dict[str, StopKind] = {
    "max_output_tokens": "length",
    "content_filter": "filter",
    "max_messages": "max_messages",
    "steered": "steered",
}

EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
WITH_LOGPROBS = "message.output_text.logprobs"
WITH_SOURCES = "web_search_call.action.sources"
WITH_ENCRYPTED_REASONING = "reasoning.encrypted_content"

# Events that only say that the backend is at work.
PROGRESS_EVENTS = frozenset(
    f"response.{tool}.{stage}"
    for tool, stages in {
        "web_search_call": "in_progress searching completed",
        "file_search_call": "in_progress searching completed",
        "code_interpreter_call": "in_progress interpreting completed",
        "image_generation_call": "in_progress generating completed",
        "mcp_call": "in_progress completed failed",
        "mcp_list_tools": "in_progress completed failed",
        "compaction": "compacting",
    }.items()
    for stage in stages.split()
)
# Events of what is told when its item or part is done: no client is shown how it grows, nor an image on its way.
REPEATED_EVENTS = frozenset(
    {
        "response.content_part.added",
        "response.reasoning_summary_part.added",
        "response.audio.done",
        "response.audio.transcript.done",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.image_generation_call.partial_image",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
    }
)
