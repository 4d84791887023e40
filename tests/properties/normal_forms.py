"""Two spellings of one request: what reading a request and writing it again may change, with the reason for each.

The canonical model knows what a request means, not how it was spelled. Whatever is not listed here must come back as
it was, or be told in the loss report (invariant I3 of mapping.md section 20).
"""

from tests.harness.wire import Json, Protocol
from tests.properties.same_words import CONVERSATION, OLDER_FORMS
from tests.properties.told_places import TOLD, untold

# Objects of the client's own making. They mean what they hold, so that a null in one is a null.
OPEN = frozenset({"parameters", "schema", "input_schema", "arguments", "logit_bias"})

# What an absent field says too, as a null and an empty object do. A place is the end of a path, without indices.
DEFAULTS: dict[Protocol, dict[str, list[Json]]] = {
    "chat": {
        "stream": [False],
        "store": [False],
        "service_tier": ["auto"],
        "response_format": [{"type": "text"}],
        "modalities": [["text"]],
        "custom.format": [{"type": "text"}],
        "prompt_cache_breakpoint.ttl": ["30m"],
        "file.filename": ["document.pdf"],  # some backends want one (4.3)
    },
    "responses": {
        "stream": [False],
        "background": [False],
        "service_tier": ["auto"],
        "truncation": ["disabled"],
        "top_logprobs": [0],
        "prompt_cache_options.prewarm": [False],
        "reasoning.context": ["auto"],
        "reasoning.mode": ["standard"],
        "text.format": [{"type": "text"}],
        "text.format.strict": [False],
        "caller": [{"type": "direct"}],
        "async": [False],
        "tools.format": [{"type": "text"}],
        "tools.parameters": [{"type": "object", "properties": {}}],
        "tools.defer_loading": [False],
        "tools.allowed_callers": [["direct"]],
        "tools.external_web_access": [True],
        "tools.search_content_types": [["text"]],
        "tools.execution": ["server"],
        "detail": ["auto"],
        "filename": ["document.pdf"],
        "prompt_cache_breakpoint.ttl": ["30m"],
    },
    "messages": {
        "stream": [False],
        "service_tier": ["auto"],
        "tool_choice.disable_parallel_tool_use": [False],
        "messages.clear_at": ["never"],
        "content.is_error": [False],
        "content.caller": [{"type": "direct"}],
        "citations.enabled": [False],
        "cache_control.ttl": ["5m"],
        "tools.type": ["custom"],
        "tools.strict": [False],
        "tools.defer_loading": [False],
        "tools.allowed_callers": [["direct"]],
        "tools.user_location": [{"type": "approximate"}],
        "tools.response_inclusion": ["full"],
    },
}

# What is not sent on, whatever it says.
FITTED = "a step between reading and writing makes it another setting or tells its loss (`translation/prepare.py`)"
OWN = "no client of another protocol can say it, and within the protocol everything passes through"
UNSENT: dict[Protocol, dict[str, str]] = {
    "chat": {
        "stream_options": "the usage is always asked for (13.4), and nothing is padded (11.1)",
        "messages.annotations": "clients send whole answers back, and a citation alone is of no use (4.7)",
        **dict.fromkeys(("reasoning", "thinking", "enable_thinking"), FITTED),
    },
    "responses": {
        "stream_options": "nothing is padded (11.1)",
        "store": "what is translated is never kept by the backend (11.1)",
        "input.id": "ids of items are looked up, so none is sent (3.4)",
        "input.status": "what comes back is complete (4.5)",
        "input.namespace": "the group becomes a part of the name (3.3)",
        **dict.fromkeys(("presence_penalty", "frequency_penalty"), FITTED),
    },
    "messages": {
        "betas": "features are mapped one by one (11.1)",
        "content.toolset_name": "the call that is answered has it",
        "tools.eager_input_streaming": "how fast arguments come, not what they are (5.1)",
        **dict.fromkeys(("speed", "tools.blocked_domains"), OWN),
        "content.transformations": FITTED,
    },
}

# Older names of settings: of two, the newer one holds.
OLDER: dict[Protocol, dict[str, str]] = {
    "chat": {"max_tokens": "max_completion_tokens", "user": "safety_identifier"},
    "responses": {"user": "safety_identifier"},
    "messages": {},
}
NEEDS_TOOLS = ("tool_choice", "parallel_tool_calls", "max_tool_calls")


def normal(protocol: Protocol, request: Json) -> Json:
    """The one spelling of a request, which may have `TOLD` at any place."""
    request = _renamed(protocol, _pruned(protocol, OLDER_FORMS[protocol](request), ""))
    if request.get("tools") is TOLD:
        request = {**request, **dict.fromkeys(NEEDS_TOOLS, TOLD)}
    elif not request.get("tools"):
        request = {name: value for name, value in request.items() if name not in NEEDS_TOOLS}
    return CONVERSATION[protocol](request)


def _renamed(protocol: Protocol, request: Json) -> Json:
    for old, new in OLDER[protocol].items():
        if old in request:
            request = {new: request[old], **{name: value for name, value in request.items() if name != old}}
    return request


def _pruned(protocol: Protocol, value: Json, place: str) -> Json:
    """Without nulls and empty objects, without empty settings, defaults and what is not sent on."""
    if isinstance(value, list):
        return [_pruned(protocol, inner, place) for inner in value]
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for name, inner in value.items():
        at = f"{place}.{name}"
        if name not in OPEN and not at.endswith(".content.input"):
            inner = _pruned(protocol, inner, at)
            if inner in (None, {}) or (not place and inner in ("", [])):
                continue
        if not _says_nothing(protocol, at, inner):
            kept[name] = inner
    return kept


def _says_nothing(protocol: Protocol, place: str, value: Json) -> bool:
    steps = place.split(".")[1:]
    ends = {".".join(steps[-count:]) for count in (1, 2, 3)}
    return any(untold(value) in DEFAULTS[protocol].get(end, ()) or end in UNSENT[protocol] for end in ends)
