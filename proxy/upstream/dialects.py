"""The servers that are known, and how each deviates from its vendor's protocol (mapping.md 17).

A dialect is data. A server is found by the name in the settings, else by the host of its address, else it is
`generic`; the flags of an entry are laid over what its profile says.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from proxy.canonical.target import Dialect

Protocol = Literal["chat", "responses", "messages"]

_OPENAI_CHAT_FIELDS = frozenset(
    {
        "allowed_tools",
        "audio",
        "metadata",
        "modalities",
        "moderation",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
        "web_search_options",
    }
)
_HOSTED = frozenset({"web_search", "code", "mcp", "tool_search"})
# What ChatGPT's own backend refuses of Responses, beside what it insists on.
_NO_CODEX = frozenset({"max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs"})
_NO_EFFORT = frozenset({"reasoning_effort"})
_LOCAL_SAMPLING = frozenset({"top_k", "min_p", "repetition_penalty"})

_OPENAI_CHAT = Dialect(
    "openai",
    "openai",
    max_tokens_key="max_completion_tokens",
    call_id_limit=40,
    developer_role=True,
    custom_tools=True,
    echo_reasoning=False,
    fields=_OPENAI_CHAT_FIELDS,
    stop_limit=4,
    cache_marks="breakpoint",
    responses_too=True,
)
_OPENAI_RESPONSES = Dialect(
    "openai",
    "openai",
    custom_tools=True,
    developer_role=True,
    cache_marks="breakpoint",
    fields=frozenset({"context_management", "service_tier"}),
    hosted_tools=_HOSTED,
)
_VLLM_CHAT = Dialect(
    "vllm",
    "vllm",
    single_system=True,
    tool_content_parts=True,
    tool_images=True,
    file_parts=False,
    fields=_LOCAL_SAMPLING | {"chat_template_kwargs", "continue_final_message", "continuous_usage_stats"},
    reasoning_field="reasoning",
    thinking_switch="template",
    counts="tokenize",
)


def _named(name: str) -> Dialect:
    """A server that needs no flag: its name alone matters, in metrics and for whose ids it knows."""
    return Dialect(name, name)


def _by_name(*dialects: Dialect) -> dict[str, Dialect]:
    return {dialect.name: dialect for dialect in dialects}


_CHAT = _by_name(
    Dialect(maps_effort=True),
    _OPENAI_CHAT,
    replace(_OPENAI_CHAT, name="azure", family="azure", key="api_key", file_parts=False),
    _VLLM_CHAT,
    replace(_VLLM_CHAT, name="sglang", family="sglang", reasoning_field="reasoning_content"),
    Dialect(
        "ollama",
        "ollama",
        file_parts=False,
        no_url_images=True,
        no_tool_choice_none=True,
        no_forced_choice=True,
        fields=frozenset({"top_k"}),
        no_fields=frozenset({"n", "logit_bias"}),
        reasoning_field="reasoning",
        thinking_switch="effort",
    ),
    Dialect(
        "llamacpp",
        "llamacpp",
        named_choice=False,
        file_parts=False,
        no_url_images=True,
        continues_prefill=True,
        fields=_LOCAL_SAMPLING,
        thinking_switch="template",
        counts="template",
    ),
    Dialect(
        "deepseek",
        "deepseek",
        file_parts=False,
        no_forced_thinking=True,
        efforts=frozenset({"low", "high", "max"}),
        thinking_switch="thinking",
        reasoning_required=True,
        no_json_schema=True,
    ),
    Dialect(
        "openrouter",
        "openrouter",
        tool_images=True,
        fields=_LOCAL_SAMPLING | {"provider", "models", "plugins", "reasoning", "user"},
        reasoning_field="reasoning",
        thinking_switch="reasoning",
        maps_effort=True,
        cache_marks="cache_control",
    ),
    Dialect(
        "groq",
        "groq",
        file_parts=False,
        max_tokens_key="max_completion_tokens",
        fields=frozenset({"reasoning_format", "service_tier", "user"}),
        no_fields=frozenset({"logprobs", "top_logprobs", "logit_bias", "n"}),
        reasoning_field="reasoning",
        thinking_switch="effort",
    ),
    Dialect(
        "mistral",
        "mistral",
        call_id_mistral=True,
        tool_images=True,
        any_is="any",
        seed_key="random_seed",
        no_fields=frozenset({"logit_bias", "logprobs", "top_logprobs"}),
        no_stream_options=True,
    ),
    Dialect("gemini", "gemini", tool_images=True, plain_schemas=True),
    Dialect("xai", "xai", file_parts=False),
    Dialect("together", "together", file_parts=False, fields=_LOCAL_SAMPLING),
    Dialect("fireworks", "fireworks", file_parts=False),
    Dialect("cerebras", "cerebras", file_parts=False, max_tokens_key="max_completion_tokens"),
    Dialect("moonshot", "moonshot", file_parts=False, thinking_switch="thinking", no_fields=_NO_EFFORT),
    Dialect("glm", "glm", file_parts=False, thinking_switch="thinking", no_fields=_NO_EFFORT),
    Dialect("qwen", "qwen", file_parts=False, thinking_switch="enable_thinking", no_fields=_NO_EFFORT),
    Dialect("minimax", "minimax", file_parts=False, thinking_switch="thinking", no_fields=_NO_EFFORT),
    Dialect("lmstudio", "lmstudio", file_parts=False),
)

_RESPONSES = _by_name(
    Dialect(custom_tools=True, developer_role=True, hosted_tools=_HOSTED),
    _OPENAI_RESPONSES,
    # Behind a ChatGPT account, where Codex is at home.
    Dialect(
        "codex",
        "codex",
        custom_tools=True,
        developer_role=True,
        hosted_tools=_HOSTED,
        stream_only=True,
        instructions_required=True,
        no_fields=_NO_CODEX,
    ),
    replace(_OPENAI_RESPONSES, name="azure", family="azure", key="api_key"),
    Dialect("vllm", "vllm", custom_tools=True),
    Dialect("sglang", "sglang"),
    Dialect(
        "ollama",
        "ollama",
        no_url_images=True,
        no_tool_choice_none=True,
        no_forced_choice=True,
        no_json_object=True,
        lax_terminal=True,
    ),
    Dialect("llamacpp", "llamacpp", file_parts=False, no_url_images=True, lax_terminal=True),
    Dialect("lmstudio", "lmstudio", lax_terminal=True),
    _named("deepseek"),
)

_MESSAGES = _by_name(
    Dialect(hosted_tools=_HOSTED - {"mcp"}),  # MCP would take a beta of the proxy's own making
    Dialect(
        "anthropic",
        "anthropic",
        fields=frozenset({"context_management"}),
        auto_cache="top_level",
        binding_controls=True,
        hosted_tools=_HOSTED,
    ),
    # Claude at another host: no top-level mark on all of them (mapping.md 17.2).
    Dialect(
        "bedrock",
        "bedrock",
        key="bearer",
        no_url_images=True,
        no_fields=frozenset({"service_tier"}),
        auto_cache="marks",
    ),
    Dialect(
        "vertex",
        "vertex",
        key="bearer",
        no_url_images=True,
        model_in_path=True,
        version_in_body="vertex-2023-10-16",
        no_fields=frozenset({"service_tier"}),
        auto_cache="marks",
    ),
    Dialect("ollama", "ollama", no_url_images=True, unsigned_thinking=True),
    Dialect("llamacpp", "llamacpp", file_parts=False, no_url_images=True, unsigned_thinking=True),
    *(
        Dialect(name, name, unsigned_thinking=True)
        for name in ("vllm", "sglang", "deepseek", "glm", "moonshot", "minimax", "qwen")
    ),
)

PROFILES: Mapping[Protocol, Mapping[str, Dialect]] = {
    "chat": _CHAT,
    "responses": _RESPONSES,
    "messages": _MESSAGES,
}

NAMES = frozenset(name for profiles in PROFILES.values() for name in profiles)

# The last labels of a host name.
_HOSTS: Mapping[str, str] = {
    "api.openai.com": "openai",
    "chatgpt.com": "codex",
    "openai.azure.com": "azure",
    "services.ai.azure.com": "azure",
    "cognitiveservices.azure.com": "azure",
    "api.anthropic.com": "anthropic",
    "amazonaws.com": "bedrock",
    "api.aws": "bedrock",
    "aiplatform.googleapis.com": "vertex",
    "api.deepseek.com": "deepseek",
    "openrouter.ai": "openrouter",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "generativelanguage.googleapis.com": "gemini",
    "api.x.ai": "xai",
    "api.together.xyz": "together",
    "api.together.ai": "together",
    "api.fireworks.ai": "fireworks",
    "api.cerebras.ai": "cerebras",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "api.z.ai": "glm",
    "open.bigmodel.cn": "glm",
    "aliyuncs.com": "qwen",
    "api.minimax.io": "minimax",
}

# Of vendors that put the region before their name.
_HOST_ENDS = {"-aiplatform.googleapis.com": "vertex", ".rep.googleapis.com": "vertex"}

_HINTS = get_type_hints(Dialect)
_FLAGS = frozenset(entry.name for entry in fields(Dialect)) - {"name", "family"}


class UnknownDialect(ValueError):
    """The settings name a dialect or a flag that there is not; the message says which."""


def dialect_for(protocol: Protocol, base_url: str, name: str | None, flags: Mapping[str, object]) -> Dialect:
    """How the server at `base_url` deviates. `name` and `flags` are what the settings say of it.

    Raises `UnknownDialect`.
    """
    if name is not None and name not in NAMES:
        raise UnknownDialect(f"no dialect is called {name!r}; there are {', '.join(sorted(NAMES))}")
    known = name or host_dialect(base_url)
    profile = PROFILES[protocol].get(known) or Dialect(known, known)
    if not flags:
        return profile
    return replace(profile, **{flag: _flag_value(flag, value) for flag, value in flags.items()})  # type: ignore[arg-type]


def host_dialect(base_url: str) -> str:
    """The name of the dialect of the vendor that owns the host, else `generic`."""
    host = urlsplit(base_url).hostname or ""
    labels = host.split(".")
    for start in range(len(labels)):
        if known := _HOSTS.get(".".join(labels[start:])):
            return known
    return next((name for end, name in _HOST_ENDS.items() if host.endswith(end)), "generic")


def _flag_value(flag: str, value: object) -> object:
    """`value` as the field of `Dialect` holds it."""
    if flag not in _FLAGS:
        raise UnknownDialect(f"a dialect has no flag {flag!r}; there are {', '.join(sorted(_FLAGS))}")
    wanted = _HINTS[flag]
    if get_origin(wanted) is Literal:
        allowed = get_args(wanted)
        if value in allowed:
            return value
        raise UnknownDialect(f"{flag} is one of {', '.join(map(str, allowed))}")
    if wanted == frozenset[str]:
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return frozenset(value)
        raise UnknownDialect(f"{flag} is a list of names")
    kinds: tuple[type, ...] = get_args(wanted) or (wanted,)
    if type(value) in kinds:
        return value
    raise UnknownDialect(f"{flag} is {' or '.join(_KIND_NAMES.get(kind, kind.__name__) for kind in kinds)}")


_KIND_NAMES = {bool: "true or false", int: "a whole number", str: "a text", type(None): "null"}
