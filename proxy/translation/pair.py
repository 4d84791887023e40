"""One exchange between a client's protocol and a backend's, without any I/O: what the server holds.

`peek` reads what routing needs, `prepare` makes the backend's request and the way back (`prepared.py`). Within one
protocol everything passes through (mapping.md P1).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.jsontext import NotJson, dumps, loads
from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.reply import ReplyContext
from proxy.canonical.request import Request
from proxy.canonical.target import Target
from proxy.protocols.fields import flag, invalid, need_text
from proxy.translation import estimate
from proxy.translation import prepare as preparing
from proxy.translation.asked_usage import asking_for_usage
from proxy.translation.codecs import BACKENDS, CLIENTS, BackendProtocol, ClientProtocol, Wire
from proxy.translation.envelope import NO_SCOPE, Scope
from proxy.translation.passed_body import for_messages, renamed, with_members, without_envelopes
from proxy.translation.prepared import Prepared
from proxy.translation.recall import Recall

_ASKING = "stream_options"  # the field that asks for usage
_LONGEST_MODEL = 2048  # characters, Bedrock's own rule; what is learnt of models is kept by their names
_TOO_DEEP = "The request body is nested too deeply."
PEOPLE_SAY = {"chat": "Chat Completions", "responses": "Responses", "messages": "Messages"}


@dataclass(slots=True)
class Peek:
    """What is known of a request before its target is."""

    client: ClientProtocol
    raw: bytes
    wire: Wire
    model: str
    stream: bool


@dataclass(slots=True)
class Options:
    """What the exchange's policy says. `refused`: rules that are refused by name. `response_model`: `alias` shows the
    client the name that it asked for. `always_stream`: the backend is asked to stream, whatever the client wants.
    `scope`: whose envelopes carry the backend's reasoning. `remembered`: finds reasoning that a Chat client dropped.
    `refused_fields`: what the backend is known not to take. `count_usage`: what is used must be known, told or not.
    """

    request_id: str = ""
    strict: bool = False
    refused: frozenset[Rule] = frozenset()
    response_model: str = "upstream"
    native_finish_reason: bool = False
    responses_done: bool = False
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    always_stream: bool = False
    scope: Scope = NO_SCOPE
    remembered: Recall | None = None
    refused_fields: frozenset[str] = frozenset()
    count_usage: bool = False


def peek(client: ClientProtocol, raw: bytes, default_model: str | None = None) -> Peek:
    """Parse the body as far as routing needs it. `default_model`: of one that names none. Raises `Rejected`, class
    INVALID."""
    try:
        parsed = loads(raw)
    except NotJson as problem:
        raise Rejected(_malformed(f"The request body is not valid JSON: {problem}")) from None
    if type(parsed) is not dict:
        raise Rejected(_malformed("The request body must be a JSON object."))
    wire: Wire = parsed
    if default_model is not None and wire.get("model") is None:
        raw = with_members(raw, {"model": default_model})
        wire["model"] = default_model
    model = need_text(wire, "model", ())
    if not model:
        invalid(("model",), "must not be empty.")
    if len(model) > _LONGEST_MODEL:
        invalid(("model",), f"must be at most {_LONGEST_MODEL} characters long.")
    return Peek(client, raw, wire, model, flag(wire, "stream", ()) is True)


def _malformed(message: str) -> Error:
    return Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED)


def prepare(seen: Peek, target: Target, options: Options) -> Prepared:
    """The backend's request. Raises `Rejected`: a malformed field, or a loss that must be refused."""
    losses = LossReport(PEOPLE_SAY[target.protocol], options.strict, options.refused)
    override = seen.model if options.response_model == "alias" else None
    if seen.client == target.protocol:
        context = ReplyContext(options.request_id, seen.model, model_override=override)
        context.responses_done = options.responses_done
        try:
            body = without_envelopes(seen.raw, losses, as_text=target.foreign_reasoning == "text")
            if seen.client == "messages":
                body = for_messages(body, seen.wire.get("system"), target.dialect, losses)
            body = renamed(body, seen.model, target.model)
            asking = body
            if seen.client == "chat" and seen.stream and options.count_usage and _ASKING not in options.refused_fields:
                asking = asking_for_usage(body, seen.wire, target.dialect)
        except Rejected as rejected:
            rejected.losses = losses.losses
            raise
        except (NotJson, RecursionError):
            raise Rejected(_malformed(_TOO_DEEP)) from None
        hides_usage = asking is not body
        return Prepared(
            seen.client,
            target,
            asking,
            seen.stream,
            seen.stream,
            context,
            losses,
            count_usage=options.count_usage,
            hides_usage=hides_usage,
        )
    try:
        request = preparing.read(seen.client, seen.wire, seen.raw, losses)
        stream = request.stream
        written = preparing.write(
            request,
            seen.client,
            target,
            losses,
            request_id=options.request_id,
            always_stream=options.always_stream,
            scope=options.scope,
            remembered=options.remembered,
            refused_fields=options.refused_fields,
        )
    except Rejected as rejected:
        rejected.losses = losses.losses
        raise
    except RecursionError:
        raise Rejected(_malformed(_TOO_DEEP)) from None
    written.context.model_override = override
    written.context.native_finish_reason = options.native_finish_reason
    written.context.responses_done = options.responses_done
    written.context.reasoning_field = options.reasoning_field
    if seen.client != "messages":
        written.context.estimate_prompt = partial(_estimate, target.protocol, written.body)
    elif not seen.stream:  # few backends do not tell, with a whole reply
        written.context.estimate_prompt = partial(_estimate, seen.client, seen.raw)
    return Prepared(
        seen.client,
        target,
        written.body,
        stream,
        written.stream,
        written.context,
        losses,
        written.spelling,
        written.prewarm,
        options.scope,
        written.emulation,
        written.betas,
        written.choices,
        count_usage=options.count_usage,
    )


def _estimate(client: ClientProtocol, raw: bytes) -> int:
    """Tokens of the prompt of a request that has been let go, or of what became of it."""
    return estimate.tokens(read_request(peek(client, raw)))


def wants_responses(rejected: Rejected) -> bool:
    """Whether the model would do what was refused on Responses (mapping.md 8.4, "Endpoint choice")."""
    return any(loss.rule is Rule.REASONING and loss.level == "refuse" for loss in rejected.losses)


def read_request(seen: Peek) -> Request:
    """The canonical request alone, for counting. Raises `Rejected`."""
    return preparing.read(seen.client, seen.wire, seen.raw, LossReport())


def read_backend_error(backend: BackendProtocol, status: int, body: bytes) -> Error:
    """What a backend's error answer says, whatever its shape."""
    try:
        wire = loads(body) if body.strip() else None
    except NotJson:
        wire = None
    return BACKENDS[backend].read_error(status, wire, body.decode("utf-8", "replace"))


def write_client_error(client: ClientProtocol, error: Error, request_id: str) -> tuple[int, bytes]:
    """(status, body) of an error in the client's protocol."""
    status, wire = CLIENTS[client].write_error(error, request_id)
    return status, dumps(wire)
