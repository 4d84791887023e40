"""Read a Responses request (responses.md 3).

`read_request` knows no store: what refers to an earlier response is refused. Absent is not the same as false here:
`store` is on and tools are strict when the client says nothing.
"""

from typing import NoReturn, cast

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Text
from proxy.canonical.request import (
    CachePolicy,
    Compaction,
    Effort,
    Identity,
    Instruction,
    Limits,
    Output,
    OutputFormat,
    ReasoningPolicy,
    Request,
    Sampling,
    Service,
    State,
)
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolPolicy
from proxy.protocols.fields import (
    Wire,
    array,
    as_object,
    flag,
    invalid,
    is_object,
    mapping,
    need_text,
    number,
    one_of,
    report_unknown,
    text,
    texts,
    whole,
)
from proxy.protocols.responses.echo import echo_of
from proxy.protocols.responses.input_items import Conversation, read_input
from proxy.protocols.responses.tables import EFFORTS, WITH_ENCRYPTED_REASONING, WITH_LOGPROBS, WITH_SOURCES
from proxy.protocols.responses.tool_reader import read_tool_choice, read_tools, whole_name

KNOWN = frozenset(
    {
        "access_programs",
        "background",
        "background_options",
        "client_metadata",
        "context_management",
        "conversation",
        "frequency_penalty",
        "image",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "multi_agent",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
# Fields that are read in any case: a small request has no others, and should not be asked for each of them.
_PLAIN_FIELDS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "max_output_tokens",
        "reasoning",
        "text",
        "truncation",
        "store",
        "stream",
        "metadata",
        "user",
        "safety_identifier",
        "service_tier",
    }
)
# Fields that no other protocol has and that do not change the answer.
DROPPED: dict[str, Rule] = {
    "access_programs": Rule.ACCESS_PROGRAMS,
    "background_options": Rule.BACKGROUND_OPTIONS,
    "client_metadata": Rule.CLIENT_METADATA,
    "image": Rule.IMAGE,
}
# What `include` asks for that is served when the backend tells it (mapping.md 11.1).
SERVED = frozenset({WITH_LOGPROBS, WITH_ENCRYPTED_REASONING, WITH_SOURCES})
SUMMARIES = frozenset({"auto", "concise", "detailed"})
TRUNCATIONS = frozenset({"auto", "disabled"})
CACHE_MODES = frozenset({"implicit", "explicit"})
CACHE_TTLS = frozenset({"30m", "12h"})
FORMATS = frozenset({"text", "json_object", "json_schema"})
_GROUPED = (FunctionTool, CustomTool)
RETENTIONS = frozenset({"in_memory", "24h"})
# Fields of nested objects.
REASONING = frozenset({"effort", "summary", "generate_summary", "context", "mode"})
FORMAT = frozenset({"type", "name", "schema", "strict", "description"})
CACHE_OPTIONS = frozenset({"mode", "ttl", "prewarm", "comparison_response_id"})


def read_request(wire: Wire, losses: LossReport) -> Request:
    """The canonical request, whose native parts refer into `wire`. Raises `Rejected` that names the field."""
    more = not wire.keys() <= _PLAIN_FIELDS
    if more:
        _refuse_state(wire, losses)
        for name in wire.keys() & DROPPED.keys():
            if wire[name] is not None:
                losses.drop(DROPPED[name], (name,))
    conversation = _conversation(wire, losses)
    request = Request(
        "responses",
        need_text(wire, "model", ()),
        conversation.turns,
        [*_instructions(wire), *conversation.instructions],
        _tools(wire, conversation, losses),
        _tool_policy(wire, losses),
        _sampling(wire) if more else Sampling(),
        _reasoning(mapping(wire, "reasoning", ()) or {}, ("reasoning",), losses),
        _output(mapping(wire, "text", ()) or {}, ("text",), losses),
        _limits(wire),
        _cache(wire, losses) if more else CachePolicy(),
        _state(wire, losses),
        _identity(wire, losses),
        Service(text(wire, "service_tier", ())),
        _compaction(wire, losses) if more else None,
        flag(wire, "stream", ()) or False,
    )
    if more:
        _stream_options(wire, losses)
    _place_choice(request)
    for update, path in conversation.updates:
        _update(request, update, path, losses)
    if more and not wire.keys() <= KNOWN:
        report_unknown(wire, KNOWN, (), losses)
    request.echo = echo_of(wire)
    return request


def _tools(wire: Wire, conversation: Conversation, losses: LossReport) -> list[Tool]:
    """The declared tools, then those that items brought. One that a search found is an ordinary one from then on."""
    tools = [*read_tools(array(wire, "tools", ()) or [], ("tools",), losses), *conversation.tools]
    if not conversation.found:
        return tools
    known = {whole_name(tool): tool for tool in tools}
    for found in conversation.found:
        tool = known.get(whole_name(found))
        if tool is None:
            known[whole_name(found)] = tool = found
            tools.append(found)
        if not isinstance(tool, HostedTool):
            tool.deferred = False
    return tools


def _compaction(wire: Wire, losses: LossReport) -> Compaction | None:
    """The first of what the backend is to do with a long history; it knows nothing but to sum it up."""
    found: Compaction | None = None
    for index, item in enumerate(array(wire, "context_management", ()) or []):
        path: Path = ("context_management", index)
        entry = as_object(item, path)
        if need_text(entry, "type", path) == "compaction" and found is None:
            report_unknown(entry, frozenset({"type", "compact_threshold"}), path, losses)
            found = Compaction(whole(entry, "compact_threshold", path), at=path)
        else:
            losses.drop(Rule.CONTEXT_MANAGEMENT, path)
    return found


def _stream_options(wire: Wire, losses: LossReport) -> None:
    """Padding against eavesdroppers is not made here, and costs nothing to lose (mapping.md 11.1)."""
    options = mapping(wire, "stream_options", ())
    if options is not None:
        flag(options, "include_obfuscation", ("stream_options",))
        report_unknown(options, frozenset({"include_obfuscation"}), ("stream_options",), losses)


def _refuse_state(wire: Wire, losses: LossReport) -> None:
    """What needs something that the proxy does not have: a store, a background, the vendor's own templates."""
    previous = text(wire, "previous_response_id", ())
    if previous is not None:
        _refuse_previous(previous)
    if wire.get("conversation") is not None:
        losses.refuse(Rule.CONVERSATION, ("conversation",), "send the whole history in 'input'.")
    if flag(wire, "background", ()):
        losses.refuse(Rule.BACKGROUND, ("background",))
    if wire.get("prompt") is not None:
        losses.refuse(Rule.PROMPT, ("prompt",), "send the text of the template in 'input'.")
    if wire.get("multi_agent") is not None:
        losses.refuse(Rule.UNKNOWN_FIELD, ("multi_agent",))
    moderation = mapping(wire, "moderation", ())
    if moderation is not None:
        if _blocks(moderation):
            losses.refuse(Rule.MODERATION, ("moderation",), "nothing would be blocked.")
        losses.drop(Rule.MODERATION, ("moderation",))


def _refuse_previous(response_id: str) -> NoReturn:
    raise Rejected(
        Error(
            ErrorClass.INVALID,
            f"Previous response with id '{response_id}' not found: send the whole history in 'input'.",
            code="previous_response_not_found",
            param="previous_response_id",
            reason=Reason.STATE_NOT_PORTABLE,
        )
    )


def _blocks(moderation: Wire) -> bool:
    policy = moderation.get("policy")
    if not is_object(policy):
        return False
    sides = (policy.get("input"), policy.get("output"))
    return any(is_object(side) and side.get("mode") == "block" for side in sides)


def _conversation(wire: Wire, losses: LossReport) -> Conversation:
    value = wire.get("input")
    if value is None:
        invalid(("input",), "this field is required.", code="missing_required_parameter")
    return read_input(value, ("input",), losses)


def _instructions(wire: Wire) -> list[Instruction]:
    instructions = text(wire, "instructions", ())
    if not instructions:
        return []
    return [Instruction([Text(instructions)], top_level=True, at=("instructions",))]


def _tool_policy(wire: Wire, losses: LossReport) -> ToolPolicy:
    policy = ToolPolicy(parallel=flag(wire, "parallel_tool_calls", ()), max_calls=whole(wire, "max_tool_calls", ()))
    read_tool_choice(wire.get("tool_choice"), ("tool_choice",), policy, losses)
    return policy


def _place_choice(request: Request) -> None:
    """A choice names a tool without its group, which the name toward other protocols begins with."""
    policy = request.tool_policy
    for reference in (policy.named, *(policy.allowed or ())):
        if reference is None or reference.namespace is not None:
            continue
        groups = [
            tool.namespace for tool in request.tools if isinstance(tool, _GROUPED) and tool.name == reference.name
        ]
        if groups and None not in groups:
            reference.namespace = groups[0]


def _sampling(wire: Wire) -> Sampling:
    """`top_logprobs` is of no effect unless `include` asks for log probabilities (responses.md 3)."""
    include = wire.get("include")
    with_logprobs = type(include) is list and WITH_LOGPROBS in include
    top = whole(wire, "top_logprobs", ())
    sampling = Sampling(
        number(wire, "temperature", ()),
        number(wire, "top_p", ()),
        presence_penalty=number(wire, "presence_penalty", ()),
        frequency_penalty=number(wire, "frequency_penalty", ()),
        logprobs=True if with_logprobs else None,
        top_logprobs=top or None if with_logprobs else None,
    )
    if with_logprobs:
        sampling.logprobs_at = ("include",)
    return sampling


def _reasoning(wire: Wire, path: Path, losses: LossReport) -> ReasoningPolicy:
    report_unknown(wire, REASONING, path, losses)
    summary = one_of(wire, "summary", SUMMARIES, path) or one_of(wire, "generate_summary", SUMMARIES, path)
    for name, default in (("context", "auto"), ("mode", "standard")):
        if (text(wire, name, path) or default) != default:
            losses.drop(Rule.REASONING, (*path, name))
    return ReasoningPolicy(
        effort=cast(Effort | None, one_of(wire, "effort", EFFORTS, path)),
        show=True if summary else None,
        summary=summary,
        at=(*path, "effort"),
    )


def _output(wire: Wire, path: Path, losses: LossReport) -> Output:
    report_unknown(wire, frozenset({"format", "verbosity"}), path, losses)
    return Output(_format(wire, path, losses), text(wire, "verbosity", path))


def _format(wire: Wire, path: Path, losses: LossReport) -> OutputFormat | None:
    given = mapping(wire, "format", path)
    if given is None:
        return None
    at = (*path, "format")
    report_unknown(given, FORMAT, at, losses)
    match one_of(given, "type", FORMATS, at):
        case "json_object":
            return OutputFormat("json_object", at=at)
        case "json_schema":
            schema = mapping(given, "schema", at)
            if schema is None:
                invalid((*at, "schema"), "this field is required.", code="missing_required_parameter")
            return OutputFormat(
                "json_schema",
                schema,
                need_text(given, "name", at),
                flag(given, "strict", at),
                text(given, "description", at),
                at,
            )
        case "text":
            return None
        case _:
            invalid((*at, "type"), "this field is required.", code="missing_required_parameter")


def _limits(wire: Wire) -> Limits:
    limit = whole(wire, "max_output_tokens", ())
    if limit is not None and limit < 1:
        invalid(("max_output_tokens",), f"expected at least 1, got {limit}.", code="integer_below_min_value")
    limits = Limits(limit, ("max_output_tokens",))
    options = mapping(wire, "prompt_cache_options", ())
    if options is not None:
        limits.prewarm = flag(options, "prewarm", ("prompt_cache_options",)) or False
        limits.prewarm_at = ("prompt_cache_options", "prewarm") if limits.prewarm else ()
    return limits


def _cache(wire: Wire, losses: LossReport) -> CachePolicy:
    """The routing key and the lifetime; `prompt_cache_retention` is the older name of the latter."""
    cache = CachePolicy(text(wire, "prompt_cache_key", ()))
    retention = one_of(wire, "prompt_cache_retention", RETENTIONS, ())
    if retention is not None:
        cache.ttl, cache.at = "long" if retention == "24h" else "short", ("prompt_cache_retention",)
    options = mapping(wire, "prompt_cache_options", ())
    if options is None:
        return cache
    at: Path = ("prompt_cache_options",)
    report_unknown(options, CACHE_OPTIONS, at, losses)
    mode = one_of(options, "mode", CACHE_MODES, at)
    ttl = one_of(options, "ttl", CACHE_TTLS, at)
    if mode is not None or ttl is not None:
        cache.at = at
    cache.auto = None if mode is None else mode == "implicit"
    cache.ttl = cache.ttl if ttl is None else "long" if ttl == "12h" else "short"
    if options.get("comparison_response_id") is not None:
        losses.drop(Rule.PROMPT_CACHE_OPTIONS, (*at, "comparison_response_id"))
    return cache


def _state(wire: Wire, losses: LossReport) -> State:
    store = flag(wire, "store", ())
    if store:
        losses.approx(Rule.STORE, ("store",))
    truncation = one_of(wire, "truncation", TRUNCATIONS, ())
    if truncation == "auto":
        losses.drop(Rule.TRUNCATION, ("truncation",))
    include = texts(wire, "include", ()) or []
    for index, wanted in enumerate(include):
        if wanted not in SERVED:
            losses.drop(Rule.INCLUDE, ("include", index))
    return State(store, background=flag(wire, "background", ()), truncation=truncation, include=include)


def _identity(wire: Wire, losses: LossReport) -> Identity:
    safety_identifier, user = text(wire, "safety_identifier", ()), text(wire, "user", ())
    if safety_identifier is not None and user is not None:
        losses.drop(Rule.USER, ("user",))
    return Identity(
        safety_identifier if safety_identifier is not None else user,
        ("safety_identifier",) if safety_identifier is not None else ("user",),
        mapping(wire, "metadata", ()),
    )


def _update(request: Request, wire: Wire, path: Path, losses: LossReport) -> None:
    """A `configuration_update` item: what it sets replaces what was set before."""
    reasoning = mapping(wire, "reasoning", path)
    if reasoning is not None:
        effort = _reasoning(reasoning, (*path, "reasoning"), losses)
        if effort.effort is not None:
            request.reasoning.effort, request.reasoning.at = effort.effort, effort.at
    settings = mapping(wire, "text", path)
    if settings is not None:
        report_unknown(settings, frozenset({"format"}), (*path, "text"), losses)
        if settings.get("format") is not None:
            request.output.format = _format(settings, (*path, "text"), losses)
