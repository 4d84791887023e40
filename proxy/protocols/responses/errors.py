"""Errors of Responses: HTTP errors are OpenAI's, those inside a stream have codes of their own.

Rules: mapping.md 13.12 and 15.1.
"""

from proxy.canonical.errors import Error, ErrorClass
from proxy.protocols.fields import is_object
from proxy.protocols.openai_errors import read_error, write_error

__all__ = ["failure_of", "read_error", "read_failure", "write_error"]

# `response.error.code`: the documented values (responses.md 9.1) and those that Codex acts on.
FAILURE_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_content_policy_violation",
        "invalid_image_mode",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
        "context_length_exceeded",
        "insufficient_quota",
        "usage_not_included",
    }
)
CODE_OF_CLASS: dict[ErrorClass, str] = {
    ErrorClass.INVALID: "invalid_prompt",
    ErrorClass.UNSUPPORTED: "invalid_prompt",
    ErrorClass.CONTENT_POLICY: "invalid_prompt",
    ErrorClass.TOO_LARGE: "invalid_prompt",
    ErrorClass.CONTEXT_LENGTH: "context_length_exceeded",
    ErrorClass.QUOTA: "insufficient_quota",
    ErrorClass.RATE_LIMIT: "rate_limit_exceeded",
}


def read_failure(error: object, otherwise: str) -> Error:
    """The error of a stream event or a failed response; `otherwise` is the message of one that tells nothing."""
    if (is_object(error) and any(error.values())) or type(error) is str:
        return read_error(None, {"error": error}, "")
    return Error(ErrorClass.SERVER, otherwise)


def failure_of(error: Error) -> tuple[dict[str, object], dict[str, object]]:
    """The two forms of an error inside a stream: `error` of the event, and `error` of the failed response.

    Codex reads the delay of a rate limit from the words "try again in 1.2s", so they are there when it is known.
    """
    own = error.code
    code = own if own in FAILURE_CODES else CODE_OF_CLASS.get(error.kind, "server_error")
    message = error.told
    if error.retry_after is not None and "try again in" not in message.lower():
        message = f"{message.rstrip(' .')}. Please try again in {_seconds(error.retry_after)}s."
    _, body = write_error(error, "")
    told = body["error"]
    kind = told["type"] if isinstance(told, dict) else "server_error"
    return (
        {"type": kind, "code": code, "message": message, "param": error.param},
        {"code": code, "message": message},
    )


def _seconds(delay: float) -> str:
    return f"{delay:.3f}".rstrip("0").rstrip(".")
