"""Read a Messages request into the canonical one.

It runs only when the backend speaks another protocol, so fields that nothing but a Messages backend could use are
recorded here. The tool list that comes out is the one in force at the end of the conversation.
"""

from typing import get_args

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Extra, Opaque, Part, Text, Turn
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
)
from proxy.canonical.tools import HostedTool, Tool, TypedTool
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
from proxy.protocols.messages.block_reader import (
    ASSISTANT_BLOCKS,
    SYSTEM_BLOCKS,
    SYSTEM_MESSAGE_BLOCKS,
    USER_BLOCKS,
    BlockReader,
    BlockTable,
    read_mark,
)
from proxy.protocols.messages.tables import COMPACT, EFFORTS
from proxy.protocols.messages.tool_reader import change_tools, read_tool_choice, read_tools

# Every field of the body (messages.md 6), with those that Bedrock and Google Cloud put there instead of a header.
_FIELDS = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "output_format",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "metadata",
        "cache_control",
        "service_tier",
        "speed",
        "inference_geo",
        "container",
        "diagnostics",
        "mcp_servers",
        "context_management",
        "compaction",
        "thread",
        "fallbacks",
        "fallback_credit_token",
        "billing_policy",
        "user_profile_id",
        "anthropic_version",
        "anthropic_beta",
        "betas",
    }
)


def read_request(wire: object, losses: LossReport, *, exact: bool = False) -> Request:
    """The canonical request. Raises `Rejected` where the body is wrong or can't be carried, naming the field.

    Raises `InexactNumber` when an argument of a call may have been rounded by the decoder; the caller then decodes
    the body with exact integers and says so by `exact`.
    """
    body = as_object(wire, ("body",))
    if not body.keys() <= _FIELDS:
        report_unknown(body, _FIELDS, (), losses)
    _refuse_unportable(body, losses)
    declared = read_tools(body, losses)
    request = Request("messages", need_text(body, "model", ()))
    request.limits = _limits(body)
    request.instructions = _system(body, losses)
    request.tools = list(declared)
    request.tool_policy = read_tool_choice(body, declared, losses)
    request.reasoning = _reasoning(body, losses)
    request.output = Output(format=_format(body, losses))
    request.sampling = Sampling(
        temperature=number(body, "temperature", ()),
        top_p=number(body, "top_p", ()),
        top_k=whole(body, "top_k", ()),
    )
    request.stream = flag(body, "stream", ()) or False
    request.identity = _identity(body, losses)
    request.cache = _cache(body, losses)
    request.service = Service(
        tier=one_of(body, "service_tier", frozenset({"auto", "standard_only"}), ()),
        speed=one_of(body, "speed", frozenset({"standard", "fast"}), ()),
        geo=text(body, "inference_geo", ()),
    )
    _read_messages(body, request, declared, BlockReader(losses, exact, _typed(declared)))
    request.extra = _mcp_servers(body, request.tools, losses)
    request.compaction = _read_edits(body, losses)
    _record_dropped(body, losses)
    return request


# --- fields that only a Messages backend could honour (mapping.md 11.1) ---

_REFUSED: tuple[tuple[str, Rule, str], ...] = (
    ("container", Rule.CONTAINER, "containers belong to the vendor that made them."),
    ("compaction", Rule.COMPACTION, "the backend can't write a compaction block."),
)
_COMPACT_FIELDS = frozenset({"type", "trigger", "instructions", "pause_after_compaction"})
_DROPPED: tuple[tuple[str, Rule], ...] = (
    ("diagnostics", Rule.DIAGNOSTICS),
    ("fallbacks", Rule.FALLBACKS),
    ("fallback_credit_token", Rule.FALLBACK_CREDIT_TOKEN),
    ("billing_policy", Rule.BILLING_POLICY),
    ("user_profile_id", Rule.USER_PROFILE),
)


def _refuse_unportable(body: Wire, losses: LossReport) -> None:
    if body.get("thread") is not None:
        try:
            losses.refuse(Rule.THREAD, ("thread",), "send the whole conversation without it.")
        except Rejected as rejected:
            # The vendor's tool runners look for this and then resend everything (mapping.md 11.2).
            rejected.error.details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
            raise
    for name, rule, why in _REFUSED:
        if body.get(name) is not None:
            losses.refuse(rule, (name,), why)


def _record_dropped(body: Wire, losses: LossReport) -> None:
    for name, rule in _DROPPED:
        if body.get(name) is not None:
            losses.drop(rule, (name,))


def _read_edits(body: Wire, losses: LossReport) -> Compaction | None:
    """The compaction among the edits that the backend is to do; another vendor does no other."""
    found: Compaction | None = None
    management = mapping(body, "context_management", ())
    if management is None:
        return None
    path: Path = ("context_management",)
    report_unknown(management, frozenset({"edits"}), path, losses)
    for index, entry in enumerate(array(management, "edits", path) or ()):
        edit_path = (*path, "edits", index)
        edit = as_object(entry, edit_path)
        edit_type = need_text(edit, "type", edit_path)
        if edit_type == COMPACT and found is None:
            found = _read_compaction(edit, edit_path, losses)
        else:
            losses.drop(Rule.COMPACTION if edit_type.startswith("compact_") else Rule.CONTEXT_MANAGEMENT, edit_path)
    return found


def _read_compaction(edit: Wire, path: Path, losses: LossReport) -> Compaction:
    report_unknown(edit, _COMPACT_FIELDS, path, losses)
    trigger = mapping(edit, "trigger", path)
    threshold: int | None = None
    if trigger is not None:
        at = (*path, "trigger")
        one_of(trigger, "type", frozenset({"input_tokens"}), at)
        report_unknown(trigger, frozenset({"type", "value"}), at, losses)
        threshold = whole(trigger, "value", at)
    return Compaction(threshold, text(edit, "instructions", path), flag(edit, "pause_after_compaction", path), path)


def _mcp_servers(body: Wire, tools: list[Tool], losses: LossReport) -> Extra | None:
    """The servers go with the toolsets that name them; without one, the old header offers all their tools."""
    servers = array(body, "mcp_servers", ())
    if not servers:
        return None
    if not any(isinstance(tool, HostedTool) and tool.kind == "mcp" for tool in tools):
        losses.refuse(Rule.MCP_SERVERS, ("mcp_servers",), "the backend has no hosted tool 'mcp'.")
    return {"mcp_servers": servers}


# --- settings ---


def _limits(body: Wire) -> Limits:
    limit = whole(body, "max_tokens", ())
    if limit is None:
        invalid(("max_tokens",), "this field is required.", code="missing_required_parameter")
    if limit < 0:
        invalid(("max_tokens",), "expected at least 0.")
    return Limits(
        max_output=limit,
        max_output_at=("max_tokens",),
        stop=texts(body, "stop_sequences", ()) or [],
        stop_at=("stop_sequences",),
        prewarm=limit == 0,
        prewarm_at=("max_tokens",) if limit == 0 else (),
    )


def _system(body: Wire, losses: LossReport) -> list[Instruction]:
    system = body.get("system")
    if system is None:
        return []
    path: Path = ("system",)
    parts = _texts(BlockReader(losses).parts(system, path, SYSTEM_BLOCKS), path, losses)
    return [Instruction(parts, top_level=True, at=path)] if parts else []


def _texts(parts: list[Part], path: Path, losses: LossReport) -> list[Text]:
    """The text of a system prompt, which has no citations whatever it says (mapping.md 2.1)."""
    found: list[Text] = []
    for part in parts:
        if isinstance(part, Text):
            if part.citations:
                losses.drop(Rule.CITATIONS, path)
                part.citations = None
            found.append(part)
    return found


_THINKING_FIELDS = frozenset({"type", "budget_tokens", "display", "block_binding"})
_THINKING_TYPES = frozenset({"enabled", "disabled", "adaptive", "between_tools"})
_DISPLAYS = frozenset({"summarized", "omitted", "updates"})
_OUTPUT_FIELDS = frozenset({"effort", "format", "task_budget"})


def _reasoning(body: Wire, losses: LossReport) -> ReasoningPolicy:
    policy = ReasoningPolicy()
    output = mapping(body, "output_config", ())
    if output is not None:
        report_unknown(output, _OUTPUT_FIELDS, ("output_config",), losses)
        if output.get("task_budget") is not None:
            losses.drop(Rule.TASK_BUDGET, ("output_config", "task_budget"))
        policy.effort = _effort(output, ("output_config",))
        policy.at = ("output_config", "effort")
    thinking = mapping(body, "thinking", ())
    if thinking is None:
        return policy
    path = policy.at = ("thinking",)
    report_unknown(thinking, _THINKING_FIELDS, path, losses)
    if thinking.get("block_binding") is not None:
        losses.drop(Rule.THINKING, (*path, "block_binding"))
    display = one_of(thinking, "display", _DISPLAYS, path)
    if display == "updates":  # notes between the calls alone, which no other vendor tells from its reasoning
        losses.approx(Rule.THINKING, (*path, "display"))
    policy.show = None if display is None else display != "omitted"
    match one_of(thinking, "type", _THINKING_TYPES, path):
        case "enabled":
            policy.mode = "budget"
            policy.budget = _budget(thinking, body, losses)
        case "disabled":
            policy.mode = "off"
        case "adaptive":
            policy.mode = "adaptive"
        case "between_tools":
            policy.mode = "between_tools"
        case _:
            invalid((*path, "type"), "this field is required.")
    return policy


def _budget(thinking: Wire, body: Wire, losses: LossReport) -> int:
    path: Path = ("thinking", "budget_tokens")
    budget = whole(thinking, "budget_tokens", ("thinking",))
    if budget is None:
        invalid(path, "this field is required.", code="missing_required_parameter")
    if budget < 0:
        invalid(path, "expected at least 0.")
    if budget >= (whole(body, "max_tokens", ()) or 0):
        losses.approx(Rule.THINKING, path)  # an error at the vendor; elsewhere only its size counts (mapping.md 8.3)
    return budget


def _effort(output: Wire, path: Path) -> Effort | None:
    given = one_of(output, "effort", EFFORTS, path)
    return next((effort for effort in get_args(Effort) if effort == given), None)


def _format(body: Wire, losses: LossReport) -> OutputFormat | None:
    output = mapping(body, "output_config", ())
    path: Path = ("output_config", "format")
    wire = mapping(output, "format", ("output_config",)) if output is not None else None
    if wire is None:
        path = ("output_format",)  # where the beta had it
        wire = mapping(body, "output_format", ())
    if wire is None:
        return None
    report_unknown(wire, frozenset({"type", "schema"}), path, losses)
    if one_of(wire, "type", frozenset({"json_schema"}), path) is None:
        invalid((*path, "type"), "this field is required.")
    schema = mapping(wire, "schema", path)
    if schema is None:
        invalid((*path, "schema"), "this field is required.")
    return OutputFormat("json_schema", schema, strict=True, at=path)


def _identity(body: Wire, losses: LossReport) -> Identity:
    path: Path = ("metadata",)
    metadata = mapping(body, "metadata", ())
    if metadata is None:
        return Identity()
    report_unknown(metadata, frozenset({"user_id"}), path, losses)
    return Identity(end_user=text(metadata, "user_id", path), end_user_at=(*path, "user_id"))


def _cache(body: Wire, losses: LossReport) -> CachePolicy:
    mark = read_mark(body, (), losses)
    if mark is None:
        return CachePolicy()
    return CachePolicy(auto=True, ttl=mark.ttl, at=("cache_control",))


# --- messages ---

_MESSAGE_FIELDS = frozenset({"role", "content"})
_SYSTEM_FIELDS = _MESSAGE_FIELDS | {"clear_at", "output_config"}
_ROLES = frozenset({"user", "assistant", "system"})
_CLEAR_AT = frozenset({"never", "next_user_message"})


def _typed(tools: list[Tool]) -> dict[str, str]:
    return {tool.name: tool.kind for tool in tools if isinstance(tool, TypedTool)}


def _read_messages(body: Wire, request: Request, declared: list[Tool], reader: BlockReader) -> None:
    messages = array(body, "messages", ())
    if not messages:
        invalid(("messages",), "at least one message is required.", code="missing_required_parameter")
    turns = request.turns
    for index, message in enumerate(messages):
        path: Path = ("messages", index)
        if type(message) is not dict:
            message = as_object(message, path)
        role = message.get("role")
        if role == "user":
            turns.append(Turn("user", _content(message, path, reader, USER_BLOCKS), None, None, path))
        elif role == "assistant":
            turns.append(Turn("assistant", _content(message, path, reader, ASSISTANT_BLOCKS), None, None, path))
        elif role == "system":
            cleared = any(is_object(later) and later.get("role") == "user" for later in messages[index + 1 :])
            _system_message(message, path, request, declared, reader, cleared=cleared)
        else:
            need_text(message, "role", path)
            one_of(message, "role", _ROLES, path)


def _content(message: Wire, path: Path, reader: BlockReader, table: BlockTable) -> list[Part]:
    if len(message) > 2:
        report_unknown(message, _MESSAGE_FIELDS, path, reader.losses)
    return reader.parts(message.get("content"), (*path, "content"), table)


def _system_message(
    message: Wire, path: Path, request: Request, declared: list[Tool], reader: BlockReader, *, cleared: bool
) -> None:
    """A system message between the others, with what it alone may say (mapping.md 2.2)."""
    losses = reader.losses
    report_unknown(message, _SYSTEM_FIELDS, path, losses)
    output = mapping(message, "output_config", path)
    if output is not None:
        report_unknown(output, frozenset({"effort"}), (*path, "output_config"), losses)
        effort = _effort(output, (*path, "output_config"))
        if effort is not None:
            losses.approx(Rule.OUTPUT_CONFIG, (*path, "output_config"))
            request.reasoning.effort, request.reasoning.at = effort, (*path, "output_config", "effort")
    content = message.get("content")
    if content is None and output is not None:
        content = []  # a message that only changes the output needs none
    parts: list[Part] = []
    for part in reader.parts(content, (*path, "content"), SYSTEM_MESSAGE_BLOCKS):
        if isinstance(part, Opaque) and part.type in ("tool_addition", "tool_removal"):
            change_tools(request.tools, declared, part.native, part.at, losses)
        else:
            parts.append(part)
    if one_of(message, "clear_at", _CLEAR_AT, path) == "next_user_message":
        losses.approx(Rule.CLEAR_AT, (*path, "clear_at"))
        if cleared:
            return
    texts_left = _texts(parts, path, losses)
    if not texts_left:
        return
    if request.turns:
        request.turns.append(Turn("system", [*texts_left], at=path))
    else:
        request.instructions.append(Instruction(texts_left, at=path))
