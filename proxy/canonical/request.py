"""A request for one answer, in no one's wire format (mapping.md 1.1).

Settings are grouped as mapping.md groups them. None means "the client did not say"; a JSON null of an
optional field reads as absent (mapping.md 0.3). Each attribute names the wire fields it comes from:
C Chat Completions, R Responses, M Messages.
"""

from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical.loss import Path
from proxy.canonical.parts import Extra, Text, Ttl, Turn
from proxy.canonical.tools import Schema, Tool, ToolPolicy


@dataclass(slots=True)
class Instruction:
    """Leading system text: one source message, or Responses' `instructions`.

    `top_level`: came from `instructions` (R) or `system` (M), not from a message. `name`: of Chat's participant.
    """

    parts: list[Text]
    authority: Literal["system", "developer"] = "system"
    top_level: bool = False
    at: Path = ()
    name: str | None = None


@dataclass(slots=True)
class Sampling:
    """Numbers as the client sent them; writers clamp."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None  # M; C dialects
    min_p: float | None = None  # C dialects
    repetition_penalty: float | None = None  # C dialects
    seed: int | None = None  # C
    presence_penalty: float | None = None  # C
    frequency_penalty: float | None = None  # C
    logit_bias: dict[str, object] | None = None  # C
    n: int | None = None  # C
    logprobs: bool | None = None  # C `logprobs`, R `include`
    top_logprobs: int | None = None  # C, R
    logprobs_at: Path = field(default=("logprobs",), compare=False)

    def place_of(self, name: str) -> Path:
        """Where the client wrote the setting of this name."""
        return self.logprobs_at if name == "logprobs" else (name,)


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@dataclass(slots=True)
class ReasoningPolicy:
    """What the client said about thinking (mapping.md 8.1).

    `mode`: M `thinking.type` (`off` is `disabled`); `effort`: C `reasoning_effort`, R `reasoning.effort`,
    M `output_config.effort`; `budget`: M `thinking.budget_tokens`, tokens; `show`: whether thinking text is
    wanted (R `reasoning.summary` set, M `display` summarized); `summary`: R's style.
    """

    mode: Literal["off", "adaptive", "budget", "between_tools"] | None = None
    effort: Effort | None = None
    budget: int | None = None
    show: bool | None = None
    summary: str | None = None
    extra: Extra | None = None
    at: Path = ()

    @property
    def stated(self) -> bool:
        """Whether the client said anything about thinking."""
        return self.mode is not None or self.effort is not None


@dataclass(slots=True)
class OutputFormat:
    """C `response_format`, R `text.format`, M `output_config.format` (mapping.md 9.1)."""

    kind: Literal["json_object", "json_schema"]
    schema: Schema | None = None
    name: str | None = None
    strict: bool | None = None
    description: str | None = None
    at: Path = ()


@dataclass(slots=True)
class Output:
    """What the answer looks like. `format` None is plain text."""

    format: OutputFormat | None = None
    verbosity: str | None = None  # C `verbosity`, R `text.verbosity`
    modalities: list[str] | None = None  # C
    prediction: object = None  # C


@dataclass(slots=True)
class Limits:
    """`max_output`: tokens, reasoning included; C `max_completion_tokens` or `max_tokens`, R
    `max_output_tokens`, M `max_tokens`. `prewarm`: fill the prompt cache and answer nothing (M 0 tokens, R
    `prompt_cache_options.prewarm`).
    """

    max_output: int | None = None
    max_output_at: Path = ()
    stop: list[str] = field(default_factory=list)
    stop_at: Path = ()
    prewarm: bool = False
    prewarm_at: Path = ()


@dataclass(slots=True)
class CachePolicy:
    """C and R `prompt_cache_key` and `prompt_cache_options`; `auto`: M's top-level `cache_control` or R's
    implicit mode (None: not said)."""

    key: str | None = None
    auto: bool | None = None
    ttl: Ttl | None = None
    at: Path = ()


@dataclass(slots=True)
class State:
    """What refers to earlier or later requests (mapping.md 11)."""

    store: bool | None = None  # C, R
    previous_id: str | None = None  # R
    conversation: str | None = None  # R
    background: bool | None = None  # R
    truncation: str | None = None  # R
    include: list[str] = field(default_factory=list)  # R


@dataclass(slots=True)
class Compaction:
    """The backend is to sum the conversation up once it is long: R `context_management`, M `compact_20260112`.

    `threshold`: tokens of the prompt, None for the backend's default. Messages alone has `instructions` for the
    summary, and an answer that `pauses` behind it.
    """

    threshold: int | None = None
    instructions: str | None = None
    pauses: bool | None = None
    at: Path = ()


@dataclass(slots=True)
class Identity:
    """`end_user`: M `metadata.user_id`, else C and R `safety_identifier`, else `user`."""

    end_user: str | None = None
    end_user_at: Path = ()
    metadata: dict[str, object] | None = None  # C, R


@dataclass(slots=True)
class Service:
    """`tier`: C and R `service_tier`, M `service_tier`, in the client's spelling; `speed`: M; `geo`: M
    `inference_geo`."""

    tier: str | None = None
    speed: str | None = None
    geo: str | None = None


@dataclass(slots=True)
class Request:
    """One request. `origin` is the client's protocol; `extra` what only that protocol knows, by field.

    `legacy_functions`: a Chat request used `functions`, so the reply must use `function_call`.
    `tag_key`: a secret of the operator's, for marks that a user can't guess.
    `include_usage`: C `stream_options.include_usage`. `echo`: what a Responses reply repeats of its
    request, ready to be written (JSON values or `jsontext.Fragment`).
    """

    origin: Literal["chat", "responses", "messages", "completions"]
    model: str
    turns: list[Turn] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    tool_policy: ToolPolicy = field(default_factory=ToolPolicy)
    sampling: Sampling = field(default_factory=Sampling)
    reasoning: ReasoningPolicy = field(default_factory=ReasoningPolicy)
    output: Output = field(default_factory=Output)
    limits: Limits = field(default_factory=Limits)
    cache: CachePolicy = field(default_factory=CachePolicy)
    state: State = field(default_factory=State)
    identity: Identity = field(default_factory=Identity)
    service: Service = field(default_factory=Service)
    compaction: Compaction | None = None
    stream: bool = False
    include_usage: bool = False
    legacy_functions: bool = False
    tag_key: bytes | None = field(default=None, repr=False)
    echo: Extra | None = None
    extra: Extra | None = None
