"""The constants of Chat Completions (chat_completions.md), and the words that compatible servers use in their place."""

from proxy.canonical.errors import ErrorClass
from proxy.canonical.loss import Rule
from proxy.canonical.request import Effort
from proxy.canonical.stop import StopKind

EFFORTS: dict[str, Effort] = {
    "none": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
VERBOSITIES = frozenset({"low", "medium", "high"})
DETAILS = frozenset({"auto", "low", "high", "original"})
AUDIO_FORMATS = frozenset({"wav", "mp3"})
GRAMMAR_SYNTAXES = frozenset({"lark", "regex"})

REQUEST_FIELDS = frozenset(
    {
        "messages",
        "model",
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
        # What other servers added to it (mapping.md 7.2, 8.1).
        "top_k",
        "min_p",
        "repetition_penalty",
        "thinking",
        "reasoning",
        "chat_template_kwargs",
        "enable_thinking",
    }
)

# Fields that any Chat server takes; what is not here is sent only to a dialect that names it (mapping.md 17).
CORE_FIELDS = frozenset(
    {
        "temperature",
        "top_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "n",
        "logprobs",
        "top_logprobs",
        "stop",
        "response_format",
        "reasoning_effort",
    }
)

# mapping.md 12.2, in lower case: servers differ in nothing but case for some of these.
STOPS: dict[str, StopKind] = {
    "stop": "end",
    "eos": "end",
    "eos_token": "end",
    "end_turn": "end",
    "tool_calls": "tool",
    "function_call": "tool",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filter",
    "safety": "filter",
    "recitation": "filter",
    "sensitive": "filter",
    "prohibited_content": "filter",
}

# Finish reasons that are failures in disguise; ending cleanly on one would pass half an answer for a whole one.
FAILURES: dict[str, ErrorClass] = {
    "error": ErrorClass.SERVER,
    "network_error": ErrorClass.SERVER,
    "abort": ErrorClass.SERVER,
    "malformed_function_call": ErrorClass.SERVER,
    "insufficient_system_resource": ErrorClass.OVERLOADED,
}

# Where thinking stands in a message, as a reasoning part's `field` has it (mapping.md 8.5, 8.8). The first three are
# fields of the message; Mistral puts it among the parts of the content, raw templates between tags in its text.
DETAILS_FIELD = "reasoning_details"
IN_CONTENT = "content"
IN_TAGS = "<think>"
REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", DETAILS_FIELD, IN_CONTENT, IN_TAGS})

# The field of a call with what Gemini signs it with; its reasoning parts say which call they are of (mapping.md 8.8).
CALL_SIGNATURE = "extra_content"

# What is lost when a part that only its own protocol knows stands in the history.
OPAQUE_RULES: dict[str, Rule] = {
    "compaction": Rule.COMPACTION,
    "container_upload": Rule.CONTAINER_UPLOAD,
    "tool_reference": Rule.TOOL_REFERENCE,
    "browser_state": Rule.BROWSER_STATE,
    "configuration_update": Rule.CONFIGURATION_UPDATE,
    "item_reference": Rule.ITEM_REFERENCE,
}
