"""What a backend's answer is, before anyone translates it: an error, a whole reply, or a stream.

The content type is not trusted: servers call JSON text, pages JSON and streams nothing at all. The first bytes of a
body tell it, since no event stream begins as JSON or a page does.
"""

import time

from proxy.canonical import jsontext
from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server import rate_limits
from proxy.server.exchange import Exchange
from proxy.server.gateway import Served
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from proxy.upstream.pool import Answer

_ERROR_BODY = 1024 * 1024  # bytes of an error answer that are read
_BLANK_LIMIT = 64 * 1024  # bytes of nothing before an answer; compressed they may be a few
_BLANK = b"\xef\xbb\xbf \t\r\n"
_WHOLE = (b"{", b"[", b"<")
_CUT = b"<html>"  # stands for a body that broke or never ended: it is no JSON either
_EVENT = (b"data:", b"event:", b"id:", b"retry:", b":")


class Passed(Exception):
    """The backend's error, in the client's own protocol already: it goes through as it is."""

    def __init__(self, error: Error, status: int, body: bytes) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status
        self.body = body


async def beginning(answer: Answer) -> bytes:
    """What a body begins with, enough to tell what it is; blank only if the whole body is. Raises `Rejected`."""
    first = await answer.readany()
    while not first.lstrip(_BLANK) and (more := await answer.readany()):
        first += more
        if len(first) > _BLANK_LIMIT and not first.lstrip(_BLANK):
            message = "The backend's answer holds nothing but blanks."
            raise Rejected(Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR))
    return first


def note_estimate(exchange: Exchange, prepared: Prepared) -> None:
    """Mark the reply of a backend that has told no usage: the client is given numbers all the same."""
    told = prepared.same_protocol or prepared.usage is not None
    shown = not prepared.stream or prepared.client in ("messages", "responses") or prepared.context.include_usage
    if not told and shown and prepared.choices == 1:
        exchange.add_header("dragoman-usage", "estimated")


def begins_whole(first: bytes) -> bool:
    """Whether a body that begins so is a whole reply (or a page) rather than events."""
    return first.lstrip(_BLANK).startswith(_WHOLE)


def begins_events(first: bytes) -> bool:
    """Whether a body that begins so can only be an event stream."""
    return first.lstrip(_BLANK).startswith(_EVENT)


async def refuse_errors(exchange: Exchange, served: Served, answer: Answer, *, same_protocol: bool) -> None:
    """Nothing if the backend answers; raises `Rejected` or `Passed` if it has refused."""
    exchange.heard(answer)
    status = answer.status
    if 200 <= status < 300:
        return
    if status < 400:
        message = f"The backend answered with status {status}, which is not followed: check its base_url."
        raise Rejected(Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR))
    body = await _error_body(answer)
    backend = served.backend
    account = exchange.account(backend)
    if status in (401, 403) and not account.of_client and (backend.holds_key or account.key is not None):
        message = f"The backend '{backend.name}' refused the proxy's own key (status {status})."
        # The next try would meet the same key.
        raise Rejected(Error(ErrorClass.UPSTREAM_AUTH, message, should_retry=False, reason=Reason.UPSTREAM_AUTH))
    error = pair.read_backend_error(backend.protocol, status, body)
    _note_retry(error, answer, "anthropic" if backend.protocol == "messages" else "openai")
    if same_protocol and (passed := _as_told(exchange, body)):
        raise Passed(error, status, passed)
    raise Rejected(error)


async def _error_body(answer: Answer) -> bytes:
    """What an error says. Its status counts, whatever becomes of the rest."""
    try:
        body = await answer.read(_ERROR_BODY)
    except Rejected:
        return _CUT
    answer.finish()
    return body


def _note_retry(error: Error, answer: Answer, family: rate_limits.Family) -> None:
    headers = answer.headers
    now = time.time()
    told = rate_limits.read_retry_after(headers, now)
    if told is None and error.http == 429 and error.kind is not ErrorClass.QUOTA:
        told = error.retry_after if error.retry_after is not None else rate_limits.reset_of(headers, family, now)
    if told is not None:
        error.retry_after = told
    should_retry = headers.get("x-should-retry", "").strip().lower()
    if should_retry in ("true", "false"):
        error.should_retry = should_retry == "true"


def _as_told(exchange: Exchange, body: bytes) -> bytes | None:
    """The backend's error body for a client of the same protocol; None when it is not one of that protocol."""
    try:
        wire = jsontext.loads(body)
    except jsontext.NotJson:
        return None
    if type(wire) is not dict or type(wire.get("error")) is not dict:
        return None
    if exchange.client == "messages":
        wire["type"] = "error"
        wire["request_id"] = exchange.id
    shown = jsontext.dumps(wire)
    if not _told_secrets(exchange):
        return shown  # the only key in there is the client's own
    scrubbed = exchange.scrub(shown.decode()).encode()
    try:
        jsontext.loads(scrubbed)
    except jsontext.NotJson:
        return None  # a key of digits stood there as a number
    return scrubbed


def _told_secrets(exchange: Exchange) -> bool:
    """Whether the backend was told anything that the client must not know."""
    served = exchange.served
    if served is None or exchange.caller is not None:
        return True
    return not exchange.account(served.backend).of_client or bool(served.backend.settings.headers)
