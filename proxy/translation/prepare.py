"""A client's request made ready for one target: read, arranged, fitted, re-spelled, written.

The order of the steps matters: parts are flattened before results are paired, so that a result that the proxy
makes up is not marked as the tool's error; names are spelled last, so that every rule before sees the client's names.
"""

from dataclasses import dataclass
from functools import partial

from proxy.canonical.errors import InexactNumber
from proxy.canonical.jsontext import dumps, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Document, HostedCall, Image, Reasoning, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.request import Request
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Target
from proxy.canonical.tools import CustomTool, FunctionTool, HostedTool
from proxy.protocols.fields import as_object
from proxy.translation import estimate, ids, tool_names
from proxy.translation.arrange import arrange, drop_billing_header
from proxy.translation.caching import can_prewarm, fit_cache
from proxy.translation.codecs import BACKENDS, CLIENTS, ClientProtocol, Wire
from proxy.translation.custom_tools import patterns_of
from proxy.translation.directives import put_back
from proxy.translation.emulation import Emulation
from proxy.translation.envelope import NO_SCOPE, Scope
from proxy.translation.error_fields import client_name
from proxy.translation.fit import fit
from proxy.translation.fit_service import fit_service
from proxy.translation.flatten import flatten, flatten_documents, may_need_flattening, move_assistant_images
from proxy.translation.participants import fit_names
from proxy.translation.phases import restore_phases
from proxy.translation.plain_schemas import fit_schemas
from proxy.translation.recall import Recall, recall
from proxy.translation.refused_fields import leave_out
from proxy.translation.returning import open_carriers
from proxy.translation.stop_strings import take_over
from proxy.translation.structured import fit_format
from proxy.translation.survey import survey
from proxy.translation.tools import fit_tools, loaded_names

# Anthropic's SDKs refuse to wait for a whole answer above this many tokens, because of a 10-minute bound
# (messages.md 17.1); toward such a backend the answer is streamed and put together here.
WHOLE_REPLY_LIMIT = 21_333


@dataclass(slots=True)
class Written:
    """A request as the backend gets it, and what the way back needs. `stream`: the backend is asked to stream;
    `prewarm`: it need not be asked at all, since it can't just fill its cache. `betas`: names of features that the
    backend must be told of in a header. `choices`: how many answers to it the client wants.
    """

    body: bytes
    stream: bool
    context: ReplyContext
    spelling: Spelling
    prewarm: bool
    emulation: Emulation
    betas: tuple[str, ...] = ()
    choices: int = 1


def read(client: ClientProtocol, wire: Wire, raw: bytes, losses: LossReport) -> Request:
    """The canonical request. Raises `Rejected` that names the field."""
    codec = CLIENTS[client]
    kept = len(losses.losses)
    try:
        return codec.read_request(wire, losses)
    except InexactNumber:
        del losses.losses[kept:]
        return codec.read_request(as_object(loads_exact(raw), ()), losses, exact=True)


def write(
    request: Request,
    client: ClientProtocol,
    target: Target,
    losses: LossReport,
    *,
    request_id: str = "",
    always_stream: bool = False,
    scope: Scope = NO_SCOPE,
    remembered: Recall | None = None,
    refused_fields: frozenset[str] = frozenset(),
) -> Written:
    """The request in the backend's protocol. Consumes `request`. Raises `Rejected` where a rule is to refuse."""
    context = _context(request, request_id)
    tally = estimate.Tally(request) if client == "messages" and request.stream else None
    emulation = Emulation()
    if remembered is not None and client == "chat":
        recall(request, remembered)
    request.tag_key = scope.keys[0] if scope.keys else None
    choices = request.sampling.n or 1
    spelling = prepare(request, client, target, losses, scope, emulation)
    spelling.mint = ids.minting(request_id)
    limit = request.limits.max_output or 0
    always_stream = always_stream or target.dialect.stream_only
    request.stream = request.stream or always_stream or (target.protocol == "messages" and limit > WHOLE_REPLY_LIMIT)
    prewarm = False
    if request.limits.prewarm:
        request.stream = False  # Messages refuses to stream nothing
        context.prewarmed = can_prewarm(target)
        prewarm = not context.prewarmed
        if prewarm:
            losses.approx(Rule.PREWARM, request.limits.prewarm_at)
    codec = BACKENDS[target.protocol]
    wire = codec.write_request(request, target, losses)
    if refused := target.dialect.no_fields | refused_fields:
        said = partial(client_name, backend=target.protocol, client=client, limit=context.limit_field)
        leave_out(target.protocol, wire, sorted(refused), losses, said)
    body = dumps(wire)
    if tally is not None:  # `message_start` leaves before most backends tell
        counted = tally.tokens()
        context.estimate_prompt = lambda: counted
    return Written(body, request.stream, context, spelling, prewarm, emulation, codec.betas(wire), choices)


def prepare(
    request: Request, client: ClientProtocol, target: Target, losses: LossReport, scope: Scope, emulation: Emulation
) -> Spelling:
    """Everything between reading and writing, in place; gives the way back for names and ids, and what the proxy has
    to do itself."""
    held = survey(request)
    if Reasoning in held.parts or HostedCall in held.parts:  # nothing else holds a carrier
        open_carriers(request, target, scope, losses)
        put_back(request)
        held = survey(request)
    if target.dialect.family != "anthropic":
        drop_billing_header(request)
    if request.origin == "chat":
        fit_names(request, target, losses)
    if Image in held.parts or Document in held.parts:
        move_assistant_images(request, losses)
    loaded = loaded_names(request, held)
    if target.protocol != "messages":
        if may_need_flattening(held):
            flatten(request, target, losses)
    elif not target.dialect.file_parts and (Document in held.parts or Document in held.in_results):
        flatten_documents(request, losses)
    backend_ids = ids.BackendIds(target)
    arrange(request, backend_ids, losses)
    if target.protocol == "responses" and target.profile.phases:
        restore_phases(request.turns)
    forced = request.tool_policy.mode in ("any", "named")
    fit_tools(request, target, held, loaded, losses)
    if forced and request.tool_policy.mode == "auto" and isinstance(said := request.turns[-1].parts[-1], Text):
        emulation.directive = said.text
    emulation.hosts = HostedTool in set(map(type, request.tools))
    emulation.pauses = target.protocol == "messages" and emulation.hosts
    fit_format(request, target, emulation, losses)
    emulation.stops = take_over(request, target, losses)
    emulation.cuts = bool(emulation.stops) and target.stop_match == "cancel"
    fit(request, target, losses)
    fit_service(request, target, losses)
    fit_schemas(request, target, losses)
    fit_cache(request, target, held, losses)
    wraps_custom = CustomTool in held.tools and any(
        type(tool) is FunctionTool and tool.stands_for_custom for tool in request.tools
    )
    if wraps_custom and target.validate_output != "off":
        emulation.patterns = patterns_of(request)
    names = tool_names.respell(request, target)
    return Spelling(
        names,
        ids.for_client(client),
        ids.mint,
        backend_ids.spelled,
        wraps_custom=wraps_custom,
        declared=frozenset([tool.name for tool in request.tools if type(tool) is not HostedTool]),
        one_call=request.tool_policy.only_first or request.legacy_functions,
    )


def _context(request: Request, request_id: str) -> ReplyContext:
    return ReplyContext(
        request_id=request_id,
        model=request.model,
        include_usage=request.include_usage,
        legacy_functions=request.legacy_functions,
        show_reasoning=request.reasoning.show,
        summary_requested=request.reasoning.summary is not None,
        echo=request.echo or {},
        limit_field=str(request.limits.max_output_at[0]) if request.limits.max_output_at else None,
    )
