"""Limits, sampling and reasoning as each target takes them (mapping.md 7, 8.2 to 8.4)."""

from dataclasses import replace

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Result, Text, Turn
from proxy.canonical.request import (
    Effort,
    Limits,
    ReasoningPolicy,
    Request,
    Sampling,
)
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import FunctionTool, ToolPolicy
from proxy.translation import estimate
from proxy.translation.fit import RUNGS, effort_of_budget, fit, rung_down
from proxy.translation.profiles import profile_of


def target(protocol: str, model: str, dialect: Dialect | None = None) -> Target:
    return Target(protocol, model, dialect or Dialect(), profile_of(model))  # type: ignore[arg-type]


def fitted(request: Request, goal: Target) -> tuple[Request, list[str]]:
    losses = LossReport()
    fit(request, goal, losses)
    return request, [f"{loss.rule};{loss.level}" for loss in losses.losses]


def chat(**fields: object) -> Request:
    return Request("chat", "m", turns=[Turn("user", [Text("hi")])], **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "effort", "policy"),
    [
        ("claude-opus-5", "high", ReasoningPolicy("adaptive", "high")),
        ("claude-opus-5", "none", ReasoningPolicy("off")),
        ("claude-opus-5", "minimal", ReasoningPolicy("adaptive", "low")),
        ("claude-sonnet-4-6", "xhigh", ReasoningPolicy("adaptive", "high")),
        ("claude-sonnet-5-5", "none", ReasoningPolicy("between_tools")),
        ("claude-fable-5", "none", ReasoningPolicy("adaptive", "low")),
        ("claude-sonnet-4-5", "medium", ReasoningPolicy("budget", None, 8192)),
        ("claude-sonnet-4-5", "max", ReasoningPolicy("budget", None, 48000)),
        ("claude-3-5-sonnet", "high", ReasoningPolicy()),
    ],
)
def test_effort_in_claudes_terms(model: str, effort: str, policy: ReasoningPolicy) -> None:
    request, _ = fitted(
        chat(reasoning=ReasoningPolicy(effort=effort)),  # type: ignore[arg-type]
        target("messages", model),
    )
    assert request.reasoning == policy


@pytest.mark.parametrize(
    ("model", "policy", "fits", "losses"),
    [
        # The client's own number of tokens is what a model gets that thinks by numbers.
        ("claude-sonnet-4-5", ReasoningPolicy("budget", "low", 5000), ReasoningPolicy("budget", None, 5000), []),
        ("claude-sonnet-4-5", ReasoningPolicy("budget", None, 100), ReasoningPolicy("budget", None, 1024), []),
        # Others get the effort that it stands for.
        (
            "claude-opus-5",
            ReasoningPolicy("budget", None, 5000),
            ReasoningPolicy("adaptive", "medium"),
            ["thinking;approx"],
        ),
        # To switch thinking off is said of thinking itself, an effort is not.
        ("claude-opus-5", ReasoningPolicy("off", "high"), ReasoningPolicy("off"), []),
        ("claude-sonnet-4-5", ReasoningPolicy("off"), ReasoningPolicy(), []),
        ("claude-3-5-sonnet", ReasoningPolicy("off"), ReasoningPolicy(), []),
        # Nothing is sent to a model that nobody knows.
        ("claude-omega", ReasoningPolicy("off"), ReasoningPolicy(), ["reasoning-off;approx"]),
        ("some-model", ReasoningPolicy("off"), ReasoningPolicy(), ["reasoning-off;approx"]),
        ("some-model", ReasoningPolicy("adaptive"), ReasoningPolicy(), ["thinking;drop"]),
        ("some-model", ReasoningPolicy("budget", None, 5000), ReasoningPolicy(), ["thinking;drop"]),
    ],
)
def test_a_switch_of_thinking_in_claudes_terms(
    model: str, policy: ReasoningPolicy, fits: ReasoningPolicy, losses: list[str]
) -> None:
    request, recorded = fitted(chat(reasoning=replace(policy, at=("thinking",))), target("messages", model))
    assert (replace(request.reasoning, at=(), show=None), recorded) == (fits, losses)


def test_a_budget_leaves_room_for_the_answer() -> None:
    request, _ = fitted(
        chat(reasoning=ReasoningPolicy(effort="high"), limits=Limits(4096)),
        target("messages", "claude-sonnet-4-5"),
    )
    assert request.reasoning.budget == 4096 - 1024


def test_thinking_yields_to_a_limit_too_small_for_it() -> None:
    request, losses = fitted(
        chat(reasoning=ReasoningPolicy(effort="high"), limits=Limits(1500)),
        target("messages", "claude-sonnet-4-5"),
    )
    assert (request.reasoning.mode, losses) == (None, ["budget-too-small;approx"])


def test_thinking_yields_to_a_forced_tool() -> None:
    request, losses = fitted(
        chat(
            reasoning=ReasoningPolicy(effort="high"),
            tools=[FunctionTool("f", None)],
            tool_policy=ToolPolicy("any"),
        ),
        target("messages", "claude-sonnet-4-5"),
    )
    assert (request.reasoning.mode, losses) == (None, ["forced-choice;approx"])


def test_a_budget_needs_the_thinking_of_the_open_loop() -> None:
    request = chat(reasoning=ReasoningPolicy(effort="high"))
    request.turns += [
        Turn("assistant", [Call("a", "f", "{}")]),
        Turn("user", [Result("a", [Text("1")])]),
    ]
    request, losses = fitted(request, target("messages", "claude-sonnet-4-5"))
    assert (request.reasoning.mode, losses) == (None, ["thinking-missing;approx"])


def test_who_wants_no_thinking_shown_gets_none() -> None:
    request, losses = fitted(
        chat(reasoning=ReasoningPolicy("adaptive", show=False)), target("messages", "claude-opus-5")
    )
    assert (request.reasoning.show, losses) == (False, [])


@pytest.mark.parametrize(
    ("model", "mode", "budget", "effort"),
    [
        ("gpt-5.5", "budget", 31999, "xhigh"),
        ("gpt-5.5", "budget", 4000, "low"),
        ("gpt-5.5", "off", None, "none"),
        ("gpt-5.5", "budget", 1024, "low"),
        ("o3", "off", None, "low"),
        ("gpt-5", "off", None, "minimal"),
        ("gpt-4.1", "budget", 4000, None),
        ("some-new-model", "budget", 10000, "medium"),
        ("some-new-model", "off", None, None),
    ],
)
def test_claudes_thinking_as_effort(model: str, mode: str, budget: int | None, effort: str | None) -> None:
    request = Request("messages", "m", reasoning=ReasoningPolicy(mode, budget=budget))  # type: ignore[arg-type]
    assert fitted(request, target("responses", model))[0].reasoning.effort == effort


def test_every_budget_and_every_rung_has_an_effort() -> None:
    accepted: tuple[Effort, ...] = ("low", "medium", "high")
    assert [rung_down(rung, accepted) for rung in RUNGS] == [
        "low",
        "low",
        "low",
        "medium",
        "high",
        "high",
        "high",
    ]
    assert [effort_of_budget(budget) for budget in (1024, 2048, 8192, 16384, 32000)] == [
        "minimal",
        "low",
        "medium",
        "high",
        "xhigh",
    ]


@pytest.mark.parametrize(
    ("model", "sampling", "left", "losses"),
    [
        ("claude-sonnet-4-5", Sampling(1.4), Sampling(), ["temp-clamp;approx"]),
        ("claude-sonnet-4-5", Sampling(0.5, 0.9), Sampling(0.5), ["top-p;approx"]),
        ("claude-opus-5", Sampling(0.5), Sampling(), ["sampling;drop"]),
        ("claude-opus-5", Sampling(1.4), Sampling(), ["sampling;drop"]),
        ("claude-sonnet-4-5", Sampling(1.4, 0.9), Sampling(top_p=0.9), ["temp-clamp;approx"]),
        ("claude-sonnet-4-5", Sampling(top_k=-1), Sampling(), []),
        ("claude-opus-5", Sampling(top_k=0, min_p=0, repetition_penalty=1.0), Sampling(), []),
        ("claude-sonnet-4-5", Sampling(top_k=1, min_p=0.1), Sampling(top_k=1), ["min-p;drop"]),
        ("claude-opus-5", Sampling(0, top_k=5), Sampling(), ["sampling;drop", "sampling;drop"]),
        ("claude-opus-5", Sampling(1, 1), Sampling(), []),
        ("claude-3-5-haiku", Sampling(seed=3, n=1, logprobs=False), Sampling(), ["seed;drop"]),
        ("claude-3-5-haiku", Sampling(logit_bias={"5": 3}), Sampling(), ["logit-bias;drop"]),
    ],
)
def test_sampling_toward_claude(model: str, sampling: Sampling, left: Sampling, losses: list[str]) -> None:
    request, found = fitted(chat(sampling=sampling), target("messages", model))
    assert (request.sampling, found) == (left, losses)


def test_a_budget_takes_no_temperature_whatever_it_is() -> None:
    request = chat(sampling=Sampling(1.4), reasoning=ReasoningPolicy(effort="high"))
    assert fitted(request, target("messages", "claude-sonnet-4-5"))[1] == ["sampling;drop"]


@pytest.mark.parametrize("fields", [frozenset(), frozenset({"top_k", "min_p", "repetition_penalty"})])
def test_what_asks_nothing_goes_only_to_servers_that_know_it(fields: frozenset[str]) -> None:
    idle = Sampling(top_k=-1, min_p=0.0, repetition_penalty=1.0)
    request, losses = fitted(chat(sampling=replace(idle)), target("chat", "m", Dialect(fields=fields)))
    assert (request.sampling, losses) == (idle if fields else Sampling(), [])


@pytest.mark.parametrize(
    ("model", "given", "left", "effort", "losses"),
    [
        # The default of gpt-5.4 is not to reason, but it takes a temperature only where the request says so.
        ("gpt-5.4", None, Sampling(0.0), "none", []),
        ("gpt-5.4", "low", Sampling(), "low", ["sampling;drop"]),
        ("gpt-5.5", None, Sampling(), None, ["sampling;drop"]),
        ("gpt-5.5", "none", Sampling(0.0), "none", []),
        ("o3", None, Sampling(), None, ["sampling;drop"]),
        ("gpt-4.1", None, Sampling(0.0), None, []),
    ],
)
def test_a_temperature_toward_openai(
    model: str, given: Effort | None, left: Sampling, effort: Effort | None, losses: list[str]
) -> None:
    asked = chat(sampling=Sampling(0.0), reasoning=ReasoningPolicy(effort=given))
    request, found = fitted(asked, target("responses", model))
    assert (request.sampling, request.reasoning.effort, found) == (left, effort, losses)


def test_the_effort_is_left_alone_where_no_sampling_is_asked_for() -> None:
    request, losses = fitted(chat(sampling=Sampling(1, presence_penalty=0)), target("chat", "gpt-5.4"))
    assert (request.reasoning.effort, losses) == (None, [])


@pytest.mark.parametrize("sampling", [Sampling(n=2), Sampling(logit_bias={"7": -100})])
def test_what_changes_the_answer_is_refused(sampling: Sampling) -> None:
    with pytest.raises(Rejected):
        fitted(chat(sampling=sampling), target("messages", "claude-opus-5"))


@pytest.mark.parametrize(
    ("model", "given", "limit", "losses"),
    [
        ("claude-sonnet-4-5", None, 64000, []),
        ("claude-sonnet-4-5", 100_000, 64000, ["max-clamp;approx"]),
        ("claude-unheard-of", None, 8192, []),
        ("my-alias", 100_000, 100_000, []),
    ],
)
def test_output_limit_toward_claude(model: str, given: int | None, limit: int, losses: list[str]) -> None:
    request, found = fitted(chat(limits=Limits(given)), target("messages", model))
    assert (request.limits.max_output, found) == (limit, losses)


@pytest.mark.parametrize(
    ("model", "words", "limit"),
    [
        ("claude-sonnet-4", 1, 64000),
        ("claude-sonnet-4", 500_000, 200_000 - 1024),
        ("claude-sonnet-4", 900_000, 4096),
        ("claude-sonnet-4-5", 900_000, 64000),
    ],
)
def test_what_a_full_context_leaves(model: str, words: int, limit: int) -> None:
    request = chat()
    request.turns[0].parts[:] = [Text("x" * words)]
    prompt = estimate.tokens(request) if words == 500_000 else 0
    assert fitted(request, target("messages", model))[0].limits.max_output == limit - prompt


def test_openai_chat_refuses_tools_with_reasoning_and_says_what_to_do() -> None:
    request = chat(tools=[FunctionTool("f", None)])
    openai = Dialect("openai", "openai")
    with pytest.raises(Rejected, match="protocol: responses"):
        fitted(request, target("chat", "gpt-5.5", openai))
    assert fitted(request, target("chat", "gpt-5.5"))[1] == []
    assert fitted(request, target("responses", "gpt-5.5", openai))[1] == []


@pytest.mark.parametrize(
    ("mode", "show", "shown"),
    [
        ("adaptive", None, True),
        ("budget", None, True),
        ("adaptive", False, False),
        ("off", None, None),
        (None, None, None),
    ],
)
def test_a_messages_client_that_asks_for_thinking_sees_it(
    mode: str | None, show: bool | None, shown: bool | None
) -> None:
    request = Request("messages", "m", reasoning=ReasoningPolicy(mode, show=show))  # type: ignore[arg-type]
    assert fitted(request, target("responses", "gpt-5.6"))[0].reasoning.show is shown


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1"])
def test_what_cannot_be_switched_off_is_shown_all_the_same(model: str) -> None:
    request = chat(reasoning=ReasoningPolicy(effort="none"), tools=[FunctionTool("f", None)])
    request, losses = fitted(request, target("messages", model))
    policy = request.reasoning
    assert (policy.mode, policy.effort, policy.show) == ("adaptive", "low", True)
    assert losses == ["reasoning-off;approx"]


def test_what_is_switched_off_is_not_shown() -> None:
    request = chat(reasoning=ReasoningPolicy(effort="none", show=True), tools=[FunctionTool("f", None)])
    request, _ = fitted(request, target("messages", "claude-opus-5"))
    assert (request.reasoning.mode, request.reasoning.show) == ("off", None)
