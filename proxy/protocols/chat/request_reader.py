"""Read a Chat Completions request.

A field's type is checked where it is read, its range is the backend's business. What no other protocol could carry
is recorded or refused here; the rest is kept, and the writer of the backend's protocol decides.
"""

from typing import Literal

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.request import (
    CachePolicy,
    Identity,
    Limits,
    Output,
    OutputFormat,
    ReasoningPolicy,
    Request,
    Sampling,
    Service,
    State,
)
from proxy.protocols.chat.message_reader import read_messages
from proxy.protocols.chat.tables import EFFORTS, REQUEST_FIELDS, VERBOSITIES
from proxy.protocols.chat.tool_reader import read_tool_policy, read_tools, uses_functions
from proxy.protocols.fields import (
    Wire,
    as_object,
    flag,
    invalid,
    mapping,
    need_text,
    one_of,
    report_unknown,
    text,
    texts,
    whole,
)
from proxy.protocols.openai_completions import read_end_user, read_include_usage, read_sampling, read_stop

# Fields that are read in any case: a small request has no others, and should not be asked for each of them.
_PLAIN_FIELDS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "functions",
        "tool_choice",
        "function_call",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "stream",
        "stream_options",
        "service_tier",
    }
)
_FORMATS = frozenset({"text", "json_object", "json_schema"})
_THINKING: dict[str, Literal["off", "adaptive", "budget", "between_tools"]] = {
    "disabled": "off",
    "adaptive": "adaptive",
    "auto": "adaptive",
    "enabled": "budget",
    "between_tools": "between_tools",
}
_EFFORTS = frozenset(EFFORTS)
_THINKING_TYPES = frozenset(_THINKING)
_THINKING_FIELDS = frozenset({"type", "budget_tokens", "display"})
_DISPLAYS = frozenset({"summarized", "omitted"})
_REASONING_FIELDS = frozenset({"effort", "max_tokens", "enabled", "exclude"})
_TEMPLATE_FIELDS = frozenset({"enable_thinking"})
_CACHE_MODES = frozenset({"implicit", "explicit"})
_CACHE_TTLS = frozenset({"30m", "12h"})
_RETENTIONS = frozenset({"in_memory", "24h"})
_MODERATION_MODES = frozenset({"score", "block"})


def read_request(wire: Wire, losses: LossReport, *, exact: bool = False) -> Request:
    """The request in `wire`. Raises `Rejected` that names the field which is wrong.

    `exact`: long integers were decoded as they are; otherwise raises `InexactNumber` for one in arguments.
    """
    if not wire.keys() <= REQUEST_FIELDS:
        report_unknown(wire, REQUEST_FIELDS, (), losses)
    model = need_text(wire, "model", ())
    instructions, turns = read_messages(wire, losses, exact=exact)
    more = not wire.keys() <= _PLAIN_FIELDS
    if more:
        _refuse_audio(wire, losses)
        _report_moderation(wire, losses)
    return Request(
        origin="chat",
        model=model,
        turns=turns,
        instructions=instructions,
        tools=read_tools(wire, losses),
        tool_policy=read_tool_policy(wire, losses),
        sampling=_read_sampling(wire) if more else Sampling(),
        reasoning=_read_reasoning(wire, losses) if more else ReasoningPolicy(),
        output=_read_output(wire, losses) if more else Output(),
        limits=_read_limits(wire),
        cache=_read_cache(wire, losses) if more else CachePolicy(),
        state=_read_state(wire, losses) if more else State(),
        identity=_read_identity(wire, losses) if more else Identity(),
        service=Service(tier=text(wire, "service_tier", ())),
        stream=flag(wire, "stream", ()) or False,
        include_usage=read_include_usage(wire, losses),
        legacy_functions=uses_functions(wire),
    )


def _read_sampling(wire: Wire) -> Sampling:
    sampling = read_sampling(wire)
    sampling.logprobs = flag(wire, "logprobs", ())
    sampling.top_logprobs = whole(wire, "top_logprobs", ())
    return sampling


def _read_reasoning(wire: Wire, losses: LossReport) -> ReasoningPolicy:
    """`reasoning_effort`, and the switches that other servers added (mapping.md 8.1); the more explicit one wins."""
    policy = ReasoningPolicy()
    effort = one_of(wire, "reasoning_effort", _EFFORTS, ())
    if effort is not None:
        policy.effort, policy.at = EFFORTS[effort], ("reasoning_effort",)
    _read_enable_thinking(wire, policy, losses)
    reasoning = mapping(wire, "reasoning", ())
    if reasoning is not None:
        _read_openrouter(reasoning, policy, losses)
    thinking = mapping(wire, "thinking", ())
    if thinking is not None:
        _read_thinking(thinking, policy, losses)
    return policy


def _read_enable_thinking(wire: Wire, policy: ReasoningPolicy, losses: LossReport) -> None:
    """Qwen's `enable_thinking`, which vLLM and SGLang take among the arguments of the chat template."""
    template = mapping(wire, "chat_template_kwargs", ())
    path: Path = ("enable_thinking",)
    enabled = flag(wire, "enable_thinking", ())
    if template is not None:
        report_unknown(template, _TEMPLATE_FIELDS, ("chat_template_kwargs",), losses)
        inner = flag(template, "enable_thinking", ("chat_template_kwargs",))
        if inner is not None:
            enabled, path = inner, ("chat_template_kwargs", "enable_thinking")
    if enabled is not None:
        policy.mode, policy.at = "adaptive" if enabled else "off", path


def _read_openrouter(reasoning: Wire, policy: ReasoningPolicy, losses: LossReport) -> None:
    """OpenRouter's `reasoning{effort | max_tokens, enabled, exclude}`."""
    at: Path = ("reasoning",)
    report_unknown(reasoning, _REASONING_FIELDS, at, losses)
    policy.at = at
    effort = one_of(reasoning, "effort", _EFFORTS, at)
    if effort is not None:
        policy.effort = EFFORTS[effort]
    budget = whole(reasoning, "max_tokens", at)
    enabled = flag(reasoning, "enabled", at)
    if enabled is False:
        policy.mode = "off"
    elif budget is not None:
        policy.mode, policy.budget = "budget", budget
    elif enabled is True:
        policy.mode = "adaptive"
    exclude = flag(reasoning, "exclude", at)
    if exclude is not None:
        policy.show = not exclude


def _read_thinking(thinking: Wire, policy: ReasoningPolicy, losses: LossReport) -> None:
    """`thinking{type, budget_tokens}` of DeepSeek, Moonshot and GLM, which took it from Messages.

    There `enabled` needs no budget: without one the model decides, which is what Messages calls adaptive.
    """
    at: Path = ("thinking",)
    report_unknown(thinking, _THINKING_FIELDS, at, losses)
    policy.at = at
    type_ = one_of(thinking, "type", _THINKING_TYPES, at)
    policy.budget = whole(thinking, "budget_tokens", at)
    if type_ is not None:
        policy.mode = _THINKING[type_]
    elif policy.budget is not None:
        policy.mode = "budget"
    if policy.mode == "budget" and policy.budget is None:
        policy.mode = "adaptive"
    display = one_of(thinking, "display", _DISPLAYS, at)
    if display is not None:
        policy.show = display == "summarized"


def _read_output(wire: Wire, losses: LossReport) -> Output:
    return Output(
        format=_read_format(wire, losses),
        verbosity=one_of(wire, "verbosity", VERBOSITIES, ()),
        modalities=texts(wire, "modalities", ()),
        prediction=mapping(wire, "prediction", ()),
    )


def _read_format(wire: Wire, losses: LossReport) -> OutputFormat | None:
    """`response_format`; the schema is nested here and flat in Responses."""
    form = mapping(wire, "response_format", ())
    if form is None:
        return None
    at: Path = ("response_format",)
    report_unknown(form, frozenset({"type", "json_schema"}), at, losses)
    need_text(form, "type", at)
    type_ = one_of(form, "type", _FORMATS, at)
    if type_ == "json_object":
        return OutputFormat("json_object", at=at)
    if type_ != "json_schema":
        return None
    at = (*at, "json_schema")
    schema = as_object(form.get("json_schema"), at)
    report_unknown(schema, frozenset({"name", "schema", "strict", "description"}), at, losses)
    return OutputFormat(
        "json_schema",
        schema=mapping(schema, "schema", at),
        name=need_text(schema, "name", at),
        strict=flag(schema, "strict", at),
        description=text(schema, "description", at),
        at=at,
    )


def _read_limits(wire: Wire) -> Limits:
    """`max_completion_tokens` wins over `max_tokens` (mapping.md 7.1); zero would mean "prewarm" in Messages."""
    limits = Limits()
    for name in ("max_tokens", "max_completion_tokens"):
        limit = whole(wire, name, ())
        if limit is None:
            continue
        if limit < 1:
            invalid((name,), "expected a value of at least 1.", code="integer_below_min_value")
        limits.max_output, limits.max_output_at = limit, (name,)
    read_stop(wire, limits)
    return limits


def _read_state(wire: Wire, losses: LossReport) -> State:
    """Only the backend that gave an answer could keep it, and its ids are not those that this client sees."""
    store = flag(wire, "store", ())
    if store:
        losses.approx(Rule.STORE, ("store",))
    return State(store=store)


def _read_cache(wire: Wire, losses: LossReport) -> CachePolicy:
    """The routing key and the lifetime; `prompt_cache_retention` is the older name of the latter."""
    cache = CachePolicy(key=text(wire, "prompt_cache_key", ()))
    retention = one_of(wire, "prompt_cache_retention", _RETENTIONS, ())
    if retention is not None:
        cache.ttl = "long" if retention == "24h" else "short"
        cache.at = ("prompt_cache_retention",)
    options = mapping(wire, "prompt_cache_options", ())
    if options is not None:
        at: Path = ("prompt_cache_options",)
        report_unknown(options, frozenset({"mode", "ttl"}), at, losses)
        mode = one_of(options, "mode", _CACHE_MODES, at)
        ttl = one_of(options, "ttl", _CACHE_TTLS, at)
        if mode is not None or ttl is not None:
            cache.at = at
        cache.auto = None if mode is None else mode == "implicit"
        cache.ttl = cache.ttl if ttl is None else "long" if ttl == "12h" else "short"
    return cache


def _read_identity(wire: Wire, losses: LossReport) -> Identity:
    """`safety_identifier` took the place of `user`."""
    identity = read_end_user(wire)
    stable = text(wire, "safety_identifier", ())
    if stable is not None:
        if identity.end_user not in (None, stable):
            losses.drop(Rule.USER, ("user",))
        identity.end_user, identity.end_user_at = stable, ("safety_identifier",)
    identity.metadata = mapping(wire, "metadata", ())
    if identity.metadata is not None:
        for name in identity.metadata:
            text(identity.metadata, name, ("metadata",))
    return identity


def _refuse_audio(wire: Wire, losses: LossReport) -> None:
    """Spoken answers exist in no other protocol (mapping.md 4.4). How to speak means nothing where only text is asked
    for in so many words."""
    modalities = texts(wire, "modalities", ())
    if "audio" in (modalities or ()):
        losses.refuse(Rule.MODALITIES, ("modalities",), "spoken answers exist only in Chat Completions.")
    if mapping(wire, "audio", ()) is not None:
        if not modalities:
            losses.refuse(Rule.AUDIO, ("audio",), "spoken answers exist only in Chat Completions.")
        losses.drop(Rule.AUDIO, ("audio",))


def _report_moderation(wire: Wire, losses: LossReport) -> None:
    """Scores are a service beside the answer; blocking is something the client counts on (mapping.md 11.1)."""
    moderation = mapping(wire, "moderation", ())
    if moderation is None:
        return
    at: Path = ("moderation",)
    policy = mapping(moderation, "policy", at) or {}
    for side in ("input", "output"):
        where = (*at, "policy")
        rules = mapping(policy, side, where) or {}
        if one_of(rules, "mode", _MODERATION_MODES, (*where, side)) == "block":
            losses.refuse(Rule.MODERATION, (*where, side, "mode"))
    losses.drop(Rule.MODERATION, at)
