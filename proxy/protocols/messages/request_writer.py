"""Write a prepared canonical request as a Messages request.

Mirrors `request_reader`, field by field in the same order. Unknown fields are refused by the vendor, so nothing goes
out that is not written here; what the client set and Messages lacks is recorded at the end.
"""

from typing import assert_never

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.request import Compaction, Request
from proxy.canonical.target import Target
from proxy.protocols.fields import Wire
from proxy.protocols.messages.block_writer import marked, write_mark
from proxy.protocols.messages.hosted_tools import write_servers
from proxy.protocols.messages.tables import COMPACT, EFFORTS
from proxy.protocols.messages.tool_writer import write_tool_choice, write_tools
from proxy.protocols.messages.turn_writer import write_messages

DEFAULT_MAX_TOKENS = 8192  # where nobody knows better (mapping.md 7.1)


def write_request(request: Request, target: Target, losses: LossReport) -> Wire:
    """The body, ready for `jsontext.dumps`. Raises `Rejected` for what can't be carried."""
    limits = request.limits
    limit = limits.max_output if limits.max_output is not None else target.profile.max_output or DEFAULT_MAX_TOKENS
    body: Wire = {"model": target.model, "max_tokens": 0 if limits.prewarm else limit}
    if system := _system(request, losses):
        body["system"] = system
    body["messages"] = write_messages(request, target, losses)
    if request.tools:
        _write_tools(body, request, losses)
    thinking = _thinking(request, target)
    if thinking is not None:
        body["thinking"] = thinking
    if output := _output_config(request):
        body["output_config"] = output
    sampling = request.sampling
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if stops := [stop for stop in limits.stop if stop.strip()]:
        body["stop_sequences"] = stops
    if request.stream and not limits.prewarm:
        body["stream"] = True
    if request.cache.auto:
        body["cache_control"] = write_mark(request.cache.ttl)
    if request.identity.end_user is not None:
        body["metadata"] = {"user_id": request.identity.end_user}
    _write_service(body, request, target, losses)
    _record_dropped(request, losses)
    return body


def _compact(asked: Compaction) -> Wire:
    edit: Wire = {"type": COMPACT}
    if asked.threshold is not None:
        edit["trigger"] = {"type": "input_tokens", "value": asked.threshold}
    if asked.instructions is not None:
        edit["instructions"] = asked.instructions
    if asked.pauses is not None:
        edit["pause_after_compaction"] = asked.pauses
    return edit


def _write_tools(body: Wire, request: Request, losses: LossReport) -> None:
    body["tools"] = write_tools(request.tools, losses)
    if servers := write_servers(request.tools):
        body["mcp_servers"] = servers
    choice = write_tool_choice(request)
    if choice is not None and not (request.limits.prewarm and choice["type"] in ("any", "tool")):
        body["tool_choice"] = choice


def _system(request: Request, losses: LossReport) -> list[Wire]:
    """One block for each text of each source message, so that their bounds stay (mapping.md 2.1)."""
    blocks: list[Wire] = []
    for instruction in request.instructions:
        if instruction.authority == "developer":
            losses.approx(Rule.ROLE_DEVELOPER, instruction.at)
        blocks += (
            marked({"type": "text", "text": part.text}, part.cache) for part in instruction.parts if part.text.strip()
        )
    return blocks


def _thinking(request: Request, target: Target) -> Wire | None:
    policy = request.reasoning
    thinking: Wire
    match policy.mode:
        case None:
            return None
        case "off":
            return {"type": "disabled"}
        case "between_tools":
            return {"type": "between_tools"}
        case "adaptive":
            thinking = {"type": "adaptive"}
        case "budget":
            if request.limits.prewarm:
                return None
            thinking = {"type": "enabled", "budget_tokens": policy.budget}
        case _:
            assert_never(policy.mode)
    if policy.show is not None:  # else the model's default (mapping.md 8.2)
        thinking["display"] = "summarized" if policy.show else "omitted"
    if target.profile.bound and target.dialect.binding_controls:
        # A client may change its history; better a turn without its thinking than no answer (mapping.md 8.7).
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return thinking


def _output_config(request: Request) -> Wire:
    output: Wire = {}
    if request.reasoning.effort in EFFORTS:
        output["effort"] = request.reasoning.effort
    wanted = request.output.format
    if wanted is not None and wanted.schema is not None and not request.limits.prewarm:
        output["format"] = {"type": "json_schema", "schema": wanted.schema}
    return output


# The client's service tier -> ours, and whether the price or the queue differs (mapping.md 11.3).
_TIERS: dict[str, tuple[str, bool]] = {
    "default": ("standard_only", False),
    "flex": ("standard_only", True),
    "priority": ("auto", True),
    "scale": ("auto", True),
}


def _write_service(body: Wire, request: Request, target: Target, losses: LossReport) -> None:
    service = request.service
    tier = _service_tier(request, target, losses)
    if tier is not None:
        body["service_tier"] = tier
    if service.speed == "fast":
        body["speed"] = "fast"
    if service.geo is not None:
        body["inference_geo"] = service.geo
    if request.compaction is not None:
        body["context_management"] = {"edits": [_compact(request.compaction)]}


def _service_tier(request: Request, target: Target, losses: LossReport) -> str | None:
    tier = request.service.tier
    if tier is None or tier == "auto":
        return None
    if tier not in _TIERS or "service_tier" in target.dialect.no_fields:
        losses.drop(Rule.SERVICE_TIER, ("service_tier",))
        return None
    name, differs = _TIERS[tier]
    if differs:
        losses.approx(Rule.SERVICE_TIER, ("service_tier",))
    return name


def _record_dropped(request: Request, losses: LossReport) -> None:
    """What has no place in Messages (mapping.md 11.1)."""
    state = request.state
    if request.identity.metadata:
        losses.drop(Rule.METADATA, ("metadata",))
    refused: tuple[tuple[object, Rule, Path], ...] = (
        (state.previous_id, Rule.PREVIOUS_RESPONSE_ID, ("previous_response_id",)),
        (state.conversation, Rule.CONVERSATION, ("conversation",)),
        (state.background, Rule.BACKGROUND, ("background",)),
    )
    for value, rule, path in refused:
        if value:
            losses.refuse(rule, path, "the backend keeps no state.")
