"""Write a canonical Request as a Responses request (responses.md 3, mapping.md 17.2).

The conversation travels whole: `store` is always false, so nothing on the backend refers to it, and encrypted
reasoning is asked for. `strict` is always said, since an absent one is not false.
"""

import hashlib

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Instruction, OutputFormat, Request
from proxy.canonical.target import Target
from proxy.canonical.tools import HostedTool
from proxy.protocols.fields import Wire
from proxy.protocols.responses.item_writer import instruction_item, write_items
from proxy.protocols.responses.tables import WITH_ENCRYPTED_REASONING, WITH_LOGPROBS, WITH_SOURCES
from proxy.protocols.responses.tool_writer import write_tool, write_tool_choice

MIN_OUTPUT = 16  # tokens; the API refuses less (responses.md 3)

# `service_tier` of Messages in the terms of Responses; `auto` is what absent means on both sides (mapping.md 11.3).
END_USER_LENGTH = 64  # characters of `safety_identifier` (responses.md 3)
TIER_OF_MESSAGES = {"standard_only": "default"}


def write_request(request: Request, target: Target, losses: LossReport) -> Wire:
    """The body for the backend. Raises `Rejected` for what must be refused; `request` is prepared for `target`."""
    body: Wire = {"model": target.model}
    _write_conversation(body, request, target, losses)
    if request.tools:
        body["tools"] = [write_tool(tool, losses) for tool in request.tools]
        _write_tool_policy(body, request, losses)
    _write_sampling(body, request, target)
    _write_reasoning(body, request, target)
    _write_output(body, request)
    _write_limits(body, request, losses)
    _write_cache(body, request)
    body["store"] = False
    _write_identity(body, request)
    _write_service(body, request, losses)
    if (compaction := request.compaction) is not None:
        entry: Wire = {"type": "compaction"}
        if compaction.threshold is not None:
            entry["compact_threshold"] = compaction.threshold
        body["context_management"] = [entry]
    if request.stream:
        body["stream"] = True
    return body


def _write_conversation(body: Wire, request: Request, target: Target, losses: LossReport) -> None:
    """What came as a top-level text stays one; messages keep their roles (mapping.md 2.1).

    For `json_object` the word "json" must stand in the input, where `instructions` do not count (mapping.md 9.1), and
    a string can't hold a cache mark.
    """
    top_level: list[Instruction] = []
    items: list[Wire] = []
    wants_json = request.output.format is not None and request.output.format.kind == "json_object"
    required = target.dialect.instructions_required
    as_items = wants_json or _has_marks(request.instructions)
    for instruction in request.instructions:
        if not instruction.top_level and (wants_json or not required):
            items.append(instruction_item(instruction, instruction.authority))
        elif as_items:
            items.append(instruction_item(instruction, "developer"))
        else:
            top_level.append(instruction)
    if top_level or required:
        body["instructions"] = "\n\n".join(part.text for instruction in top_level for part in instruction.parts)
    body["input"] = items + write_items(request.turns, target, losses)


def _has_marks(instructions: list[Instruction]) -> bool:
    return any(part.cache is not None for instruction in instructions for part in instruction.parts)


def _write_tool_policy(body: Wire, request: Request, losses: LossReport) -> None:
    policy = request.tool_policy
    choice = write_tool_choice(policy, losses)
    if choice is not None:
        body["tool_choice"] = choice
    if policy.parallel is not None:
        body["parallel_tool_calls"] = policy.parallel
    if policy.max_calls is not None:
        body["max_tool_calls"] = policy.max_calls


def _write_sampling(body: Wire, request: Request, target: Target) -> None:
    sampling = request.sampling
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    include: list[str] = []
    if target.profile.efforts or target.profile.unknown:  # a model that no table knows may reason
        include.append(WITH_ENCRYPTED_REASONING)
    if sampling.logprobs or sampling.top_logprobs:
        body["top_logprobs"] = sampling.top_logprobs or 0
        include.append(WITH_LOGPROBS)
    if any(isinstance(tool, HostedTool) and tool.kind == "web_search" for tool in request.tools):
        include.append(WITH_SOURCES)
    if include:
        body["include"] = include


def _write_reasoning(body: Wire, request: Request, target: Target) -> None:
    policy = request.reasoning
    reasoning: Wire = {}
    if policy.effort is not None:
        reasoning["effort"] = policy.effort
    if policy.show and target.profile.efforts and policy.effort != "none":
        reasoning["summary"] = policy.summary or "auto"
    if reasoning:
        body["reasoning"] = reasoning


def _write_output(body: Wire, request: Request) -> None:
    output = request.output
    text: Wire = {}
    if output.format is not None:
        text["format"] = _write_format(output.format)
    if output.verbosity is not None:
        text["verbosity"] = output.verbosity
    if text:
        body["text"] = text


def _write_format(given: OutputFormat) -> Wire:
    if given.kind == "json_object":
        return {"type": "json_object"}
    written: Wire = {
        "type": "json_schema",
        "name": given.name or "output",
        "schema": given.schema or {},
        "strict": given.strict is True,
    }
    if given.description is not None:
        written["description"] = given.description
    return written


def _write_limits(body: Wire, request: Request, losses: LossReport) -> None:
    limits = request.limits
    if limits.max_output is None or limits.prewarm:
        return
    if limits.max_output < MIN_OUTPUT:
        losses.approx(Rule.MIN_OUTPUT, limits.max_output_at)
    body["max_output_tokens"] = max(limits.max_output, MIN_OUTPUT)


def _write_cache(body: Wire, request: Request) -> None:
    cache = request.cache
    if cache.key is not None:
        body["prompt_cache_key"] = cache.key
    options: Wire = {}
    if cache.auto is not None:
        options["mode"] = "implicit" if cache.auto else "explicit"
    if cache.ttl is not None:
        options["ttl"] = "12h" if cache.ttl == "long" else "30m"
    if request.limits.prewarm:
        options["prewarm"] = True
    if options:
        body["prompt_cache_options"] = options


def _write_identity(body: Wire, request: Request) -> None:
    identity = request.identity
    if identity.metadata:
        body["metadata"] = identity.metadata
    if identity.end_user is not None:
        # The ids of Messages clients are long and tell the account: only their hash leaves (mapping.md 11.1). A long
        # `user` of another client has to fit too.
        user = identity.end_user
        if request.origin == "messages" or len(user) > END_USER_LENGTH:
            user = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
        body["safety_identifier"] = user


def _write_service(body: Wire, request: Request, losses: LossReport) -> None:
    tier = request.service.tier
    if request.origin == "messages":
        tier = TIER_OF_MESSAGES.get(tier or "")
        if request.service.speed == "fast":
            if tier is not None:
                losses.approx(Rule.SERVICE_TIER, ("service_tier",))
            tier = "fast"
    if tier is not None and tier != "auto":
        body["service_tier"] = tier
