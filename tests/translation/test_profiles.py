"""The table of models is that of mapping.md 18, row by row."""

from dataclasses import replace

import pytest

from proxy.canonical.request import Effort
from proxy.canonical.target import ModelProfile, ThinkingType
from proxy.translation.model_facts import ModelFacts, read_facts
from proxy.translation.profiles import CLAUDE, NAMES, OPENAI, UNKNOWN, UNKNOWN_CLAUDE, base_profile, profile_of

K = 1000
LOW_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
LOW_MAX: tuple[Effort, ...] = ("low", "medium", "high", "max")
ALL: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
ADAPTIVE: tuple[ThinkingType, ...] = ("adaptive",)
BOTH: tuple[ThinkingType, ...] = ("adaptive", "budget")
BUDGET: tuple[ThinkingType, ...] = ("budget",)
PAUSING: tuple[ThinkingType, ...] = ("adaptive", "between_tools")

# Columns of 18.1: max output, efforts, thinking types, thinks by default, can be off, sampling, temperature xor top_p,
# forced tool choice, system messages in the midst; then, from its notes: prefill, structured output, narration within
# thinking. Efforts of opus-4-5 are not used: one mechanism a model (8.2).
CLAUDE_ROWS: list[tuple[str, int | None, object, object, bool, bool, bool, bool, bool, bool, bool, bool, bool]] = [
    ("fable-5", 128 * K, ALL, ADAPTIVE, True, False, False, False, True, True, False, True, False),
    ("mythos-5", 128 * K, ALL, ADAPTIVE, True, False, False, False, True, True, False, True, False),
    ("fable-5-1", 128 * K, ALL, ADAPTIVE, True, False, False, False, False, True, False, True, True),
    ("fable-5-2", 128 * K, ALL, ADAPTIVE, True, False, False, False, False, True, False, True, True),
    ("mythos-5-1", 128 * K, ALL, ADAPTIVE, True, False, False, False, False, True, False, True, False),
    ("mythos-5-2", 128 * K, ALL, ADAPTIVE, True, False, False, False, False, True, False, True, False),
    ("opus-5-5", 128 * K, ALL, ADAPTIVE, True, False, False, False, False, True, False, True, True),
    ("opus-5", 128 * K, ALL, ADAPTIVE, True, True, False, False, True, True, False, True, False),
    ("sonnet-5-5", 128 * K, ALL, PAUSING, True, True, False, False, False, False, False, True, True),
    ("sonnet-5", 128 * K, ALL, ADAPTIVE, True, True, False, False, True, False, False, True, False),
    ("haiku-5-5", 128 * K, ALL, ADAPTIVE, True, True, False, False, False, False, False, True, False),
    ("opus-4-8", 128 * K, ALL, ADAPTIVE, False, True, False, False, True, True, False, True, False),
    ("opus-4-7", 128 * K, ALL, ADAPTIVE, False, True, False, False, True, False, False, True, False),
    ("opus-4-6", 128 * K, LOW_MAX, BOTH, False, True, True, True, True, False, False, True, False),
    ("sonnet-4-6", 128 * K, LOW_MAX, BOTH, False, True, True, True, True, False, False, True, False),
    ("mythos-preview", None, LOW_MAX, BOTH, True, False, False, False, False, False, False, True, False),
    ("opus-4-5", 64 * K, (), BUDGET, False, True, True, True, True, False, True, True, False),
    ("sonnet-4-5", 64 * K, (), BUDGET, False, True, True, True, True, False, True, True, False),
    ("haiku-4-5", 64 * K, (), BUDGET, False, True, True, True, True, False, True, True, False),
    ("opus-4", 32 * K, (), BUDGET, False, True, True, False, True, False, True, False, False),
    ("opus-4-1", 32 * K, (), BUDGET, False, True, True, True, True, False, True, False, False),
    ("sonnet-4", 64 * K, (), BUDGET, False, True, True, False, True, False, True, False, False),
    ("3-7-sonnet", 64 * K, (), BUDGET, False, True, True, False, True, False, True, False, False),
    ("3-5-haiku", 8192, (), (), False, True, True, False, True, False, True, False, False),
    ("3-opus", 4096, (), (), False, True, True, False, True, False, True, False, False),
    ("of-tomorrow", 8192, (), (), False, True, True, False, True, False, False, True, False),
]


# The column `bound` of 18.1.
BOUND = {"fable-5-1", "fable-5-2", "mythos-5-2", "opus-5-5", "sonnet-5-5", "haiku-5-5", "of-tomorrow"}


@pytest.mark.parametrize("row", CLAUDE_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize(
    "name", ["claude-{}", "anthropic/claude-{}", "us.anthropic.claude-{}-v1", "claude-{}-20260101"]
)
def test_claude(row: tuple[object, ...], name: str) -> None:
    model, *columns = row
    profile = profile_of(name.format(model))
    assert [
        profile.max_output,
        profile.efforts,
        profile.thinking,
        profile.thinking_default,
        profile.thinking_off,
        profile.sampling,
        profile.sampling_xor,
        profile.forced,
        profile.mid_system,
        profile.prefill,
        profile.structured,
        profile.narrates_in_thinking,
    ] == columns
    assert profile.bound == (model in BOUND)


# Columns of 18.2: efforts, whether it reasons by default, `none` accepted, sampling (always, only with none, never),
# functions with reasoning on Chat, and prompt-cache breakpoints.
XHIGH: tuple[Effort, ...] = ("none", "low", "medium", "high", "xhigh")
OPENAI_ROWS: list[tuple[str, tuple[Effort, ...], bool, bool, str, bool, bool]] = [
    ("o1", LOW_HIGH, True, False, "never", True, False),
    ("o3-mini", LOW_HIGH, True, False, "never", True, False),
    ("o4-mini", LOW_HIGH, True, False, "never", True, False),
    ("gpt-5", ("minimal", *LOW_HIGH), True, False, "never", True, False),
    ("gpt-5-mini", ("minimal", *LOW_HIGH), True, False, "never", True, False),
    ("gpt-5-pro", ("high",), True, False, "never", False, False),
    ("gpt-5.1", ("none", *LOW_HIGH), False, True, "none", True, False),
    ("gpt-5.2", XHIGH, False, True, "none", True, False),
    ("gpt-5.3-codex", XHIGH, False, True, "none", True, False),
    ("gpt-5.1-chat-latest", ("medium",), True, False, "never", True, False),
    ("gpt-5.3-chat", ("medium",), True, False, "never", True, False),
    ("gpt-5.4", XHIGH, False, True, "none", False, False),
    ("gpt-5.5", XHIGH, True, True, "none", False, False),
    ("gpt-5.6-terra", ("none", *ALL), True, True, "none", False, True),
    ("gpt-6-sol", ("none", *ALL), True, True, "none", False, True),
    ("gpt-6.1-terra", ("none", *ALL), True, True, "none", False, True),
    ("gpt-6-astra", ALL, True, False, "never", False, True),
    ("gpt-6.1-sol", ALL, True, False, "never", False, True),
    ("gpt-5.2-pro", ("medium", "high", "xhigh"), True, False, "never", False, False),
    ("gpt-5.6-pro", ("medium", "high", "xhigh"), True, False, "never", False, True),
    ("gpt-4o", (), False, False, "always", True, False),
    ("gpt-4.1-mini", (), False, False, "always", True, False),
    ("gpt-3.5-turbo", (), False, False, "always", True, False),
]


@pytest.mark.parametrize("row", OPENAI_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("name", ["{}", "openai/{}", "{}-2026-01-01"])
def test_openai(row: tuple[object, ...], name: str) -> None:
    model, *columns = row
    profile = profile_of(name.format(model))
    samples = "none" if profile.sampling_without_effort else "always" if profile.sampling else "never"
    assert [
        profile.efforts,
        profile.thinking_default,
        "none" in profile.efforts,
        samples,
        profile.functions_with_reasoning,
        profile.cache_marks,
    ] == columns
    assert profile.stop is (profile.efforts == ())


def test_a_name_that_no_row_knows() -> None:
    assert profile_of("some-model") is UNKNOWN
    assert UNKNOWN.unknown
    assert not UNKNOWN_CLAUDE.unknown


def test_every_row_can_be_a_base() -> None:
    assert {base_profile(name).name for name in NAMES} == {row.name for row in (*CLAUDE.values(), *OPENAI.values())} - {
        "claude"
    }


# --- what a backend says itself ---

ENTRY: dict[str, object] = {
    "id": "claude-of-tomorrow",
    "max_tokens": 200 * K,
    "capabilities": {
        "structured_outputs": {"supported": True},
        "effort": {level: {"supported": level != "xhigh"} for level in ALL} | {"supported": True},
        "thinking": {
            "supported": True,
            "types": {
                "adaptive": {"supported": True},
                "between_tools": {"supported": True},
                "disabled": {"supported": False},
                "enabled": {"supported": False},
            },
        },
    },
}


def test_what_the_backend_says_of_a_model() -> None:
    facts = read_facts(ENTRY)
    assert facts == ModelFacts(200 * K, LOW_MAX, PAUSING, False, True)
    assert facts is not None
    known = profile_of("claude-of-tomorrow")
    assert facts.over(known, "claude-of-tomorrow") == replace(
        known, max_output=200 * K, efforts=LOW_MAX, thinking=PAUSING, thinking_off=False, structured=True
    )


def test_a_model_that_only_its_backend_knows_is_not_unknown() -> None:
    assert ModelFacts(max_output=5).over(UNKNOWN, "m") == ModelProfile("m", max_output=5)


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ({}, None),
        ({"max_tokens": None, "capabilities": None}, None),
        ({"max_tokens": "many", "capabilities": {"thinking": [], "effort": 3, "structured_outputs": True}}, None),
        ({"capabilities": {"thinking": {"supported": False}}}, ModelFacts(thinking=())),
        ({"capabilities": {"effort": {"supported": False}}}, ModelFacts(efforts=())),
        ({"max_tokens": 7}, ModelFacts(7)),
    ],
)
def test_what_is_not_said_is_not_known(entry: dict[str, object], facts: ModelFacts | None) -> None:
    assert read_facts(entry) == facts


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-4.6", "claude-sonnet-4-6"),
        ("anthropic/claude-3.7-sonnet", "claude-3-7-sonnet"),
        ("anthropic/claude-opus-5.5:beta", "claude-opus-5-5"),
        # a later minor version is like the newest one that is known
        ("claude-fable-5-3", "claude-fable-5-2"),
        ("claude-opus-4-9", "claude-opus-4-8"),
        ("claude-opus-5-7-20270101", "claude-opus-5-5"),
        ("claude-sonnet-4-7", "claude-sonnet-4-6"),
        # but one before all of these is like the first
        ("claude-opus-5-1", "claude-opus-5"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("gpt-5.6-sol-pro", "gpt-5.6-pro"),
        ("gpt-6.1-pro", "gpt-6-pro"),
        ("gpt-6-astra-pro", "gpt-6-pro"),
        ("gpt-5.4-pro-2026-03-05", "gpt-5.4-pro"),
        ("gpt-5-pro", "gpt-5-pro"),
        ("gpt-5.6-chat", "gpt-5.5-chat"),
        ("gpt-5-chat-latest", "gpt-5.5-chat"),
    ],
)
def test_other_spellings_and_later_versions_have_a_row(name: str, row: str) -> None:
    assert profile_of(name) is base_profile(row)
