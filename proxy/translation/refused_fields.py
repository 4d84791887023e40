"""A backend names one field that it does not take, and the translated request can do without (mapping.md 17.3).

Only fields that the answer does not rest on are in the tables: never messages, tools, schemas, limits or identity. What
a backend names is looked for among the fields that were sent, so that words of its sentence are no fields.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from proxy.canonical.errors import Error
from proxy.canonical.jsontext import dumps, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.protocols.fields import Wire, as_object, is_object
from proxy.translation.codecs import BackendProtocol

_SAMPLING: dict[str, Rule] = {
    "temperature": Rule.TEMPERATURE,
    "top_p": Rule.TOP_P,
    "top_k": Rule.TOP_K,
}
_OPENAI: dict[str, Rule] = {
    **_SAMPLING,
    "top_logprobs": Rule.TOP_LOGPROBS,
    "metadata": Rule.METADATA,
    "prompt_cache_key": Rule.PROMPT_CACHE_KEY,
    "prompt_cache_options": Rule.PROMPT_CACHE_OPTIONS,
    "service_tier": Rule.SERVICE_TIER,
}
# What may be left out, by its place in the backend's request.
REMOVABLE: Mapping[BackendProtocol, Mapping[str, Rule]] = {
    "chat": {
        **_OPENAI,
        "add_generation_prompt": Rule.PREFILL,
        "chat_template_kwargs": Rule.REASONING,
        "continue_final_message": Rule.PREFILL,
        "enable_thinking": Rule.REASONING,
        "frequency_penalty": Rule.FREQUENCY_PENALTY,
        "logprobs": Rule.LOGPROBS,
        "min_p": Rule.MIN_P,
        "prediction": Rule.PREDICTION,
        "presence_penalty": Rule.PRESENCE_PENALTY,
        "random_seed": Rule.SEED,
        "reasoning": Rule.EFFORT,
        "reasoning_effort": Rule.EFFORT,
        "reasoning_format": Rule.REASONING,
        "repetition_penalty": Rule.REPETITION_PENALTY,
        "seed": Rule.SEED,
        "store": Rule.STORE,
        "stream_options": Rule.INCLUDE,
        "thinking": Rule.THINKING,
        "verbosity": Rule.VERBOSITY,
    },
    "responses": {
        **_OPENAI,
        "context_management": Rule.COMPACTION,
        "include": Rule.INCLUDE,
        "reasoning.effort": Rule.EFFORT,
        "reasoning.summary": Rule.REASONING,
        "store": Rule.STORE,
        "text.verbosity": Rule.VERBOSITY,
    },
    "messages": {
        **_SAMPLING,
        "cache_control": Rule.PROMPT_CACHE_OPTIONS,
        "context_management": Rule.COMPACTION,
        "output_config.effort": Rule.EFFORT,
        "service_tier": Rule.SERVICE_TIER,
        "thinking.display": Rule.REASONING,
    },
}

# Those that a dialect may say that its server refuses, beside these: never learned, since the client relies on them.
_WITHHELD: Mapping[str, Rule] = {
    "max_completion_tokens": Rule.MAX_CLAMP,
    "max_output_tokens": Rule.MAX_CLAMP,
    "max_tokens": Rule.MAX_CLAMP,
    "max_tool_calls": Rule.MAX_TOOL_CALLS,
    "parallel_tool_calls": Rule.TOOL_CHOICE,
    "safety_identifier": Rule.SAFETY_IDENTIFIER,
    "stop": Rule.STOP,
    "stop_sequences": Rule.STOP,
    "tool_choice": Rule.TOOL_CHOICE,
    "user": Rule.USER,
}

# Fields that say one thing together: a server without the one can do nothing with the other.
_TOGETHER = {"continue_final_message": "add_generation_prompt", "add_generation_prompt": "continue_final_message"}

_REFUSALS = re.compile(
    r"unsupported|unknown|unrecognized|unrecognised|unexpected|not supported|not permitted|not allowed|not accepted"
    r"|does not support|doesn't support|deprecated for|extra.forbidden|extra fields|no longer supported",
    re.IGNORECASE,
)
_NAME = r"[A-Za-z_][\w.\[\]]*"
_NAMES = (
    re.compile(rf"['\"`]({_NAME})['\"`]"),
    re.compile(rf"^(?:body\.)?({_NAME}): "),
    re.compile(rf"(?:parameter|argument|field|property)s?(?: supplied)?:? ({_NAME})", re.IGNORECASE),
)
_STATUSES = frozenset({400, 422})


def mended(
    protocol: BackendProtocol, body: bytes, error: Error, losses: LossReport, said: Callable[[str], str] = str
) -> tuple[str, bytes] | None:
    """(field, the request without it) where the backend refused just that; else None. The loss is recorded.

    `said`: as in `leave_out`.
    """
    if error.http not in _STATUSES or not _REFUSALS.search(error.message):
        return None
    wire = as_object(loads_exact(body), ())
    field = _named(wire, REMOVABLE[protocol], error)
    if field is None or losses.strict or REMOVABLE[protocol][field] in losses.refused:
        return None
    leave_out(protocol, wire, (field,), losses, said)
    return field, dumps(wire)


def refuses(body: bytes, error: Error, field: str) -> bool:
    """Whether the backend refused just this field of the request, or what is in it."""
    if error.http not in _STATUSES or not _REFUSALS.search(error.message):
        return False
    named = _named_in(as_object(loads_exact(body), ()), error)
    return len(named) == 1 and named.pop().partition(".")[0] == field


def leave_out(
    protocol: BackendProtocol,
    wire: Wire,
    fields: Iterable[str],
    losses: LossReport,
    said: Callable[[str], str] = str,
) -> None:
    """Remove what the backend is known not to take. Raises `Rejected` where such a loss is to be refused.

    `said`: what the client calls a field, by the backend's name of it.
    """
    for field in fields:
        outer, _, inner = field.partition(".")
        held = wire.get(outer)
        if not inner:
            removed = wire.pop(outer, None) is not None
        elif removed := is_object(held) and inner in held:
            del held[inner]
            if not held:
                del wire[outer]
        if not removed:
            continue
        wire.pop(_TOGETHER.get(field, ""), None)
        rule = REMOVABLE[protocol].get(field) or _WITHHELD.get(field, Rule.UNKNOWN_FIELD)
        if rule is Rule.PREFILL:
            losses.approx(rule, (field,))  # what was begun is history then
        else:
            losses.drop(rule, tuple(said(field).split(".")))


def _named(wire: Wire, removable: Mapping[str, Rule], error: Error) -> str | None:
    """The one field that the error is about, if it may be left out."""
    named = _named_in(wire, error)
    if len(named) != 1:
        return None
    field = named.pop()
    return field if field in removable else None


def _named_in(wire: Wire, error: Error) -> set[str]:
    """The fields of the request that the error is about."""
    told = [error.param] if error.param else [name for pattern in _NAMES for name in pattern.findall(error.message)]
    return {field for name in told if (field := _sent(wire, name.removeprefix("body."))) is not None}


def _sent(wire: Wire, name: str) -> str | None:
    """The place of a field in the request: `temperature`, `reasoning.effort`; None when nothing of it was sent."""
    outer, _, inner = name.partition(".")
    outer = outer.partition("[")[0]
    if outer not in wire:
        return None
    held = wire[outer]
    if not inner:
        return name if name == outer else outer + "[]"  # a place in a list is never a setting
    return name if is_object(held) and inner in held else outer + "[]"
