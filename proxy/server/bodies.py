"""The body of a client's request: read within its limits, decoded, never trusted."""

import re
from time import perf_counter

from aiohttp.web import BaseRequest, RequestPayloadError

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.server.exchange import Exchange
from proxy.upstream.decoding import SUPPORTED, BrokenEncoding, TooLarge, UnknownEncoding, decode_whole

# `octet-stream` says nothing: libraries call bytes so that nobody has named.
_SLOWEST = 4 * 1024  # bytes a second that a body has to come with, once it takes longer than a pause may
_JSON = re.compile(r"(?:application|text)/(?:[\w.!#$&^-]+\+)?json|application/octet-stream", re.IGNORECASE)


async def read_json(exchange: Exchange) -> bytes:
    """As `read_body`, of a request that must be JSON; it may keep silent about that, but not say otherwise."""
    given = exchange.request.headers.get("Content-Type", "").partition(";")[0].strip()
    if given and not _JSON.fullmatch(given):
        raise Rejected(_malformed(f"content-type: expected application/json, got {given[:100]!r}."))
    return await read_body(exchange)


async def read_body(exchange: Exchange) -> bytes:
    """The whole body. Raises `Rejected` when it is too large, broken, or compressed in an unknown way."""
    limit = exchange.body_limit
    request = exchange.request
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    if "Expect" in request.headers:
        await invite(request)
    body = await _read(exchange, limit)
    exchange.bytes_in = len(body)
    if encoding := request.headers.get("Content-Encoding"):
        return _decode(encoding, body, limit)
    return body


async def invite(request: BaseRequest) -> None:
    """Tell a client that waits for it to send its body."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _read(exchange: Exchange, limit: int) -> bytes:
    content, limit_of_pause = exchange.request.content, exchange.gateway.body_limit
    began = perf_counter()
    chunks: list[bytes] = []
    size = 0
    try:
        while not content.at_eof():
            if not content.is_eof():
                exchange.watch.wait(limit_of_pause)
            asked = perf_counter()
            chunk = await content.readany()
            exchange.times.client += perf_counter() - asked
            size += len(chunk)
            if perf_counter() - began > limit_of_pause.seconds + size / _SLOWEST:
                raise Rejected(_malformed(f"The request's body came with less than {_SLOWEST} bytes a second."))
            if size > limit:
                raise too_large(limit)
            chunks.append(chunk)
    except RequestPayloadError as error:
        raise Rejected(_malformed("The request's body is not valid HTTP.")) from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _decode(encoding: str, body: bytes, limit: int) -> bytes:
    """The codes are those that Messages has for it (messages.md 16.3)."""
    try:
        return decode_whole(encoding, body, limit)
    except UnknownEncoding as error:
        message = f"The request's {error}."
        raise Rejected(_malformed(message, "request_body_encoding_unsupported")) from error
    except BrokenEncoding as error:
        message = f"The request's body is not what its content-encoding says; {SUPPORTED} are read."
        raise Rejected(_malformed(message, "request_body_encoding_invalid")) from error
    except TooLarge as error:
        raise too_large(limit, "request_body_too_large_after_decoding") from error


def _malformed(message: str, code: str | None = None) -> Error:
    details: dict[str, object] | None = {"error_code": code} if code else None
    return Error(ErrorClass.INVALID, message, reason=Reason.MALFORMED, details=details)


def too_large(limit: int, code: str | None = None) -> Rejected:
    """The error of a body of more than `limit` bytes."""
    message = f"The request's body is larger than {limit} bytes."
    details: dict[str, object] | None = {"error_code": code} if code else None
    return Rejected(Error(ErrorClass.TOO_LARGE, message, reason=Reason.BODY_TOO_LARGE, details=details))
