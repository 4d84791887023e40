"""What each model accepts, by the longest prefix of its name (mapping.md 18).

A model that no row knows is treated as the vendor's newest careful default: nothing is sent that could be refused.
"""

import re
from dataclasses import replace
from functools import lru_cache

from proxy.canonical.request import Effort
from proxy.canonical.target import ModelProfile

K = 1000
_CONTEXT = 200 * K  # of the models before 4.5, which count the limit in (mapping.md 7.1)
_LOW_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_LOW_MAX: tuple[Effort, ...] = ("low", "medium", "high", "max")
_ALL: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")

UNKNOWN = ModelProfile()
UNKNOWN_CLAUDE = ModelProfile("claude", max_output=8192, prefill=False, bound=True)

_FIVE = ModelProfile(
    "claude-5",
    max_output=128 * K,
    efforts=_ALL,
    thinking=("adaptive",),
    thinking_default=True,
    sampling=False,
    prefill=False,
)
_BUDGET = ModelProfile(
    "claude-4-5",
    max_output=64 * K,
    thinking=("budget",),
    sampling_xor=True,
)
_BEFORE_4_5 = replace(_BUDGET, structured=False, context=_CONTEXT)
_FOUR_SIX = replace(
    _BUDGET,
    name="claude-4-6",
    max_output=128 * K,
    efforts=_LOW_MAX,
    thinking=("adaptive", "budget"),
    prefill=False,
)
_ALWAYS_ON = replace(_FIVE, thinking_off=False, mid_system=True)
_OPUS_4_7 = replace(_FIVE, name="claude-opus-4-7", thinking_default=False)
_NEWEST = replace(_ALWAYS_ON, forced=False, narrates_in_thinking=True, bound=True)
_OLD = ModelProfile("claude-3", max_output=4096, context=_CONTEXT, structured=False)

CLAUDE: dict[str, ModelProfile] = {
    "claude-fable-5": _ALWAYS_ON,
    "claude-mythos-5": _ALWAYS_ON,
    "claude-fable-5-1": _NEWEST,
    "claude-fable-5-2": _NEWEST,
    "claude-mythos-5-1": replace(_NEWEST, narrates_in_thinking=False, bound=False),
    "claude-mythos-5-2": replace(_NEWEST, narrates_in_thinking=False),
    "claude-opus-5-5": _NEWEST,
    "claude-opus-5": replace(_FIVE, mid_system=True),
    "claude-sonnet-5-5": replace(
        _NEWEST,
        thinking=("adaptive", "between_tools"),
        thinking_off=True,
        mid_system=False,
    ),
    "claude-sonnet-5": _FIVE,
    "claude-haiku-5-5": replace(_FIVE, forced=False, bound=True),
    "claude-opus-4-8": replace(_OPUS_4_7, name="claude-opus-4-8", mid_system=True),
    "claude-opus-4-7": _OPUS_4_7,
    "claude-opus-4-6": _FOUR_SIX,
    "claude-sonnet-4-6": _FOUR_SIX,
    "claude-mythos-preview": replace(
        _FIVE, max_output=None, efforts=_LOW_MAX, thinking=("adaptive", "budget"), forced=False, thinking_off=False
    ),
    "claude-opus-4-5": replace(_BUDGET, name="claude-opus-4-5"),
    "claude-sonnet-4-5": _BUDGET,
    "claude-haiku-4-5": _BUDGET,
    "claude-opus-4": replace(_BEFORE_4_5, max_output=32 * K, sampling_xor=False),
    "claude-opus-4-1": replace(_BEFORE_4_5, max_output=32 * K),
    "claude-sonnet-4": replace(_BEFORE_4_5, sampling_xor=False),
    "claude-3-7-sonnet": replace(_BEFORE_4_5, sampling_xor=False),
    "claude-3-5-": replace(_OLD, max_output=8192),
    "claude-3-": _OLD,
    "claude-": UNKNOWN_CLAUDE,
}

_REASONING = ModelProfile("openai-reasoning", sampling=False, stop=False, thinking_default=True)
_SWITCHABLE = replace(_REASONING, sampling=True, sampling_without_effort=True)
_GPT_5_6 = replace(_SWITCHABLE, efforts=("none", *_ALL), functions_with_reasoning=False, cache_marks=True, phases=True)
_GPT_6_ALWAYS_ON = replace(
    _REASONING, efforts=_ALL, thinking_off=False, functions_with_reasoning=False, cache_marks=True, phases=True
)
_GPT_5_3 = replace(_SWITCHABLE, efforts=("none", *_LOW_HIGH, "xhigh"), thinking_default=False)

_PRO = replace(
    _REASONING,
    efforts=("medium", "high", "xhigh"),
    thinking_off=False,
    functions_with_reasoning=False,
)

_PRO_5_6 = replace(_PRO, cache_marks=True)

_CHAT = replace(_REASONING, efforts=("medium",), thinking_off=False)
_OLD_GPT = ModelProfile("gpt-4", thinking_off=False)

OPENAI: dict[str, ModelProfile] = {
    "o1": replace(_REASONING, efforts=_LOW_HIGH, thinking_off=False),
    "o3": replace(_REASONING, efforts=_LOW_HIGH, thinking_off=False),
    "o4": replace(_REASONING, efforts=_LOW_HIGH, thinking_off=False),
    "gpt-5": replace(_REASONING, efforts=("minimal", *_LOW_HIGH), thinking_off=False),
    "gpt-5-pro": replace(_REASONING, efforts=("high",), thinking_off=False, functions_with_reasoning=False),
    "gpt-5.1": replace(_SWITCHABLE, efforts=("none", *_LOW_HIGH), thinking_default=False),
    "gpt-5.2": replace(_SWITCHABLE, efforts=("none", *_LOW_HIGH, "xhigh"), thinking_default=False),
    "gpt-5.3": _GPT_5_3,
    "gpt-5.3-codex": replace(_GPT_5_3, phases=True),
    "gpt-5.1-chat": _CHAT,
    "gpt-5.2-chat": _CHAT,
    "gpt-5.3-chat": _CHAT,
    "gpt-5.4-chat": _CHAT,
    "gpt-5.5-chat": _CHAT,
    "gpt-5.4": replace(
        _SWITCHABLE,
        efforts=("none", *_LOW_HIGH, "xhigh"),
        thinking_default=False,
        functions_with_reasoning=False,
        phases=True,
    ),
    "gpt-5.5": replace(_SWITCHABLE, efforts=("none", *_LOW_HIGH, "xhigh"), functions_with_reasoning=False, phases=True),
    "gpt-5.2-pro": _PRO,
    "gpt-5.3-pro": _PRO,
    "gpt-5.4-pro": _PRO,
    "gpt-5.5-pro": _PRO,
    "gpt-5.6": _GPT_5_6,
    "gpt-5.6-pro": _PRO_5_6,
    "gpt-6": _GPT_5_6,
    "gpt-6-pro": _PRO_5_6,
    "gpt-6-astra": _GPT_6_ALWAYS_ON,
    "gpt-6.1-sol": _GPT_6_ALWAYS_ON,
    "gpt-4": _OLD_GPT,
    "gpt-3": _OLD_GPT,
    "chatgpt-4o": _OLD_GPT,
}

_TABLE = sorted({**CLAUDE, **OPENAI}.items(), key=lambda row: len(row[0]), reverse=True)


NAMES = frozenset(prefix.rstrip("-") for prefix, _ in _TABLE) - {"claude"}


def base_profile(name: str) -> ModelProfile:
    """The row that `NAMES` has under this name."""
    return next(profile for prefix, profile in _TABLE if prefix.rstrip("-") == name)


# Variants that any model of the line may have, whatever else its name says.
_VARIANTS: tuple[tuple[re.Pattern[str], ModelProfile], ...] = (
    (re.compile(r"gpt-5\.[2-5]\b.*-pro\b"), _PRO),
    (re.compile(r"gpt-(5\.[6-9]|[6-9](\.\d)?)\b.*-pro\b"), _PRO_5_6),
    (re.compile(r"gpt-[5-9](\.\d)?-chat\b"), _CHAT),
)
_VERSION = re.compile(r"(claude-[a-z]+-\d+)-(\d{1,2})(?!\d)")
_DOTTED = re.compile(r"(?<=\d)\.(?=\d)")

# The minor versions that the table knows of each line of Claude, newest first.
_MINORS: dict[str, list[int]] = {}
for _row in CLAUDE:
    if _known := _VERSION.fullmatch(_row):
        _MINORS[_known[1]] = sorted([*_MINORS.get(_known[1], []), int(_known[2])], reverse=True)


@lru_cache(maxsize=512)
def profile_of(model: str) -> ModelProfile:
    """The profile of a model, from the longest prefix that fits its name.

    Hosts put the vendor before the name (`anthropic/claude-…`, `us.anthropic.claude-…`): what precedes a
    known family name is passed over. Some write Claude's versions with a dot. A later minor version is like the newest
    one of its line that is known, rather than like the first.
    """
    name = model.rsplit("/", 1)[-1]
    start = name.find("claude-")
    if start >= 0:
        name = _known_minor(_DOTTED.sub("-", name[start:]))
    for pattern, profile in _VARIANTS:
        if pattern.match(name):
            return profile
    for prefix, profile in _TABLE:
        # The date behind `claude-fable-5` is no further version.
        if name.startswith(prefix) and not (prefix[-1].isdigit() and name[len(prefix) :][:1].isdigit()):
            return profile
    return UNKNOWN


def _known_minor(name: str) -> str:
    """The name with a version that the table knows, where there is one before that of the name."""
    version = _VERSION.match(name)
    if version is None:
        return name
    known = next((minor for minor in _MINORS.get(version[1], ()) if minor <= int(version[2])), None)
    return name if known is None else f"{version[1]}-{known}{name[version.end() :]}"
