"""`dragoman translate`: what would be sent, offline."""

from dataclasses import dataclass
from typing import Literal

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Loss, LossReport
from proxy.canonical.loss_rules import ABOUT
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol, ClientProtocol
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of

Kind = Literal["request", "reply", "stream"]
REQUEST_ID = "req_dry_run"


@dataclass(slots=True)
class DryRun:
    """`output`: what would be sent; `losses`: `rule;level path: meaning` lines; `refused`: the output is an error."""

    output: bytes
    losses: list[str]
    refused: bool = False


def run(
    kind: Kind, client: BackendProtocol, backend: BackendProtocol, text: bytes, model: str | None, dialect: Dialect
) -> DryRun:
    """Translate one document: a request on its way to the backend, a reply or a stream on its way to the client.

    `model` is the backend's name of the model, `dialect` the backend's.
    """
    if kind == "request":
        return _request(client, backend, text, model, dialect)
    streamed = kind == "stream"
    prepared = Prepared(
        client,
        Target(backend, model or "", dialect, profile_of(model or "")),
        b"",
        streamed,
        streamed,
        ReplyContext(REQUEST_ID, model or "", include_usage=True),
        LossReport(pair.PEOPLE_SAY[backend]),
        None if client == backend else Spelling(),
    )
    try:
        if streamed:
            translation = prepared.translation()
            output = translation.feed(text) + translation.end()
        else:
            output = prepared.reply(text)
    except Rejected as rejected:
        return _refusal(client, rejected, prepared.losses)
    return DryRun(output, _lines(prepared.losses))


def _request(
    client: ClientProtocol, backend: BackendProtocol, text: bytes, model: str | None, dialect: Dialect
) -> DryRun:
    try:
        seen = pair.peek(client, text)
        target = Target(backend, model or seen.model, dialect, profile_of(model or seen.model))
        prepared = pair.prepare(seen, target, pair.Options(request_id=REQUEST_ID))
    except Rejected as rejected:
        return _refusal(client, rejected, rejected.losses)
    return DryRun(prepared.body, _lines(prepared.losses))


def _refusal(client: ClientProtocol, rejected: Rejected, losses: list[Loss]) -> DryRun:
    _, body = pair.write_client_error(client, rejected.error, REQUEST_ID)
    return DryRun(body, _lines(losses), refused=True)


def _lines(losses: list[Loss]) -> list[str]:
    return [f"{loss.rule};{loss.level} {loss.path}: {ABOUT[loss.rule].text}" for loss in losses]
