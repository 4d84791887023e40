"""What of a reply a client of another protocol does not miss, and why: the closed tables of the walks over its fields.

A key is the name of a field, of a type, or of a type and a field where one name has several meanings.
"""

from collections.abc import Iterable

from proxy.canonical.loss import Loss, format_path
from tests.harness.wire import Json, Protocol
from tests.properties.reply_places import ReplyPlace, is_reply, title

# What a backend tells of the request again, at the top of a reply; a client gets its own request back.
ECHO: dict[Protocol, frozenset[str]] = {
    "chat": frozenset({"metadata"}),
    "responses": frozenset(
        {
            "access_programs",
            "background",
            "conversation",
            "instructions",
            "max_output_tokens",
            "max_tool_calls",
            "metadata",
            "parallel_tool_calls",
            "previous_response_id",
            "prompt",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "safety_identifier",
            "temperature",
            "text",
            "tool_choice",
            "tools",
            "top_logprobs",
            "top_p",
            "truncation",
            "user",
            "image",
        }
    ),
    "messages": frozenset(),
}

# Fields, alone or by their type, that tell a client of another protocol nothing.
MEANINGLESS: dict[str, str] = {
    **dict.fromkeys(
        ("moderation", "context_management", "diagnostics", "prompt_cache_diagnostics"),
        "never asked for: the request's own field was told as a loss",
    ),
    "ResponseError.type": "the class of an error is that of its code (15.1)",
    "misalignment": "what a vendor does about a reply that it broke off: the error itself is told (15.1)",
    **dict.fromkeys(
        (
            *("accepted_prediction_tokens", "rejected_prediction_tokens", "audio_tokens", "text_tokens"),
            *("image_tokens", "image_gen", "tool_usage", "server_tool_use", "iterations", "fallback_credit"),
            *("cache_write_tokens_details", "inference_geo"),
        ),
        "counts of what the other protocol does not count apart, all within the totals (mapping.md 10.2)",
    ),
    "total_tokens": "the sum of the counts beside it",
    **dict.fromkeys(
        ("completion_tokens_details", "prompt_tokens_details"), "an object of counts that are tried one by one"
    ),
    "system_fingerprint": "names the build of a backend, which only Chat has a word for",
    "input_transformations": "what the vendor changed in the prompt; toward other clients nothing (8.7)",
    "container": "a container stays at its vendor, and a request for one is refused (11.1)",
    "completed_at": "the client sees when the answer is complete",
    "status": "what is unfinished shows in the stop of the whole (12.1)",
    **dict.fromkeys(("created_by", "environment"), "who a call of a typed tool belongs to: the client that runs it"),
    **dict.fromkeys(("caller", "async"), "no such call can have been asked for (5.1)"),
    "toolset_name": "the names of the request's tools bring it back (5.3)",
    "namespace": "the names of the request's tools bring it back (3.3)",
    **dict.fromkeys(
        (
            *("ResponseFunctionToolCall.id", "ResponseCustomToolCall.id", "ResponseComputerToolCall.id"),
            *("LocalShellCall.id", "ResponseFunctionShellToolCall.id", "ResponseApplyPatchToolCall.id"),
        ),
        "a client knows a call by its `call_id` (3.4)",
    ),
    "ResponseOutputMessage.id": "the id of an item means nothing to anyone but the server that made it (3.4)",
    "PendingSafetyCheck": "the checks of a call are told as lost",
    **dict.fromkeys(
        ("CitationsWebSearchResultLocation.cited_text", "CitationsWebSearchResultLocation.encrypted_index"),
        "carried with the search that they are from (4.7)",
    ),
    "Delta.stop_sequence": "OpenAI's clients expect no word of which one it was (7.3)",
    "Message.stop_sequence": "OpenAI's clients expect no word of which one it was (7.3)",
    **dict.fromkeys(
        ("RefusalStopDetails.category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim"),
        "for the vendor's own next request; the explanation is told (12.1)",
    ),
}

# Citations of documents and files, with all that they say.
_OF_DOCUMENTS = (
    *(
        "CitationsSearchResultLocation",
        "CitationCharLocation",
        "CitationPageLocation",
        "CitationContentBlockLocation",
        "CitationSearchResultLocation",
    ),
    *("AnnotationFileCitation", "AnnotationContainerFileCitation", "AnnotationFilePath"),
)

# The same for the clients of one protocol.
TO_CLIENT: dict[Protocol, dict[str, str]] = {
    "chat": dict.fromkeys(_OF_DOCUMENTS, "the citation is told as lost (4.7)"),
    "responses": {
        **dict.fromkeys(_OF_DOCUMENTS, "what a place in a document is narrowed to is told (4.7)"),
        "ChatCompletionTokenLogprob.bytes": "those of a refusal are told as lost, others go with their token",
    },
    "messages": {
        **dict.fromkeys(_OF_DOCUMENTS, "the citation is told as lost (4.7)"),
        "logprobs": "Messages knows no logarithms, so nobody asked",
        **dict.fromkeys(("created", "created_at"), "Messages tells no times"),
        **dict.fromkeys(
            (
                *("ResponseError.code", "ResponseError.param"),
                *("ResponseErrorEvent.code", "ResponseErrorEvent.param"),
            ),
            "an error of Messages has a type, which is that of its class, and a message (15.1)",
        ),
    },
}

# Values that say what the absent field says, to others at least.
DEFAULTS: dict[str, list[Json]] = {
    "speed": ["standard"],
    # No call, and no item of a compaction, is there.
    "Message.stop_reason": ["end_turn", "stop_sequence", "tool_use", "compaction"],
    "Delta.stop_reason": ["end_turn", "stop_sequence", "tool_use", "compaction"],
    "Choice.finish_reason": ["stop", "tool_calls", "function_call"],  # there is no call
    "service_tier": ["standard", "batch"],
    # Nothing is in them but what stands beside.
    "stop_details": [{"type": "refusal"}],
    "IncompleteDetails.reason": ["max_output_tokens", "max_messages"],
}


def is_idle(client: Protocol, backend: Protocol, place: ReplyPlace, name: str, value: Json) -> bool:
    """Whether nobody misses a field with this value."""
    typed = f"{title(place.struct)}.{name}"
    known = {*(step for step in place.path if isinstance(step, str)), name, typed, title(place.struct)}
    empty = value is False or value == {}
    default = empty or value in DEFAULTS.get(typed, []) or value in DEFAULTS.get(name, [])
    echoed = is_reply(place.struct) and name in ECHO[backend]
    return default or echoed or not known.isdisjoint(MEANINGLESS.keys() | TO_CLIENT[client].keys())


def is_lost_whole(losses: Iterable[Loss], place: ReplyPlace) -> bool:
    """Whether the object at a place, or what holds it, is told as lost."""
    held = {format_path(place.path[:length]) for length in range(1, len(place.path) + 1)}
    return any(loss.level == "drop" and loss.path in held for loss in losses)
