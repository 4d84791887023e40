"""Errors as OpenAI writes them, in Chat Completions, Responses and the legacy completions alike.

Servers that call themselves compatible wrap errors in many ways (mapping.md 15.1, 17.1); all of them are read here.
What is written is always OpenAI's own form: another vendor's type or code never passes raw.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from proxy.canonical import jsontext
from proxy.canonical.errors import Error, ErrorClass
from proxy.protocols.fields import Wire, is_object

# Codes tell more than types, and types more than the status.
CLASS_OF_CODE: dict[str, ErrorClass] = {
    "unsupported_parameter": ErrorClass.INVALID,
    "unsupported_value": ErrorClass.INVALID,
    "unknown_parameter": ErrorClass.INVALID,
    "invalid_value": ErrorClass.INVALID,
    "invalid_prompt": ErrorClass.INVALID,
    "missing_required_parameter": ErrorClass.INVALID,
    "tool_use_failed": ErrorClass.INVALID,  # Groq
    "context_length_exceeded": ErrorClass.CONTEXT_LENGTH,
    "content_policy_violation": ErrorClass.CONTENT_POLICY,
    "content_filter": ErrorClass.CONTENT_POLICY,
    "bio_policy": ErrorClass.CONTENT_POLICY,
    "misalignment_policy_violation": ErrorClass.CONTENT_POLICY,
    "image_content_policy_violation": ErrorClass.CONTENT_POLICY,
    "invalid_api_key": ErrorClass.AUTHENTICATION,
    "insufficient_quota": ErrorClass.QUOTA,
    "credit_balance_exhausted": ErrorClass.QUOTA,
    "organization_spend_limit_exceeded": ErrorClass.QUOTA,
    "project_spend_limit_exceeded": ErrorClass.QUOTA,
    "organization_usage_limit_exceeded": ErrorClass.QUOTA,
    "model_not_found": ErrorClass.MODEL_NOT_FOUND,
    "request_too_large": ErrorClass.TOO_LARGE,
    "rate_limit_exceeded": ErrorClass.RATE_LIMIT,
    "slow_down": ErrorClass.RATE_LIMIT,
    "server_error": ErrorClass.SERVER,
    "server_is_overloaded": ErrorClass.OVERLOADED,
}

# `invalid_request_error` is not here: OpenAI gives it for a bad key and an unknown model as well.
CLASS_OF_TYPE: dict[str, ErrorClass] = {
    "authentication_error": ErrorClass.AUTHENTICATION,
    "permission_error": ErrorClass.PERMISSION,
    "not_found_error": ErrorClass.NOT_FOUND,
    "conflict_error": ErrorClass.CONFLICT,
    "request_too_large": ErrorClass.TOO_LARGE,
    "insufficient_quota": ErrorClass.QUOTA,
    "billing_error": ErrorClass.QUOTA,
    "requests": ErrorClass.RATE_LIMIT,
    "tokens": ErrorClass.RATE_LIMIT,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "server_error": ErrorClass.SERVER,
    "api_error": ErrorClass.SERVER,
    "service_unavailable_error": ErrorClass.OVERLOADED,
    "overloaded_error": ErrorClass.OVERLOADED,
    "timeout_error": ErrorClass.TIMEOUT,
}

CLASS_OF_STATUS: dict[int, ErrorClass] = {
    401: ErrorClass.AUTHENTICATION,
    402: ErrorClass.QUOTA,
    403: ErrorClass.PERMISSION,
    404: ErrorClass.NOT_FOUND,
    408: ErrorClass.TIMEOUT,
    409: ErrorClass.CONFLICT,
    413: ErrorClass.TOO_LARGE,
    429: ErrorClass.RATE_LIMIT,
    502: ErrorClass.BAD_GATEWAY,
    503: ErrorClass.OVERLOADED,
    504: ErrorClass.TIMEOUT,
    529: ErrorClass.OVERLOADED,
}

_TOO_LONG = re.compile(
    r"maximum context length|prompt is too long|exceeds the context|input is too long|context window", re.IGNORECASE
)
_UNKNOWN_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
_TRY_AGAIN = re.compile(r"try again in (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?) ?(ms|s))?", re.IGNORECASE)
_HTML = re.compile(r"\s*(?:<!doctype|<html|<head|<body)", re.IGNORECASE)
_SHOWN = 500  # characters of an answer that is neither JSON nor HTML
_QUOTED = 2000  # characters of what the model said


class Answer(NamedTuple):
    """What OpenAI's clients are told of a class."""

    status: int
    type: str
    code: str | None


ANSWERS: dict[ErrorClass, Answer] = {
    ErrorClass.INVALID: Answer(400, "invalid_request_error", None),
    ErrorClass.UNSUPPORTED: Answer(400, "invalid_request_error", "unsupported_parameter"),
    ErrorClass.CONTEXT_LENGTH: Answer(400, "invalid_request_error", "context_length_exceeded"),
    ErrorClass.CONTENT_POLICY: Answer(400, "invalid_request_error", "content_policy_violation"),
    ErrorClass.AUTHENTICATION: Answer(401, "invalid_request_error", "invalid_api_key"),
    ErrorClass.PERMISSION: Answer(403, "permission_error", None),
    ErrorClass.QUOTA: Answer(429, "insufficient_quota", "insufficient_quota"),
    ErrorClass.NOT_FOUND: Answer(404, "invalid_request_error", None),
    ErrorClass.MODEL_NOT_FOUND: Answer(404, "invalid_request_error", "model_not_found"),
    ErrorClass.CONFLICT: Answer(409, "invalid_request_error", "conflict"),
    ErrorClass.TOO_LARGE: Answer(413, "invalid_request_error", "request_too_large"),
    ErrorClass.RATE_LIMIT: Answer(429, "rate_limit_error", "rate_limit_exceeded"),
    ErrorClass.SERVER: Answer(500, "server_error", None),
    ErrorClass.INTERNAL: Answer(500, "server_error", "dragoman_internal"),
    ErrorClass.BAD_GATEWAY: Answer(502, "server_error", "dragoman_upstream_error"),
    ErrorClass.UNREACHABLE: Answer(502, "server_error", "dragoman_upstream_unreachable"),
    ErrorClass.UPSTREAM_AUTH: Answer(502, "server_error", "dragoman_upstream_auth"),
    ErrorClass.OVERLOADED: Answer(503, "service_unavailable_error", "server_is_overloaded"),
    ErrorClass.TIMEOUT: Answer(504, "server_error", "dragoman_upstream_timeout"),
}

_LIMITED_BY = frozenset({"requests", "tokens"})  # types that say which limit was hit

# Codes of Messages (`error.details.error_code`) that have an equal here.
_CODE_OF_MESSAGES = {"ramp_limit_exceeded": "slow_down"}


@dataclass(slots=True)
class _Told:
    """What an error body says, whatever its shape. `status` is an HTTP status found in the body."""

    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    quoted: str | None = None


def read_error(status: int | None, wire: object, text: str) -> Error:
    """The error in a backend's answer.

    `status` is the HTTP status (None inside a stream), `wire` the decoded body (None when it is not JSON), `text` the
    body as text, which is used only when `wire` is None.
    """
    told = _unwrap(wire) if wire is not None else None
    if told is None:
        return _not_json(status, text if wire is None else jsontext.dumps(wire).decode())
    http = status if status is not None and status >= 400 else told.status
    kind = _classify(told, http)
    return Error(
        kind,
        told.message or "The backend reported an error and gave no message.",
        code=told.code,
        param=told.param,
        http=http,
        retry_after=_retry_after(told.message) if kind is ErrorClass.RATE_LIMIT else None,
        should_retry=False if kind is ErrorClass.QUOTA else None,
        type=told.type,
        quoted=told.quoted,
    )


def write_error(error: Error, _request_id: str) -> tuple[int, dict[str, object]]:
    """The status and the body that the client gets. OpenAI's bodies hold no request id: it is in a header."""
    answer = ANSWERS[error.kind]
    kind = error.type if error.kind is ErrorClass.RATE_LIMIT and error.type in _LIMITED_BY else answer.type
    return answer.status, {
        "error": {"message": error.told, "type": kind, "param": error.param, "code": _code(error, answer)}
    }


def _code(error: Error, answer: Answer) -> str | None:
    """The error's own code, unless clients act on the code of its class and this one is not among them."""
    own = error.code
    if own is None and error.details is not None:
        told = error.details.get("error_code")
        own = told if isinstance(told, str) else None
    if own is None or own.isdigit():
        return answer.code
    own = _CODE_OF_MESSAGES.get(own, own)
    if answer.code is None or CLASS_OF_CODE.get(own) is error.kind:
        return own
    return answer.code


def _classify(told: _Told, http: int | None) -> ErrorClass:
    kind = CLASS_OF_CODE.get(told.code or "") or CLASS_OF_TYPE.get(told.type or "")
    if kind is ErrorClass.SERVER and CLASS_OF_STATUS.get(http or 0) in (ErrorClass.OVERLOADED, ErrorClass.TIMEOUT):
        # "server_error" is what is said of any failure; the status is then the one that tells.
        kind = None
    if kind is None and http is not None:
        kind = CLASS_OF_STATUS.get(http) or (ErrorClass.INVALID if http < 500 else ErrorClass.SERVER)
    if kind is None:
        kind = ErrorClass.INVALID if told.type == "invalid_request_error" else ErrorClass.SERVER
    if kind in (ErrorClass.INVALID, ErrorClass.SERVER, ErrorClass.TOO_LARGE) and _TOO_LONG.search(told.message):
        return ErrorClass.CONTEXT_LENGTH
    if kind is ErrorClass.NOT_FOUND and _UNKNOWN_MODEL.search(told.message):
        return ErrorClass.MODEL_NOT_FOUND
    return kind


def _unwrap(wire: object) -> _Told | None:
    """Find the error in a body: `{"error": …}`, `[{"error": …}]`, `{"detail": …}` or flat."""
    if type(wire) is list:
        wire = wire[0] if wire else None
    if type(wire) is str:
        return _Told(wire)
    if not is_object(wire):
        return None
    error = wire.get("error")
    if is_object(error):
        return _read_object(error)
    if isinstance(error, str) and error:
        return _read_object({**wire, "message": error})
    detail = wire.get("detail")
    if is_object(detail):
        return _read_object(detail)
    if isinstance(detail, str):
        return _read_object({**wire, "message": detail})
    if isinstance(detail, list):
        return _Told("; ".join(_complaint(entry) for entry in detail))
    if isinstance(wire.get("message"), str):
        return _read_object(wire)
    return None


def _complaint(entry: object) -> str:
    """One entry of FastAPI's list: `{"loc": ["body", "messages"], "msg": "field required"}`."""
    if not is_object(entry):
        return _as_text(entry) or ""
    where = entry.get("loc")
    what = _as_text(entry.get("msg")) or ""
    return f"{'.'.join(str(step) for step in where)}: {what}" if isinstance(where, list) else what


def _read_object(error: Wire) -> _Told:
    code = error.get("code")
    text = _as_text(code)
    number = int(text) if text is not None and text.isdecimal() and len(text) == 3 else None
    return _Told(
        _as_text(error.get("message")) or "",
        type=_as_text(error.get("type")),
        code=text,
        param=_as_text(error.get("param")),
        status=number if number is not None and 400 <= number <= 599 else None,
        quoted=(_as_text(error.get("failed_generation")) or "")[:_QUOTED] or None,  # Groq, of a call that failed
    )


def _as_text(value: object) -> str | None:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else jsontext.dumps(value).decode()


def _not_json(status: int | None, text: str) -> Error:
    """The error of an answer without a readable body; a proxy's HTML page is never shown."""
    shown = text.strip()[:_SHOWN]
    if not shown:
        message = "The backend's answer was empty."
    elif _HTML.match(text):
        message = "The backend gave a non-JSON answer."
    else:
        message = f"The backend gave an answer that can't be read: {shown}"
    if status is None or status < 400:
        return Error(ErrorClass.BAD_GATEWAY, message, http=status)
    kind = _classify(_Told(message), status)
    return Error(kind, f"{message} (HTTP {status})", http=status)


def _retry_after(message: str) -> float | None:
    """Seconds, from "try again in 1.2s", "… 120ms" or "… 6m0s"."""
    found = _TRY_AGAIN.search(message)
    if found is None or not (found[1] or found[2]):
        return None
    seconds = float(found[1] or 0) * 60
    if found[2]:
        seconds += float(found[2]) / 1000 if found[3].lower() == "ms" else float(found[2])
    return seconds
