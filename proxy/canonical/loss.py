"""What a translation could not carry, and what was done about it (mapping.md 0.2).

A reader or a writer names the rule and the place and goes on; the report decides whether going on is
allowed. Paths are tuples of names and indices and become text only here, since most requests lose nothing.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NoReturn

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected

Path = tuple[str | int, ...]
Level = Literal["approx", "drop", "refuse"]


class Rule(StrEnum):
    """The closed list of rule ids: `[like-this]` in mapping.md, or the client's field name."""

    # Named in mapping.md.
    ALLOWED_TOOLS = "allowed-tools"
    ASYNC_TOOL = "async-tool"
    AUDIO_IN = "audio-in"
    BAD_ARGS = "bad-args"
    BUDGET_TOO_SMALL = "budget-too-small"
    CACHE_TTL = "cache-ttl"
    CARRIER_BAD = "carrier-bad"
    CITE_REQUEST = "cite-request"
    COMPACTION = "compaction"
    CUSTOM_TOOL = "custom-tool"
    DOC_CITATION = "doc-citation"
    DOC_TYPE = "doc-type"
    DUP_RESULT = "dup-result"
    EMPTY_USER = "empty-user"
    FILE_CITATION = "file-citation"
    FILE_ID = "file-id"
    FIRST_USER = "first-user"
    FORCED_CHOICE = "forced-choice"
    FOREIGN_REASONING = "foreign-reasoning"
    HOSTED_TOOL = "hosted-tool"
    IMAGE_DETAIL = "image-detail"
    IS_ERROR = "is-error"
    JSON_OBJECT = "json-object"
    LATE_ARGS = "late-args"
    LOGIT_BAN = "logit-ban"
    MAX_CLAMP = "max-clamp"
    MID_SYSTEM = "mid-system"
    MIN_OUTPUT = "min-output"
    MISSING_RESULT = "missing-result"
    N = "n"
    ORPHAN_RESULT = "orphan-result"
    PARALLEL_ENFORCED = "parallel-enforced"
    PARTICIPANT_NAME = "participant-name"
    PDF_URL_CHAT = "pdf-url-chat"
    PHASE = "phase"
    PREFILL = "prefill"
    PREWARM = "prewarm"
    REASONING_OFF = "reasoning-off"
    RESULT_ORDER = "result-order"
    ROLE_DEVELOPER = "role-developer"
    ROOT_UNION = "root-union"
    SAMPLING = "sampling"
    SCHEMA_FALLBACK = "schema-fallback"
    SEARCH_RESULT = "search-result"
    STOP_EMULATED = "stop-emulated"
    STORE = "store"
    STREAM_MISMATCH = "stream-mismatch"
    STRICT_OFF = "strict-off"
    TEMP_CLAMP = "temp-clamp"
    TEXT_AFTER_CALL = "text-after-call"
    TEXT_DOC = "text-doc"
    THINKING_MISSING = "thinking-missing"
    TOOL_IMAGE = "tool-image"
    TRANSFORMATIONS = "transformations"
    TYPED_TOOL = "typed-tool"
    UNKNOWN_FIELD = "unknown-field"
    WEB_SEARCH = "web-search"
    # The client's own field names.
    ACCESS_PROGRAMS = "access-programs"
    ALLOWED_CALLERS = "allowed-callers"
    AUDIO = "audio"
    BACKGROUND = "background"
    BACKGROUND_OPTIONS = "background-options"
    BEST_OF = "best-of"
    BILLING_POLICY = "billing-policy"
    BROWSER_STATE = "browser-state"
    CACHE_CONTROL = "cache-control"
    CITATIONS = "citations"
    CLEAR_AT = "clear-at"
    CLIENT_METADATA = "client-metadata"
    CONFIGURATION_UPDATE = "configuration-update"
    CONTAINER = "container"
    CONTAINER_UPLOAD = "container-upload"
    CONTENT = "content"
    CONTEXT = "context"
    CONTEXT_MANAGEMENT = "context-management"
    CONVERSATION = "conversation"
    DEFER_LOADING = "defer-loading"
    DETAIL = "detail"
    DIAGNOSTICS = "diagnostics"
    ECHO = "echo"
    EFFORT = "effort"
    FALLBACK_CREDIT_TOKEN = "fallback-credit-token"  # noqa: S105 - a field's name
    FALLBACKS = "fallbacks"
    FREQUENCY_PENALTY = "frequency-penalty"
    IMAGE = "image"
    IMAGE_GENERATION = "image-generation"
    INCLUDE = "include"
    INFERENCE_GEO = "inference-geo"
    INPUT_EXAMPLES = "input-examples"
    ITEM_REFERENCE = "item-reference"
    LOGIT_BIAS = "logit-bias"
    LOGPROBS = "logprobs"
    MAX_TOOL_CALLS = "max-tool-calls"
    MCP_SERVERS = "mcp-servers"
    METADATA = "metadata"
    MIN_P = "min-p"
    MODALITIES = "modalities"
    MODERATION = "moderation"
    NAMESPACE = "namespace"
    OUTPUT_CONFIG = "output-config"
    OUTPUT_CONFIG_FORMAT = "output-config-format"
    OUTPUT_SCHEMA = "output-schema"
    PARAMETERS = "parameters"
    PREDICTION = "prediction"
    PRESENCE_PENALTY = "presence-penalty"
    PREVIOUS_RESPONSE_ID = "previous-response-id"
    PROGRAMMATIC_TOOL_CALLING = "programmatic-tool-calling"
    PROMPT = "prompt"
    PROMPT_CACHE_BREAKPOINT = "prompt-cache-breakpoint"
    PROMPT_CACHE_KEY = "prompt-cache-key"
    PROMPT_CACHE_OPTIONS = "prompt-cache-options"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    REPETITION_PENALTY = "repetition-penalty"
    RESPONSE_FORMAT = "response-format"
    SAFETY_IDENTIFIER = "safety-identifier"
    SEED = "seed"
    SERVICE_TIER = "service-tier"
    SPEED = "speed"
    STOP = "stop"
    SUFFIX = "suffix"
    TASK_BUDGET = "task-budget"
    TEMPERATURE = "temperature"
    TEXT_FORMAT = "text-format"
    THINKING = "thinking"
    THREAD = "thread"
    TOOL_CHANGE = "tool-change"
    TOOL_CHOICE = "tool-choice"
    TOOL_REFERENCE = "tool-reference"
    TOOL_SEARCH = "tool-search"
    TOP_K = "top-k"
    TOP_LOGPROBS = "top-logprobs"
    TOP_P = "top-p"
    TRUNCATION = "truncation"
    USER = "user"
    USER_PROFILE = "user-profile"
    VERBOSITY = "verbosity"
    VIDEO_URL = "video-url"


@dataclass(slots=True)
class Loss:
    """One thing that was not carried as it was; `path` is in the client's own terms."""

    rule: Rule
    level: Level
    path: str


def format_path(path: Path) -> str:
    """`("messages", 3, "content")` as `messages[3].content`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


@dataclass(slots=True)
class LossReport:
    """Collects the losses of one exchange, and refuses those that a policy forbids.

    `strict` turns every drop into a refusal; `refused` are rules that a policy refuses by name.
    `backend` is the backend's protocol as people call it, for the text of a refusal.
    """

    backend: str = "backend"
    strict: bool = False
    refused: Container[Rule] = frozenset()
    losses: list[Loss] = field(default_factory=list)

    def approx(self, rule: Rule, path: Path) -> None:
        """Another construct of near meaning took its place."""
        if rule in self.refused:
            self.refuse(rule, path)
        self.losses.append(Loss(rule, "approx", format_path(path)))

    def drop(self, rule: Rule, path: Path) -> None:
        """It was left out; the answer is right without it. Raises `Rejected` in strict mode."""
        if self.strict or rule in self.refused:
            self.refuse(rule, path)
        self.losses.append(Loss(rule, "drop", format_path(path)))

    def refuse(self, rule: Rule, path: Path, why: str = "") -> NoReturn:
        """The client relies on what can't be given: raises `Rejected`, class UNSUPPORTED."""
        at = format_path(path)
        self.losses.append(Loss(rule, "refuse", at))
        text = f"'{at}' can't be carried to a {self.backend} backend ({rule.value})"
        raise Rejected(
            Error(
                ErrorClass.UNSUPPORTED,
                f"{text}: {why}" if why else f"{text}.",
                param=at,
                reason=Reason.LOSS_REFUSED,
            )
        )
