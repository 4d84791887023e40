"""What of an answer the client's protocol has no place for (mapping.md 4.7, 5.5, 8.5).

Noted here once for all writers, which only write. Nothing is refused: the answer has been paid for.
"""

from proxy.canonical.events import Cite, Close, Event, Open
from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call, Citation, Extra, HostedCall, Opaque, Reasoning, ReplyPart, Text
from proxy.canonical.reply import Reply
from proxy.protocols.arguments import decoded
from proxy.translation.codecs import ClientProtocol

_STATE = ("signature", "data", "encrypted_content")  # what makes a vendor's own reasoning worth sending back
_AT: Path = ("reply",)


def note_event(event: Event, client: ClientProtocol, losses: LossReport) -> None:
    """Record what this event of a stream loses."""
    match event:
        case Open():
            _note_part(event.part, client, losses)
        case Close():
            _note_state(event.native, client, losses)
        case Cite():
            _note_citation(event.citation, client, losses)
        case _:
            pass


def note_reply(reply: Reply, client: ClientProtocol, losses: LossReport) -> None:
    """Record what a whole reply loses."""
    for part in reply.parts:
        _note_part(part, client, losses)
        if isinstance(part, Text):
            for citation in part.citations or ():
                _note_citation(citation, client, losses)
        elif isinstance(part, Call) and client == "messages":
            note_arguments(part, part.arguments, losses)


def note_arguments(call: Call, arguments: str, losses: LossReport) -> None:
    """Record whole arguments that are no object, as Messages wants them. Only a whole reply wraps them: a stream has
    passed them on by the time that it shows.
    """
    if call.kind == "custom":
        return
    text = decoded(arguments)
    try:
        if text and type(loads(text)) is not dict:
            losses.approx(Rule.BAD_ARGS, _AT)
    except NotJson:
        losses.approx(Rule.BAD_ARGS, _AT)


def _note_part(part: ReplyPart, client: ClientProtocol, losses: LossReport) -> None:
    match part:
        case Reasoning():
            if client == "completions" and not part.redacted:
                losses.drop(Rule.REASONING, _AT)
            _note_state(part.native, client, losses)
        case HostedCall() if not part.shown:
            losses.drop(Rule.HOSTED_TOOL, _AT)
        case Opaque():
            losses.drop(Rule.COMPACTION if part.type == "compaction" else Rule.UNKNOWN_FIELD, _AT)
        case Text() if part.phase is not None:
            losses.approx(Rule.PHASE, _AT)
        case _:
            pass


def _note_state(native: Extra | None, client: ClientProtocol, losses: LossReport) -> None:
    """Only the legacy completions have no slot for what must come back."""
    if client == "completions" and native is not None and any(native.get(name) for name in _STATE):
        losses.drop(Rule.FOREIGN_REASONING, _AT)


def _note_citation(citation: Citation, client: ClientProtocol, losses: LossReport) -> None:
    if citation.kind == "url":
        return
    if client == "messages":
        losses.drop(Rule.FILE_CITATION, _AT)
    elif client != "responses":
        losses.drop(Rule.FILE_CITATION if citation.kind == "file" else Rule.DOC_CITATION, _AT)
    elif citation.kind == "document":
        losses.approx(Rule.DOC_CITATION, _AT)  # its pages or characters have no place
