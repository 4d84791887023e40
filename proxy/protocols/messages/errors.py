"""Errors, both ways (mapping.md 15.1).

A type of another vendor never leaves from here, and the class of what comes in is decided by the most telling sign:
the machine-readable code, then the type, then the status, then the words.
"""

import re

from proxy.canonical.errors import Error, ErrorClass
from proxy.protocols.fields import Wire, is_object

# --- the backend's answer ---

CLASS_OF_TYPE: dict[str, ErrorClass] = {
    "invalid_request_error": ErrorClass.INVALID,
    "authentication_error": ErrorClass.AUTHENTICATION,
    "billing_error": ErrorClass.QUOTA,
    "permission_error": ErrorClass.PERMISSION,
    "not_found_error": ErrorClass.NOT_FOUND,
    "conflict_error": ErrorClass.CONFLICT,
    "request_too_large": ErrorClass.TOO_LARGE,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "api_error": ErrorClass.SERVER,
    "timeout_error": ErrorClass.TIMEOUT,
    "overloaded_error": ErrorClass.OVERLOADED,
}

# `details.error_code` where it says more than the type (messages.md 16.3), and codes of OpenAI, which servers that
# imitate Messages put into `code`.
CLASS_OF_CODE: dict[str, ErrorClass] = {
    "contract_spend_limit_reached": ErrorClass.QUOTA,
    "enforced_spend_limit_reached": ErrorClass.QUOTA,
    "linked_organization_billing_unavailable": ErrorClass.QUOTA,
    "linked_organization_spend_limit_reached": ErrorClass.QUOTA,
    "ramp_limit_exceeded": ErrorClass.RATE_LIMIT,
    "thread_not_found": ErrorClass.NOT_FOUND,
    "request_body_too_large_after_decoding": ErrorClass.TOO_LARGE,
    "compaction_unavailable": ErrorClass.OVERLOADED,
    "context_length_exceeded": ErrorClass.CONTEXT_LENGTH,
    "insufficient_quota": ErrorClass.QUOTA,
    "invalid_api_key": ErrorClass.AUTHENTICATION,
    "model_not_found": ErrorClass.MODEL_NOT_FOUND,
    "rate_limit_exceeded": ErrorClass.RATE_LIMIT,
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

_CONTEXT_LENGTH = re.compile(
    r"maximum context length|prompt is too long|exceeds? the context|exceed context limit|input is too long"
    r"|context window",
    re.IGNORECASE,
)
_SPENT = "reached your specified API usage limits"
_NO_MODEL = re.compile(r"model: \S")
_LIMIT = 2000  # characters of a body that is no JSON


def read_error(status: int, wire: object, text: str) -> Error:
    """The error that the backend answered with.

    `wire` is the decoded body, or None when it is no JSON; `text` is the body as text. `status` is 200 for an error
    inside an answer that began well.
    """
    body = wire[0] if type(wire) is list and wire else wire
    problem = _problem(body)
    if problem is None:
        if wire is None and "<html" in text[:_LIMIT].lower():
            kind = ErrorClass.BAD_GATEWAY if status < 500 else CLASS_OF_STATUS.get(status, ErrorClass.SERVER)
            return Error(kind, f"The backend gave a non-JSON answer with status {status}.", http=status)
        return Error(_class(status, None, None, text), text[:_LIMIT].strip() or _silent(status), http=status)
    message = _text(problem, "message") or _text(problem, "detail") or text[:_LIMIT].strip() or _silent(status)
    wire_type = _text(problem, "type")
    details = problem.get("details")
    if not is_object(details):
        details = None
    code = _text(details, "error_code") if details is not None else None
    code = code or _text(problem, "code")
    if status < 400 and code is not None and code.isdecimal() and 400 <= int(code[:3]) < 600:
        status = int(code[:3])  # OpenRouter's form of an error inside a 200
    return Error(
        _class(status, wire_type, code, message),
        message,
        code=code,
        param=_text(problem, "param"),
        http=status,
        type=wire_type,
        details=details,
    )


def _silent(status: int) -> str:
    return f"The backend answered with status {status} and no words."


def _problem(body: object) -> Wire | None:
    """The object that tells what went wrong, in any of the shapes that servers use."""
    if not is_object(body):
        return {"message": body} if type(body) is str else None
    inner = body.get("error")
    if is_object(inner):
        return inner
    if type(inner) is str:
        return {"message": inner}
    return body if {"message", "detail", "details"} & body.keys() else None


def _text(wire: Wire, name: str) -> str | None:
    value = wire.get(name)
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int else None


def _class(status: int, wire_type: str | None, code: str | None, message: str) -> ErrorClass:
    kind = CLASS_OF_CODE.get(code or "") or CLASS_OF_TYPE.get(wire_type or "") or _class_of_status(status)
    if kind is ErrorClass.INVALID:
        if _CONTEXT_LENGTH.search(message):
            return ErrorClass.CONTEXT_LENGTH
        if _SPENT in message:
            return ErrorClass.QUOTA
    if kind is ErrorClass.NOT_FOUND and _NO_MODEL.match(message):
        return ErrorClass.MODEL_NOT_FOUND
    return kind


def _class_of_status(status: int) -> ErrorClass:
    if status in CLASS_OF_STATUS:
        return CLASS_OF_STATUS[status]
    return ErrorClass.INVALID if 400 <= status < 500 else ErrorClass.SERVER


# --- the client's answer ---

# Total over ErrorClass: status and `error.type`.
ANSWERS: dict[ErrorClass, tuple[int, str]] = {
    ErrorClass.INVALID: (400, "invalid_request_error"),
    ErrorClass.UNSUPPORTED: (400, "invalid_request_error"),
    ErrorClass.CONTEXT_LENGTH: (400, "invalid_request_error"),
    ErrorClass.CONTENT_POLICY: (400, "invalid_request_error"),
    ErrorClass.AUTHENTICATION: (401, "authentication_error"),
    ErrorClass.PERMISSION: (403, "permission_error"),
    ErrorClass.QUOTA: (402, "billing_error"),
    ErrorClass.NOT_FOUND: (404, "not_found_error"),
    ErrorClass.MODEL_NOT_FOUND: (404, "not_found_error"),
    ErrorClass.CONFLICT: (409, "conflict_error"),
    ErrorClass.TOO_LARGE: (413, "request_too_large"),
    ErrorClass.RATE_LIMIT: (429, "rate_limit_error"),
    ErrorClass.SERVER: (500, "api_error"),
    ErrorClass.INTERNAL: (500, "api_error"),
    ErrorClass.BAD_GATEWAY: (502, "api_error"),
    ErrorClass.UNREACHABLE: (502, "api_error"),
    ErrorClass.UPSTREAM_AUTH: (502, "api_error"),
    ErrorClass.OVERLOADED: (529, "overloaded_error"),
    ErrorClass.TIMEOUT: (504, "timeout_error"),
}

# Codes of OpenAI that have an equal here.
_CODE_OF_OPENAI = {"slow_down": "ramp_limit_exceeded"}

TOO_LONG = "prompt is too long: "
_MAXIMUM = re.compile(r"(?:maximum context length|context window|context length)\D{0,20}?(\d[\d,]*)", re.IGNORECASE)
_WANTED = re.compile(
    r"(?:resulted in|requested|asked for|contains|has|got)\s+(?:about\s+|at least\s+)?(\d[\d,]*)\s+(?:\w+\s+)?tokens?"
    r"|asked for (\d[\d,]*)",
    re.IGNORECASE,
)


def write_error(error: Error, request_id: str) -> tuple[int, Wire]:
    """Status and body of the client's error answer; the body is also what `event: error` carries."""
    status, wire_type = ANSWERS[error.kind]
    message = error.told
    if error.kind is ErrorClass.CONTEXT_LENGTH:
        message = _too_long(message)
    problem: Wire = {"type": wire_type, "message": message}
    if error.details is not None:
        problem["details"] = error.details
    elif error.kind is ErrorClass.RATE_LIMIT and error.code in _CODE_OF_OPENAI:
        problem["details"] = {"error_code": _CODE_OF_OPENAI[error.code]}
    return status, {"type": "error", "error": problem, "request_id": request_id}


def _too_long(message: str) -> str:
    """Anthropic's own words, which agents look for before they compact their history."""
    if message.startswith(TOO_LONG):
        return message
    maximum, wanted = _MAXIMUM.search(message), _WANTED.search(message)
    if maximum is None or wanted is None:
        return TOO_LONG + message
    tokens = (wanted[1] or wanted[2]).replace(",", "")
    return f"{TOO_LONG}{tokens} tokens > {maximum[1].replace(',', '')} maximum"
