"""Errors of OpenAI's protocols: what servers send, and what clients are told."""

from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.protocols import messages
from proxy.protocols.openai_errors import ANSWERS, CLASS_OF_CODE, read_error, write_error
from proxy.protocols.responses.errors import failure_of
from tests.harness.sdk import read_error as read_by_sdk

INVALID = ErrorClass.INVALID


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        pytest.param(
            401,
            {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}},
            Error(ErrorClass.AUTHENTICATION, "m", code="invalid_api_key", http=401, type="invalid_request_error"),
            id="openai",
        ),
        pytest.param(
            400, [{"error": {"code": 400, "message": "m"}}], Error(INVALID, "m", code="400", http=400), id="in a list"
        ),
        pytest.param(500, {"error": "m"}, Error(ErrorClass.SERVER, "m", http=500), id="a string"),
        pytest.param(422, {"detail": "m"}, Error(INVALID, "m", http=422), id="detail"),
        pytest.param(
            422,
            {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}, "odd"]},
            Error(INVALID, "body.messages: Field required; odd", http=422),
            id="a list of details",
        ),
        pytest.param(
            400,
            {"detail": {"message": "m", "param": "p"}},
            Error(INVALID, "m", param="p", http=400),
            id="detail object",
        ),
        pytest.param(
            400,
            {"object": "error", "message": "m", "type": "BadRequestError", "param": False, "code": 400},
            Error(INVALID, "m", code="400", param="false", http=400, type="BadRequestError"),
            id="flat",
        ),
        pytest.param(
            200,
            {"error": {"message": "m", "code": 429}},
            Error(ErrorClass.RATE_LIMIT, "m", code="429", http=429),
            id="the status in the body of a 200",
        ),
        pytest.param(
            None,
            {"error": {"message": "m", "type": "overloaded_error"}},
            Error(ErrorClass.OVERLOADED, "m", type="overloaded_error"),
            id="in a stream",
        ),
        pytest.param(
            503,
            {"error": {}},
            Error(ErrorClass.OVERLOADED, "The backend reported an error and gave no message.", http=503),
            id="empty",
        ),
    ],
)
def test_bodies_of_any_shape_are_read(status: int | None, body: object, error: Error) -> None:
    assert read_error(status, body, "") == error


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (
            502,
            "<html><body>secret</body></html>",
            Error(ErrorClass.BAD_GATEWAY, "The backend gave a non-JSON answer. (HTTP 502)", http=502),
        ),
        (200, "<!DOCTYPE html>", Error(ErrorClass.BAD_GATEWAY, "The backend gave a non-JSON answer.", http=200)),
        (401, "", Error(ErrorClass.AUTHENTICATION, "The backend's answer was empty. (HTTP 401)", http=401)),
        (
            400,
            "prompt is too long",
            Error(
                ErrorClass.CONTEXT_LENGTH,
                "The backend gave an answer that can't be read: prompt is too long (HTTP 400)",
                http=400,
            ),
        ),
    ],
)
def test_answers_that_are_not_json_are_read(status: int, text: str, error: Error) -> None:
    assert read_error(status, None, text) == error


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "context_length_exceeded"}, ErrorClass.CONTEXT_LENGTH),
        (400, {"message": "This model's maximum context length is 8192 tokens."}, ErrorClass.CONTEXT_LENGTH),
        (413, {"message": "The input is too long for the context window."}, ErrorClass.CONTEXT_LENGTH),
        (400, {"code": "content_filter"}, ErrorClass.CONTENT_POLICY),
        (400, {"type": "invalid_request_error", "code": "unsupported_parameter"}, INVALID),
        (404, {"message": "The model `x` does not exist"}, ErrorClass.MODEL_NOT_FOUND),
        (404, {"message": "Not found"}, ErrorClass.NOT_FOUND),
        (400, {"code": "model_not_found"}, ErrorClass.MODEL_NOT_FOUND),
        (429, {"type": "insufficient_quota"}, ErrorClass.QUOTA),
        (429, {"code": "slow_down", "type": "rate_limit_error"}, ErrorClass.RATE_LIMIT),
        (402, {}, ErrorClass.QUOTA),
        (403, {}, ErrorClass.PERMISSION),
        (408, {}, ErrorClass.TIMEOUT),
        (409, {}, ErrorClass.CONFLICT),
        (418, {}, INVALID),
        (500, {"type": "invalid_request_error"}, ErrorClass.SERVER),
        (529, {}, ErrorClass.OVERLOADED),
        (599, {}, ErrorClass.SERVER),
        (None, {"type": "invalid_request_error"}, INVALID),
    ],
)
def test_code_before_type_before_status_before_words(status: int | None, error: Any, kind: ErrorClass) -> None:
    assert read_error(status, {"error": error}, "").kind is kind


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1.2s.", 1.2),
        ("try again in 120ms", 0.12),
        ("Try again in 6m0s", 360),
        ("try again in 2m", 120),
        ("try again in 20 seconds", 20),
        ("try again later", None),
    ],
)
def test_the_delay_may_be_in_the_message(message: str, seconds: float | None) -> None:
    assert read_error(429, {"error": {"message": message}}, "").retry_after == seconds


def test_money_is_not_asked_for_twice() -> None:
    assert read_error(429, {"error": {"code": "insufficient_quota"}}, "").should_retry is False


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (Error(INVALID, "m", code="invalid_value", param="p"), 400, "invalid_request_error", "invalid_value"),
        (Error(INVALID, "m", code="400"), 400, "invalid_request_error", None),
        (Error(ErrorClass.RATE_LIMIT, "m", type="tokens"), 429, "tokens", "rate_limit_exceeded"),
        (Error(ErrorClass.RATE_LIMIT, "m", type="other", code="429"), 429, "rate_limit_error", "rate_limit_exceeded"),
        (Error(ErrorClass.RATE_LIMIT, "m", code="ramp_limit_exceeded"), 429, "rate_limit_error", "slow_down"),
        (
            Error(ErrorClass.QUOTA, "m", code="credit_balance_exhausted"),
            429,
            "insufficient_quota",
            "credit_balance_exhausted",
        ),
        (
            Error(ErrorClass.QUOTA, "m", details={"error_code": "enforced_spend_limit_reached"}),
            429,
            "insufficient_quota",
            "insufficient_quota",
        ),
        (
            Error(ErrorClass.NOT_FOUND, "m", details={"error_code": "thread_not_found"}),
            404,
            "invalid_request_error",
            "thread_not_found",
        ),
        (
            Error(ErrorClass.UPSTREAM_AUTH, "m", reason=Reason.UPSTREAM_AUTH),
            502,
            "server_error",
            "dragoman_upstream_auth",
        ),
        (Error(ErrorClass.SERVER, "m", code="whatever"), 500, "server_error", "whatever"),
    ],
)
def test_what_clients_are_told(error: Error, status: int, type_: str, code: str | None) -> None:
    assert write_error(error, "req_1") == (
        status,
        {"error": {"message": "m", "type": type_, "param": error.param, "code": code}},
    )


def test_every_class_has_an_answer() -> None:
    assert set(ANSWERS) == set(ErrorClass)


@pytest.mark.parametrize("code", sorted(CLASS_OF_CODE))
def test_a_code_of_openai_reaches_a_client_as_it_was(code: str) -> None:
    error = read_error(400, {"error": {"message": "m", "code": code}}, "")
    told = write_error(error, "")[1]["error"]
    assert isinstance(told, dict)
    assert told["code"] == code


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (INVALID, "BadRequestError"),
        (ErrorClass.AUTHENTICATION, "AuthenticationError"),
        (ErrorClass.PERMISSION, "PermissionDeniedError"),
        (ErrorClass.MODEL_NOT_FOUND, "NotFoundError"),
        (ErrorClass.CONFLICT, "ConflictError"),
        (ErrorClass.RATE_LIMIT, "RateLimitError"),
        (ErrorClass.OVERLOADED, "InternalServerError"),
    ],
)
def test_the_sdk_raises_what_its_users_catch(kind: ErrorClass, raised: str) -> None:
    import json

    status, body = write_error(Error(kind, "m"), "")
    assert read_by_sdk("chat", status, json.dumps(body).encode()).name == raised


FAILED_CALL = {
    "message": "Failed to call a function.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": '<function=f{"key": "sk-1", "context window"}' + "x" * 5000,
}


@pytest.mark.parametrize("status", [400, None])
def test_what_the_model_said_instead_of_a_call_is_told(status: int | None) -> None:
    """mapping.md 17.2, Groq. It is bounded, takes no part in what the error is taken for, and hides no secret."""
    error = read_error(status, {"error": FAILED_CALL}, "").scrubbed(lambda text: text.replace("sk-1", "[secret]"))
    assert (error.kind, error.code, error.message) == (INVALID, "tool_use_failed", "Failed to call a function.")
    said = FAILED_CALL["failed_generation"][:2000].replace("sk-1", "[secret]")
    told = f"Failed to call a function. The model said: {said}"
    for write in (write_error, messages.write_error):
        body: Any = write(error, "req_1")[1]
        assert body["error"]["message"] == told
    assert [form["message"] for form in failure_of(error)] == [told, told]
