"""Limits, sampling and reasoning as the target takes them (mapping.md 7, 8.2 to 8.4).

All of it works on the canonical request, so that writers only write. A setting that is removed is recorded; one
that equals the default is removed in silence, since nothing changes.
"""

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Part, Reasoning, Text
from proxy.canonical.request import Effort, Request, Sampling
from proxy.canonical.target import Dialect, ModelProfile, Target
from proxy.translation import estimate
from proxy.translation.profiles import UNKNOWN_CLAUDE

FALLBACK_MAX_OUTPUT = 8192  # tokens, for a Claude model that no table knows (mapping.md 7.1)
MIN_BUDGET = 1024
LEAST_OUTPUT = 4096  # tokens, however full the context is
SPARE = 1024  # tokens by which an estimate may fall short
RUNGS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

# Absolute numbers, so that one request gives one budget whatever limit the client set (mapping.md 8.2).
BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32000,
    "max": 32000,
}
LARGE_MAX_BUDGET = 48000  # `max` on models that may answer 64k tokens
EFFORT_OF_BUDGET: tuple[tuple[int, Effort], ...] = (
    (1024, "minimal"),
    (4096, "low"),
    (12288, "medium"),
    (24576, "high"),
)

# Fields of Sampling that a protocol has no place for, with the rule that records their loss.
_LACKING: dict[str, tuple[tuple[str, Rule], ...]] = {
    "messages": (
        ("min_p", Rule.MIN_P),
        ("repetition_penalty", Rule.REPETITION_PENALTY),
        ("seed", Rule.SEED),
        ("presence_penalty", Rule.PRESENCE_PENALTY),
        ("frequency_penalty", Rule.FREQUENCY_PENALTY),
        ("logprobs", Rule.LOGPROBS),
        ("top_logprobs", Rule.TOP_LOGPROBS),
    ),
    "responses": (
        ("top_k", Rule.TOP_K),
        ("min_p", Rule.MIN_P),
        ("repetition_penalty", Rule.REPETITION_PENALTY),
        ("seed", Rule.SEED),
        ("presence_penalty", Rule.PRESENCE_PENALTY),
        ("frequency_penalty", Rule.FREQUENCY_PENALTY),
    ),
    "chat": (),
}
_NEUTRAL: dict[str, object] = {
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": False,
}
_OF_SOME_SERVERS = ("top_k", "min_p", "repetition_penalty")  # of Chat, where its dialect says so


def fit(request: Request, target: Target, losses: LossReport) -> None:
    """Make every setting one that the target takes, in place. Raises `Rejected` where the rule is to refuse."""
    _fit_sampling(request, target, losses)
    _fit_limits(request, target, losses)
    _fit_output(request, target, losses)
    if target.protocol == "messages":
        _fit_thinking(request, target, losses)
        _fit_sampling_to_thinking(request, losses)
    else:
        _fit_effort(request, target, losses)
        _check_functions_with_reasoning(request, target, losses)
    _fit_sampling_to_model(request, target, losses)


# --- sampling (7.2, 7.4) ---


def _fit_sampling(request: Request, target: Target, losses: LossReport) -> None:
    sampling = request.sampling
    for name, rule in _LACKING[target.protocol]:
        value = getattr(sampling, name)
        if value is None:
            continue
        if not _asks_nothing(name, value):
            losses.drop(rule, sampling.place_of(name))
        setattr(sampling, name, None)
    _fit_choices(sampling, target, losses)
    if target.protocol != "chat":
        _fit_bias(sampling, losses)
    if sampling.temperature == 1:
        sampling.temperature = None
    if sampling.top_p == 1:
        sampling.top_p = None
    if target.protocol == "messages":
        if sampling.top_k is not None and sampling.top_k < 1:
            sampling.top_k = None
    elif target.protocol == "chat":
        for name in _OF_SOME_SERVERS:
            value = getattr(sampling, name)
            if value is not None and name not in target.dialect.fields and _asks_nothing(name, value):
                setattr(sampling, name, None)


def _asks_nothing(name: str, value: object) -> bool:
    """Whether a setting has the value of one that is not there. A `top_k` of 0 or -1 takes all tokens."""
    if name == "top_k":
        return isinstance(value, int) and value < 1
    return name in _NEUTRAL and value == _NEUTRAL[name]


def _fit_choices(sampling: Sampling, target: Target, losses: LossReport) -> None:
    """A backend is asked for one choice; how many may be made of as many answers is up to the operator."""
    most = target.fan_out
    if sampling.n is not None and not 1 <= sampling.n <= most:
        asked_for = "only one choice can" if most == 1 else f"between 1 and {most} choices can"
        losses.refuse(Rule.N, ("n",), f"{asked_for} be asked for.")
    sampling.n = None


def _fit_bias(sampling: Sampling, losses: LossReport) -> None:
    """Neither Messages nor Responses can favour tokens."""
    if sampling.logit_bias:
        if any(value in (100, -100) for value in sampling.logit_bias.values()):
            losses.refuse(Rule.LOGIT_BAN, ("logit_bias",), "tokens can't be banned or forced.")
        losses.drop(Rule.LOGIT_BIAS, ("logit_bias",))
    sampling.logit_bias = None


# What models without sampling refuse, and the values that ask for nothing.
_SAMPLING: dict[str, tuple[object, ...]] = {
    "temperature": (),
    "top_p": (),
    "top_k": (),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
}


def _fit_sampling_to_model(request: Request, target: Target, losses: LossReport) -> None:
    sampling, profile = request.sampling, target.profile
    refused = not profile.sampling
    asked: list[str] = []
    if refused or profile.sampling_without_effort:
        asked = [name for name, idle in _SAMPLING.items() if getattr(sampling, name) not in (None, *idle)]
    if profile.sampling_without_effort and asked:
        effort = request.reasoning.effort
        refused = effort != "none" if effort is not None else profile.thinking_default
        if effort is None and not refused:
            # The default of such a model is `none`, but it takes these only where the request says so.
            request.reasoning.effort = "none"
    if refused:
        for name in asked:
            losses.drop(Rule.SAMPLING, sampling.place_of(name))
        for name in _SAMPLING:
            setattr(sampling, name, None)
        return
    if target.protocol == "messages" and (sampling.temperature or 0) > 1:
        losses.approx(Rule.TEMP_CLAMP, ("temperature",))
        sampling.temperature = None  # 1 is the default
    if profile.sampling_xor and sampling.temperature is not None and sampling.top_p is not None:
        losses.approx(Rule.TOP_P, ("top_p",))
        sampling.top_p = None


def _fit_sampling_to_thinking(request: Request, losses: LossReport) -> None:
    """Claude with a thinking budget takes no temperature and no top_k, and only a high top_p (mapping.md 7.2)."""
    if request.reasoning.mode != "budget":
        return
    sampling = request.sampling
    for name in ("temperature", "top_k"):
        if getattr(sampling, name) is not None:
            losses.drop(Rule.SAMPLING, (name,))
            setattr(sampling, name, None)
    if sampling.top_p is not None and sampling.top_p < 0.95:
        losses.drop(Rule.SAMPLING, ("top_p",))
        sampling.top_p = None


# --- limits (7.1) ---


def _fit_limits(request: Request, target: Target, losses: LossReport) -> None:
    limits = request.limits
    if target.protocol == "messages":
        ceiling = target.profile.max_output or FALLBACK_MAX_OUTPUT
        if limits.max_output is None:
            limits.max_output = _within(target.profile.context, ceiling, request)
        elif target.profile.max_output is not None and limits.max_output > ceiling:
            losses.approx(Rule.MAX_CLAMP, limits.max_output_at)
            limits.max_output = ceiling


def _within(context: int | None, ceiling: int, request: Request) -> int:
    """The ceiling, or what a context that must hold the prompt as well leaves of it (mapping.md 7.1)."""
    if context is None:
        return ceiling
    return max(LEAST_OUTPUT, min(ceiling, context - estimate.tokens(request) - SPARE))


# --- reasoning (8.2 to 8.4) ---


def effort_of_budget(budget: int) -> Effort:
    """The effort that a thinking budget in tokens stands for (mapping.md 8.4)."""
    for ceiling, effort in EFFORT_OF_BUDGET:
        if budget <= ceiling:
            return effort
    return "xhigh"


def rung_down(effort: Effort, accepted: tuple[Effort, ...]) -> Effort:
    """The nearest accepted level at or below; the lowest accepted one when there is none below."""
    rank = RUNGS.index(effort)
    if effort == "minimal" and "low" in accepted and effort not in accepted:
        return "low"  # the rung below would switch reasoning off (mapping.md 18.2)
    below = [level for level in accepted if RUNGS.index(level) <= rank]
    return below[-1] if below else accepted[0]


def _fit_thinking(request: Request, target: Target, losses: LossReport) -> None:
    """What the client said about reasoning, in Claude's terms (mapping.md 8.2, 8.3)."""
    policy, profile = request.reasoning, target.profile
    # Some models put their words between calls into thinking, which is hidden by default.
    show = True if profile.narrates_in_thinking and request.tools else policy.show
    if not policy.stated:
        policy.show = show
        # What is said of thinking can be said only beside its mode; this one is what such models do anyway.
        if profile.thinking_default and (show or (profile.bound and target.dialect.binding_controls)):
            policy.mode = "adaptive"
        return
    effort = policy.effort
    if policy.mode in ("off", "between_tools"):
        effort = "none"  # what is said of thinking itself is stronger than an effort (mapping.md 8.2)
    if not profile.efforts and not profile.thinking:
        if effort != "none":
            losses.drop(_reasoning_rule(request), policy.at)
        elif profile.unknown or profile is UNKNOWN_CLAUDE:
            losses.approx(Rule.REASONING_OFF, policy.at)
        policy.effort = policy.mode = policy.budget = None
        return
    policy.show = show
    if effort == "none":
        _thinking_off(request, profile, losses)
    elif "adaptive" in profile.thinking:
        _thinking_adaptive(request, effort, profile, losses)
    else:
        _thinking_budget(request, effort or "high", profile, losses)


def _reasoning_rule(request: Request) -> Rule:
    """What a loss of the client's word on reasoning is recorded under: the field that it stands in."""
    field = request.reasoning.at[:1]
    return Rule.THINKING if field == ("thinking",) else Rule.EFFORT


def _thinking_adaptive(request: Request, effort: Effort | None, profile: ModelProfile, losses: LossReport) -> None:
    """A number of tokens is an effort to a model that decides for itself how much it thinks."""
    policy = request.reasoning
    if policy.mode == "budget" and policy.budget is not None:
        effort = effort_of_budget(policy.budget)
        losses.approx(_reasoning_rule(request), policy.at)
    policy.mode, policy.budget, policy.effort = "adaptive", None, None
    if effort is not None:
        policy.effort = rung_down(effort, profile.efforts) if profile.efforts else None
        if policy.effort != effort:
            losses.approx(Rule.EFFORT, policy.at)


def _thinking_off(request: Request, profile: ModelProfile, losses: LossReport) -> None:
    policy = request.reasoning
    policy.budget = None
    policy.effort = None
    show, policy.show = policy.show, None  # thinking that is off is not shown either
    if "between_tools" in profile.thinking:
        policy.mode = "between_tools"
    elif profile.thinking_off:
        policy.mode = "off" if "adaptive" in profile.thinking else None
    else:
        losses.approx(Rule.REASONING_OFF, policy.at)
        policy.mode, policy.effort, policy.show = "adaptive", "low" if profile.efforts else None, show


def _thinking_budget(request: Request, effort: Effort, profile: ModelProfile, losses: LossReport) -> None:
    policy, limits = request.reasoning, request.limits
    asked = policy.budget if policy.mode == "budget" else None
    policy.effort = policy.budget = None
    if request.tool_policy.mode in ("any", "named"):
        # The caller depends on the call and nobody on the thinking (mapping.md 6.2).
        losses.approx(Rule.FORCED_CHOICE, request.tool_policy.at)
        policy.mode = None
        return
    if _open_loop_without_thinking(request):
        losses.approx(Rule.THINKING_MISSING, policy.at)
        policy.mode = None
        return
    ceiling = profile.max_output or FALLBACK_MAX_OUTPUT
    wanted = LARGE_MAX_BUDGET if effort == "max" and ceiling >= 64_000 else BUDGETS[effort]
    if asked is not None:
        wanted = max(asked, MIN_BUDGET)
    limit = limits.max_output or ceiling
    budget = min(wanted, limit - max(1024, limit // 4))
    if budget < MIN_BUDGET:
        losses.approx(Rule.BUDGET_TOO_SMALL, policy.at)
        policy.mode = None
        return
    policy.mode, policy.budget = "budget", budget


def _open_loop_without_thinking(request: Request) -> bool:
    """Whether the last assistant turn would have to begin with a thinking block that can't be restored.

    With a budget Claude wants its own thinking back in front of the final assistant turn (mapping.md 8.7), which may be
    several turns here: items of Responses and messages of Chat that follow each other become one message.
    """
    first: Part | None = None
    found = False
    for turn in reversed(request.turns):
        if turn.role != "assistant":
            if found:
                break
            continue
        found = True
        first = next((part for part in turn.parts if not (isinstance(part, Text) and not part.text.strip())), first)
    native = first.native if isinstance(first, Reasoning) else None
    return found and (native is None or not (native.get("signature") or native.get("data")))


def _fit_effort(request: Request, target: Target, losses: LossReport) -> None:
    """What the client said about reasoning, as an effort level (mapping.md 8.4)."""
    policy, accepted = request.reasoning, target.profile.efforts
    effort = policy.effort
    if policy.mode in ("off", "between_tools"):
        effort = "none"
    elif effort is None and policy.mode == "budget" and policy.budget is not None:
        effort = effort_of_budget(policy.budget)
    if policy.mode in ("adaptive", "budget") and policy.show is None:
        policy.show = True  # a Messages client that asks for thinking and does not say "omitted" wants to see it
    asked = policy.mode in ("adaptive", "budget") and effort != "none"
    policy.mode, policy.budget = None, None
    if target.dialect.no_forced_thinking and request.tool_policy.mode in ("any", "named") and effort != "none":
        # The caller depends on the call and nobody on the thinking (mapping.md 6.2).
        losses.approx(Rule.FORCED_CHOICE, request.tool_policy.at)
        effort = "none"
    elif asked and target.protocol == "chat" and target.profile.unknown:
        policy.mode = "adaptive"  # servers with a switch for it have to be told, be it without an effort
    if effort is None:
        return
    if target.profile.unknown or _is_mapped(effort, target):
        policy.effort = _effort_of_server(effort, target.dialect, policy.at, losses)
        return
    if not accepted:
        if effort != "none":
            losses.drop(Rule.EFFORT, policy.at)
        policy.effort = None
        return
    fitted = rung_down(effort, accepted)
    if fitted != effort:
        losses.approx(Rule.REASONING_OFF if effort == "none" else Rule.EFFORT, policy.at)
    policy.effort = fitted


def _is_mapped(effort: Effort, target: Target) -> bool:
    """Whether a gateway makes of the effort what its model takes, since the model knows none or not this one."""
    profile = target.profile
    if not target.dialect.maps_effort or not (profile.thinking or profile is UNKNOWN_CLAUDE):
        return False
    return not profile.efforts or (effort == "none" and profile.thinking_off)


def _effort_of_server(effort: Effort, dialect: Dialect, at: Path, losses: LossReport) -> Effort | None:
    """What a server takes for a model that no table knows: the client's word, unless its dialect says more.

    Only `none` is unsafe to send to a server without a switch (mapping.md 8.4).
    """
    if effort == "none":
        if dialect.thinking_switch == "none":
            losses.approx(Rule.REASONING_OFF, at)
            return None
        return effort
    if not dialect.efforts:
        return effort
    fitted = rung_down(effort, tuple(level for level in RUNGS if level in dialect.efforts))
    if fitted != effort:
        losses.approx(Rule.EFFORT, at)
    return fitted


def _check_functions_with_reasoning(request: Request, target: Target, losses: LossReport) -> None:
    """OpenAI's newer models refuse function tools on Chat while they reason (mapping.md 8.4, "Endpoint choice")."""
    profile, effort = target.profile, request.reasoning.effort
    if target.protocol != "chat" or profile.functions_with_reasoning or not request.tools:
        return
    if target.dialect.family not in ("openai", "azure"):
        return
    if effort != "none" if effort is not None else profile.thinking_default:
        losses.refuse(
            Rule.REASONING,
            request.reasoning.at or ("tools",),
            f"{target.model} takes tools with reasoning only on the Responses protocol; give this upstream "
            "`protocol: responses`, or set the reasoning effort to none.",
        )


# --- what else is said of the answer (7.4) ---


def _fit_output(request: Request, target: Target, losses: LossReport) -> None:
    output = request.output
    if target.protocol != "chat":
        if output.prediction is not None:
            losses.drop(Rule.PREDICTION, ("prediction",))
            output.prediction = None
        if output.modalities is not None and output.modalities != ["text"]:
            losses.refuse(Rule.MODALITIES, ("modalities",), "only text can be answered.")
    if target.protocol == "messages" and output.verbosity is not None:
        losses.drop(Rule.VERBOSITY, ("text", "verbosity") if request.origin == "responses" else ("verbosity",))
        output.verbosity = None
