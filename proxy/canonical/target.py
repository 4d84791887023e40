"""What a request is written for: the backend's dialect and the model's abilities.

Both are looked up (mapping.md 17 and 18), never guessed in a writer. Here is only their shape; the tables are
elsewhere.
"""

from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical.request import Effort

ThinkingType = Literal["adaptive", "budget", "between_tools"]


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What a model accepts (mapping.md 18).

    `max_output`: tokens, None when unknown. `context`: tokens that prompt and limit must fit in together, None where
    only what is really used counts. `efforts`: levels it takes, low to high, empty when none.
    `thinking`: values of M `thinking.type` beside `disabled`; `thinking_default`: it thinks unasked; `thinking_off`:
    thinking can be switched off. `sampling`: takes temperature and top_p; `sampling_xor`: only one of the two;
    `sampling_without_effort`: only with effort `none`. `forced`: takes a forced tool choice. `mid_system`: honours
    `role: system` between messages. `prefill`: continues a final assistant turn. `structured`: knows native structured
    output. `narrates_in_thinking`: text between calls comes as thinking. `stop`: takes stop strings.
    `functions_with_reasoning`: takes function tools while it reasons, on Chat. `phases`: marks what it says as
    commentary or final answer, and wants the mark back. `cache_marks`: OpenAI's, takes prompt-cache breakpoints and
    options. `bound`: its thinking is refused once anything before it has changed (messages.md 10.5).
    """

    name: str = "unknown"
    max_output: int | None = None
    context: int | None = None
    efforts: tuple[Effort, ...] = ()
    thinking: tuple[ThinkingType, ...] = ()
    thinking_default: bool = False
    thinking_off: bool = True
    sampling: bool = True
    sampling_xor: bool = False
    sampling_without_effort: bool = False
    forced: bool = True
    mid_system: bool = False
    prefill: bool = True
    structured: bool = True
    narrates_in_thinking: bool = False
    stop: bool = True
    functions_with_reasoning: bool = True
    phases: bool = False
    cache_marks: bool = False
    bound: bool = False

    @property
    def unknown(self) -> bool:
        """Whether no table knows the model, so that its abilities are anyone's guess."""
        return self.name == "unknown"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server deviates from the vendor's own protocol (mapping.md 17). All flags are off unless set.

    `name` is the profile; `family` the vendor whose ids and files it shares.
    """

    name: str = "generic"
    family: str = "generic"
    # Where a key goes: where the vendor of the protocol has it, or in another header
    key: Literal["vendor", "bearer", "api_key"] = "vendor"
    # Chat, request side
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    call_id_limit: int = 64
    call_id_mistral: bool = False
    developer_role: bool = False
    single_system: bool = False
    string_content: bool = False
    no_null_content: bool = False
    no_empty_tool: bool = False
    tool_content_parts: bool = False
    tool_images: bool = False
    file_parts: bool = True  # on all protocols
    no_url_images: bool = False  # on all protocols
    continues_prefill: bool = False  # goes on with a last message of the assistant's unasked
    no_stream_options: bool = False
    no_parallel_flag: bool = False
    no_tool_choice_none: bool = False
    any_is: Literal["required", "any"] = "required"
    named_choice: bool = True
    no_forced_choice: bool = False  # `tool_choice` is not heeded
    no_forced_thinking: bool = False  # a forced tool choice is refused while the model thinks
    plain_schemas: bool = False  # knows a part of JSON Schema
    custom_tools: bool = False
    fields: frozenset[str] = frozenset()  # optional request fields it takes beyond the core (top_k, store, metadata, …)
    no_fields: frozenset[str] = frozenset()  # request fields it refuses (seed, logit_bias, …), on all protocols
    stop_limit: int | None = None
    no_json_schema: bool = False  # knows only `json_object`
    no_json_object: bool = False  # knows only schemas
    seed_key: str = "seed"
    echo_reasoning: bool = True
    reasoning_field: str = "reasoning_content"
    efforts: frozenset[str] = frozenset()  # the levels of reasoning of all its models, where it says so
    thinking_switch: Literal["none", "effort", "thinking", "enable_thinking", "template", "reasoning"] = "none"
    maps_effort: bool = False  # stands in front of other vendors' models and makes of an effort what they take
    reasoning_required: bool = False  # calls of the current tool loop are refused without it
    # Responses, request side
    audio_parts: bool = False  # hears `input_audio`, which is a type there but no part of messages
    stream_only: bool = False  # answers in streams alone
    instructions_required: bool = False  # refuses a request without `instructions`
    # Chat and Responses: how a prompt-cache mark is written, if at all. On Messages it is always `cache_control`.
    cache_marks: Literal["none", "breakpoint", "cache_control"] = "none"
    # Responses and Messages: kinds of hosted tools that it runs and that a client of another vendor may ask for. On
    # Chat it is `web_search_options` in `fields`.
    hosted_tools: frozenset[str] = frozenset()
    # Messages, request side
    unsigned_thinking: bool = False
    auto_cache: Literal["none", "top_level", "marks"] = "none"  # how caching that nobody asked for is asked for
    model_in_path: bool = False  # Google Cloud: the address names the model and the way of answering
    version_in_body: str = ""  # Google Cloud: what `anthropic_version` is
    binding_controls: bool = False  # can be told to drop bound thinking that no longer fits
    responses_too: bool = False  # Chat: the same address has a Responses endpoint
    # Chat: how its server counts the tokens of a conversation, if it does (mapping.md 16.2)
    counts: Literal["none", "tokenize", "template"] = "none"
    # reply side
    split_names: bool = False
    finish_required: bool = False
    lax_terminal: bool = False
    strip_leading_ws: bool = False
    think_tags: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """One backend, as a request writer needs to know it.

    `protocol` is the backend's; `model` the name it knows. `hosted_tools`: `drop` extends the default of
    mapping.md 5.4 to every hosted tool (`hosted_tools` on a model entry). `foreign_reasoning`: `text` makes what
    another backend thought plain text of the history (mapping.md 8.6) rather than leaving it out. `validate_output`:
    whether an answer in a form that the backend does not enforce is checked, and fails if it is not so (9.2).
    `stop_match`: `cancel` stops the backend at a stop string that the proxy finds in a stream, rather than wait for the
    usage that it tells at its end (7.3).
    `fan_out`: the most choices that may be asked for by a request each, 1 for one request only (7.4).
    `participant_names`: `prefix` puts the name of a Chat message before its words, where it has no other place (2.3).
    """

    protocol: Literal["chat", "responses", "messages"]
    model: str
    dialect: Dialect = field(default_factory=Dialect)
    profile: ModelProfile = field(default_factory=ModelProfile)
    hosted_tools: Literal["refuse", "drop"] | None = None
    foreign_reasoning: Literal["drop", "text"] = "drop"
    fast_mode: bool = False  # fast answers may be asked for
    inference_geo: Literal["refuse", "drop"] = "refuse"
    validate_output: Literal["off", "record", "error"] = "record"
    stop_match: Literal["drain", "cancel"] = "drain"
    participant_names: Literal["drop", "prefix"] = "drop"
    fan_out: int = 1
