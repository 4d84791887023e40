"""What of a streamed event a client does not miss beyond `reply_decisions`, and why: closed tables.

Paths begin with the type of the event (`chunk` for Chat) and leave out indices; one holds for all that is below it.
"""

from tests.properties.reply_places import ReplyPlace, title

# Events of a stream that fails, whatever else is in it.
FAILING = frozenset({"response.failed", "error"})

_LATER = "the end of the item, the part or the answer tells it, and more"
_ITEM = "the item tells it when it is done, as shown or carried (5.5), and no client is shown how it grows"

TOLD_ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        (
            *("response.created", "response.queued.response", "response.in_progress.response"),
            *("response.output_item.added", "response.content_part.added", "response.reasoning_summary_part.added"),
            *("response.audio.done", "response.audio.transcript.done"),
            *("message_start.message.content", "message_start.message.stop_reason"),
            *("message_start.message.stop_details", "message_start.message.stop_sequence"),
            "message_start.message.usage.output_tokens",
        ),
        _LATER,
    ),
    **dict.fromkeys(
        (
            *("response.code_interpreter_call_code.delta", "response.code_interpreter_call_code.done"),
            *("response.mcp_call_arguments.delta", "response.mcp_call_arguments.done"),
            *("response.shell_call_command.added", "response.shell_call_command.delta"),
            "response.shell_call_command.done",
            *("response.shell_call_output_content.delta", "response.shell_call_output_content.done"),
            "response.image_generation_call.partial_image",
        ),
        _ITEM,
    ),
    **dict.fromkeys(
        ("response.audio.delta.delta", "response.audio.transcript.delta.delta"),
        "all of a spoken answer is told as lost",
    ),
    **dict.fromkeys(
        (
            *("response.failed.response.id", "response.failed.response.created_at", "response.failed.response.model"),
            *("response.failed.response.output", "response.failed.response.usage"),
            *("response.failed.response.service_tier", "response.failed.response.incomplete_details"),
        ),
        "what failed is told as an error alone (15.1)",
    ),
    **dict.fromkeys(
        ("content_block_stop", "message_stop"), "the end of an answer that was given a stop ends all (13.6)"
    ),
    "content_block_delta.delta.estimated_tokens": "progress of thinking; the usage counts it",
    "chunk.choices.delta.role": "it is always the assistant who answers",
    "chunk.choices.delta.tool_calls.index": "which pieces belong together, and the call is written whole",
}

# Fields of events that say where they belong, by name or by type and name.
PLACES: dict[str, str] = {
    **dict.fromkeys(
        ("sequence_number", "item_id", "output_index", "content_index", "summary_index", "annotation_index"),
        "what an event is about; the client gets numbers and ids of its own (3.4)",
    ),
    **dict.fromkeys(
        ("RawContentBlockStartEvent.index", "RawContentBlockDeltaEvent.index", "RawContentBlockStopEvent.index"),
        "blocks are counted by the order of their start (13.2)",
    ),
    "obfuscation": "padding against those who measure lengths; the proxy does not pad (11.1)",
}


def is_told_elsewhere(at: str) -> bool:
    """Whether an event, or a field in it, is in the table or below what is."""
    return any(at == known or at.startswith(f"{known}.") for known in TOLD_ELSEWHERE)


def says_where(place: ReplyPlace, name: str) -> bool:
    """Whether a field only says what an event is about."""
    return name in PLACES or f"{title(place.struct)}.{name}" in PLACES
