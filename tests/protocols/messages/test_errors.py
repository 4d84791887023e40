"""Errors of a Messages backend, and errors for a Messages client."""

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.protocols.messages import read_error, write_error
from proxy.protocols.messages.errors import ANSWERS, CLASS_OF_TYPE


def failing(error_type: str, message: str = "words", **details: object) -> dict[str, object]:
    error: dict[str, object] = {"type": error_type, "message": message}
    if details:
        error["details"] = details
    return {"type": "error", "error": error, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("status", "wire", "kind"),
    [
        (400, failing("invalid_request_error"), ErrorClass.INVALID),
        (400, failing("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"), ErrorClass.CONTEXT_LENGTH),
        (
            400,
            failing("invalid_request_error", "input length and `max_tokens` exceed context limit: 2 + 1 > 1, …"),
            ErrorClass.CONTEXT_LENGTH,
        ),
        (
            400,
            failing("invalid_request_error", "You have reached your specified API usage limits. You will …"),
            ErrorClass.QUOTA,
        ),
        (401, failing("authentication_error"), ErrorClass.AUTHENTICATION),
        (402, failing("billing_error"), ErrorClass.QUOTA),
        (403, failing("permission_error"), ErrorClass.PERMISSION),
        (404, failing("not_found_error"), ErrorClass.NOT_FOUND),
        (404, failing("not_found_error", "model: claude-9"), ErrorClass.MODEL_NOT_FOUND),
        (409, failing("conflict_error"), ErrorClass.CONFLICT),
        (413, failing("request_too_large"), ErrorClass.TOO_LARGE),
        (429, failing("rate_limit_error"), ErrorClass.RATE_LIMIT),
        (429, failing("rate_limit_error", error_code="enforced_spend_limit_reached"), ErrorClass.QUOTA),
        (429, failing("rate_limit_error", error_code="ramp_limit_exceeded"), ErrorClass.RATE_LIMIT),
        (500, failing("api_error"), ErrorClass.SERVER),
        (504, failing("timeout_error"), ErrorClass.TIMEOUT),
        (529, failing("overloaded_error"), ErrorClass.OVERLOADED),
        (200, failing("overloaded_error"), ErrorClass.OVERLOADED),
        (422, failing("BadRequestError"), ErrorClass.INVALID),
        (503, failing("strange_error"), ErrorClass.OVERLOADED),
        (200, failing("strange_error"), ErrorClass.SERVER),
        (200, {"error": {"message": "no credits", "code": 402}}, ErrorClass.QUOTA),
        (400, {"error": {"message": "m", "code": "context_length_exceeded"}}, ErrorClass.CONTEXT_LENGTH),
        (400, {"error": "text"}, ErrorClass.INVALID),
        (404, {"detail": "Not Found"}, ErrorClass.NOT_FOUND),
        (400, [{"error": {"message": "wrapped"}}], ErrorClass.INVALID),
        (500, {}, ErrorClass.SERVER),
        (500, None, ErrorClass.SERVER),
        (500, "text", ErrorClass.SERVER),
    ],
)
def test_class_of_a_backends_error(status: int, wire: object, kind: ErrorClass) -> None:
    assert read_error(status, wire, "").kind == kind


def test_everything_that_a_backend_tells_is_kept() -> None:
    details = {"error_code": "image_dimensions_too_large", "max_side_length_pixels": 8000}
    assert read_error(400, failing("invalid_request_error", "too big", **details), "") == Error(
        ErrorClass.INVALID,
        "too big",
        code="image_dimensions_too_large",
        http=400,
        type="invalid_request_error",
        details=details,
    )


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (
            502,
            "<!DOCTYPE html><HTML><body>Bad Gateway</body>",
            Error(ErrorClass.BAD_GATEWAY, "The backend gave a non-JSON answer with status 502.", http=502),
        ),
        (
            200,
            "<html>",
            Error(ErrorClass.BAD_GATEWAY, "The backend gave a non-JSON answer with status 200.", http=200),
        ),
        (429, " slow down\n", Error(ErrorClass.RATE_LIMIT, "slow down", http=429)),
        (500, "", Error(ErrorClass.SERVER, "The backend answered with status 500 and no words.", http=500)),
    ],
)
def test_a_body_that_is_no_json(status: int, text: str, error: Error) -> None:
    assert read_error(status, None, text) == error


@pytest.mark.parametrize("kind", ErrorClass)
def test_every_class_has_an_answer_of_the_vendors_types(kind: ErrorClass) -> None:
    status, wire = write_error(Error(kind, "words"), "req_1")
    assert status >= 400
    error = wire["error"]
    assert isinstance(error, dict)
    assert error["type"] in CLASS_OF_TYPE
    assert (wire["type"], wire["request_id"]) == ("error", "req_1")


def test_a_limit_on_growth_is_told_by_the_vendors_code() -> None:
    told = write_error(Error(ErrorClass.RATE_LIMIT, "m", code="slow_down"), "req_1")[1]
    assert told["error"] == {
        "type": "rate_limit_error",
        "message": "m",
        "details": {"error_code": "ramp_limit_exceeded"},
    }


@pytest.mark.parametrize("error_type", CLASS_OF_TYPE)
def test_the_vendors_types_survive_both_ways(error_type: str) -> None:
    assert ANSWERS[CLASS_OF_TYPE[error_type]][1] == error_type


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "This model's maximum context length is 8192 tokens, you asked for 9001.",
            "prompt is too long: 9001 tokens > 8192 maximum",
        ),
        (
            "This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,001 tokens.",
            "prompt is too long: 130001 tokens > 128000 maximum",
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in it)",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "Your input exceeds the context window of this model.",
            "prompt is too long: Your input exceeds the context window of this model.",
        ),
        ("prompt is too long: 2 tokens > 1 maximum", "prompt is too long: 2 tokens > 1 maximum"),
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_the_vendors_words(message: str, told: str) -> None:
    assert write_error(Error(ErrorClass.CONTEXT_LENGTH, message), "req_1") == (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": told}, "request_id": "req_1"},
    )


def test_details_reach_the_client() -> None:
    error = Error(ErrorClass.UNSUPPORTED, "no", details={"error_code": "thread_unsupported_request"})
    assert write_error(error, "req_1")[1]["error"] == {
        "type": "invalid_request_error",
        "message": "no",
        "details": {"error_code": "thread_unsupported_request"},
    }
