"""No field of a whole reply is lost in silence (invariant I11 of mapping.md section 20).

Each field of the vendors' types is set alone, at every place and with every word it may have: then what the client
gets is another reply, or a loss is recorded, or an error told, or the closed tables here say why nobody misses it.
"""

import json

import pytest

from proxy.canonical.errors import Rejected
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.reply_places import ReplyPlace, places, title
from tests.properties.test_streams import prepared

PAIRS = [(client, backend) for client in PROTOCOLS for backend in PROTOCOLS if client != backend]

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
    "misalignment": "what a vendor does about a reply that it broke off: the error itself is told (15.1)",
    **dict.fromkeys(
        (
            *("accepted_prediction_tokens", "rejected_prediction_tokens", "audio_tokens", "text_tokens"),
            *("image_tokens", "image_gen", "tool_usage", "server_tool_use", "iterations", "fallback_credit"),
            *("cache_write_tokens_details", "inference_geo"),
        ),
        "counts of what the other protocol does not count apart, all within the totals (mapping.md 10.2)",
    ),
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
        ("ResponseFunctionToolCall.id", "ResponseCustomToolCall.id"), "a client knows a call by its `call_id` (3.4)"
    ),
    "Message.stop_sequence": "OpenAI's clients expect no word of which one it was (7.3)",
    **dict.fromkeys(
        ("RefusalStopDetails.category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim"),
        "for the vendor's own next request; the explanation is told (12.1)",
    ),
}

# The same for the clients of one protocol.
TO_CLIENT: dict[Protocol, dict[str, str]] = {
    "chat": dict.fromkeys(
        (
            *("CitationCharLocation", "CitationPageLocation", "CitationContentBlockLocation"),
            "CitationSearchResultLocation",
        ),
        "the citation is told as lost (4.7)",
    ),
    "responses": {
        "ChatCompletionTokenLogprob.bytes": "those of a refusal are told as lost, others go with their token"
    },
    "messages": dict.fromkeys(
        ("ChoiceLogprobs.content", "ChatCompletionTokenLogprob.bytes", "TopLogprob.bytes", "Choice.logprobs"),
        "Messages knows no logarithms, so nobody asked",
    ),
}

# Values that say what the absent field says, to others at least.
DEFAULTS: dict[str, list[Json]] = {
    "speed": ["standard"],
    # No call, and no item of a compaction, is there.
    "Message.stop_reason": ["end_turn", "stop_sequence", "tool_use", "compaction"],
    "Choice.finish_reason": ["tool_calls", "function_call"],  # there is no call
    "service_tier": ["standard", "batch"],
    # Nothing is in them but what stands beside.
    "stop_details": [{"type": "refusal"}],
    "incomplete_details": [{}],
    "IncompleteDetails.reason": ["max_output_tokens", "max_messages"],
    "logprobs": [{}],
}


def outcome(client: Protocol, backend: Protocol, reply: Json) -> object:
    ready = prepared(client, backend, stream=False)
    try:
        out = ready.reply(json.dumps(reply).encode())
    except Rejected as rejected:
        return repr(rejected.error)
    return out, sorted((loss.rule, loss.level, loss.path) for loss in ready.losses)


def is_idle(client: Protocol, backend: Protocol, place: ReplyPlace, name: str, value: Json) -> bool:
    path = [step for step in (*place.path, name) if isinstance(step, str)]
    typed = f"{title(place.struct)}.{name}"
    known = {*path, typed, title(place.struct)}
    default = value is False or value in DEFAULTS.get(typed, []) or value in DEFAULTS.get(name, [])
    return default or path[0] in ECHO[backend] or not known.isdisjoint(MEANINGLESS.keys() | TO_CLIENT[client].keys())


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_every_field_is_mapped_or_told(client: Protocol, backend: Protocol) -> None:
    silent: list[str] = []
    for place in places(backend):
        for name, value, without, with_field in place.replies():
            if is_idle(client, backend, place, name, value):
                continue
            if outcome(client, backend, with_field) == outcome(client, backend, without):
                silent.append(f"{place.path} {title(place.struct)}.{name} = {value!r:.60}")
    assert silent == []
