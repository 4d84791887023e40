"""What Chat Completions and the legacy text completions have in common: sampling fields, stop strings, usage,
finish reasons, and how a reply names itself.

Both are "completions" to OpenAI's SDKs (`CompletionUsage` serves both); Responses shares none of this.
"""

from proxy.canonical.loss import LossReport
from proxy.canonical.parts import ReplyPart, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.request import Identity, Limits, Sampling
from proxy.canonical.stop import Stop, StopKind
from proxy.canonical.usage import Usage, from_inclusive
from proxy.protocols.fields import (
    Wire,
    flag,
    invalid,
    is_object,
    kind,
    mapping,
    number,
    report_unknown,
    text,
    texts,
    whole,
)

PARAGRAPH = "\n\n"

_STREAM_OPTIONS = frozenset({"include_usage", "include_obfuscation"})

# mapping.md 12.1. A pause that was not continued ends like any answer that is not complete.
FINISH_REASONS: dict[StopKind, str] = {
    "end": "stop",
    "length": "length",
    "tool": "tool_calls",
    "stop_sequence": "stop",
    "filter": "content_filter",
    "refusal": "stop",
    "pause": "length",
    "context": "length",
    "compaction": "length",
    "max_messages": "length",
    "steered": "stop",
}

# mapping.md 11.3: what Messages backends say; the rest is OpenAI's own.
_TIERS = {
    "standard": "default",
    "batch": "default",
    "priority": "priority",
    "auto": "auto",
    "default": "default",
    "flex": "flex",
    "scale": "scale",
    "fast": "fast",
}


def read_sampling(wire: Wire) -> Sampling:
    """The sampling fields that both protocols have, and those that servers beside OpenAI's add to them."""
    return Sampling(
        temperature=number(wire, "temperature", ()),
        top_p=number(wire, "top_p", ()),
        top_k=whole(wire, "top_k", ()),
        min_p=number(wire, "min_p", ()),
        repetition_penalty=number(wire, "repetition_penalty", ()),
        seed=whole(wire, "seed", ()),
        presence_penalty=number(wire, "presence_penalty", ()),
        frequency_penalty=number(wire, "frequency_penalty", ()),
        logit_bias=_read_logit_bias(wire),
        n=whole(wire, "n", ()),
    )


def _read_logit_bias(wire: Wire) -> Wire | None:
    bias = mapping(wire, "logit_bias", ())
    if bias is not None:
        for token in bias:
            number(bias, token, ("logit_bias",))
    return bias


def read_stop(wire: Wire, limits: Limits) -> None:
    """`stop`: one string or a list of them."""
    value = wire.get("stop")
    if value is None:
        return
    limits.stop_at = ("stop",)
    if type(value) is str:
        limits.stop = [value]
    elif type(value) is list:
        limits.stop = texts(wire, "stop", ()) or []
    else:
        invalid(("stop",), f"expected a string or an array of strings, got {kind(value)}.")


def read_include_usage(wire: Wire, losses: LossReport) -> bool:
    """`stream_options.include_usage`. Padding (`include_obfuscation`) is not made here and costs nothing to lose."""
    options = mapping(wire, "stream_options", ())
    if options is None:
        return False
    if not options.keys() <= _STREAM_OPTIONS:
        report_unknown(options, _STREAM_OPTIONS, ("stream_options",), losses)
    flag(options, "include_obfuscation", ("stream_options",))
    return flag(options, "include_usage", ("stream_options",)) or False


def read_end_user(wire: Wire) -> Identity:
    """`user`."""
    user = text(wire, "user", ())
    return Identity(end_user=user, end_user_at=("user",) if user is not None else ())


def finish_reason(stop: Stop) -> str:
    """The word for why a reply ended; calls made through the deprecated functions are the caller's business."""
    if stop.kind == "refusal" and stop.classifier:
        return "content_filter"
    return FINISH_REASONS[stop.kind]


def service_tier(tier: str | None) -> str | None:
    """The tier in OpenAI's words; None for one that OpenAI's types do not know."""
    return _TIERS.get(tier) if tier is not None else None


def reply_model(model: str, context: ReplyContext) -> str:
    """The model that the reply names (mapping.md 14.3)."""
    return context.model_override or model or context.model


class Paragraphs:
    """Where a blank line sets a text of an answer off from the text before it (mapping.md 2.4).

    Texts that touch are one text, which another protocol splits at its citations; texts with a call or with thinking
    between them are not, nor are the messages of one response.
    """

    __slots__ = ("_gaps", "_last", "_marks")

    def __init__(self) -> None:
        self._gaps = 0
        self._marks: list[tuple[int, str | None]] = []
        self._last: tuple[int, str | None] | None = None

    def open(self, part: ReplyPart) -> None:
        """Note the next part."""
        if isinstance(part, Text):
            self._gaps += part.apart
            self._marks.append((self._gaps, part.phase))
        else:
            self._marks.append((self._gaps, None))
            self._gaps += 1

    def begin(self, k: int) -> bool:
        """Text part `k` has its first characters: whether a blank line comes before them."""
        mark = self._marks[k]
        apart = self._last is not None and self._last != mark
        self._last = mark
        return apart


# How gateways in front of Claude call what was cached.
_OF_CLAUDE = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})
_NUMBERS = (int, float)


def read_usage(wire: object) -> Usage | None:
    """Token counts as Chat servers give them (mapping.md 10.2); None when there are none."""
    if not is_object(wire):
        return None
    if type(wire.get("prompt_tokens")) not in _NUMBERS and type(wire.get("completion_tokens")) not in _NUMBERS:
        return None
    prompt = wire.get("prompt_tokens_details")
    prompt = prompt if is_object(prompt) else {}
    completion = wire.get("completion_tokens_details")
    completion = completion if is_object(completion) else {}
    read = (
        _count(prompt, "cached_tokens")
        or _count(wire, "cached_tokens")  # Moonshot
        or _count(wire, "prompt_cache_hit_tokens")  # DeepSeek
        or _count(wire, "num_cached_tokens")  # Mistral
        or _count(wire, "cache_read_input_tokens")
    )
    write = _count(prompt, "cache_write_tokens") or _count(wire, "cache_creation_input_tokens")
    usage = from_inclusive(
        _count(wire, "prompt_tokens"),
        read,
        write,
        _count(wire, "completion_tokens"),
        _count(completion, "reasoning_tokens"),
        may_exclude=not wire.keys().isdisjoint(_OF_CLAUDE),
    )
    cost = wire.get("cost")
    usage.cost = cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None  # OpenRouter
    return usage


def _count(wire: Wire, name: str) -> int:
    value = wire.get(name)
    if type(value) is int:
        return max(0, value)
    return max(0, int(value)) if type(value) is float and value.is_integer() else 0


def write_usage(usage: Usage) -> dict[str, object]:
    """Token counts in OpenAI's words. No audio and no prediction reach a backend through here: their counts are 0."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
