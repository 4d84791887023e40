"""Errors inside a stream. Those of HTTP are OpenAI's and tested with it."""

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.protocols.responses.errors import failure_of, read_failure

FAILURES: list[tuple[Error, str, str, str]] = [
    (Error(ErrorClass.INVALID, "Bad."), "invalid_request_error", "invalid_prompt", "Bad."),
    (Error(ErrorClass.CONTEXT_LENGTH, "Long."), "invalid_request_error", "context_length_exceeded", "Long."),
    (Error(ErrorClass.QUOTA, "Poor."), "insufficient_quota", "insufficient_quota", "Poor."),
    (Error(ErrorClass.RATE_LIMIT, "Slow."), "rate_limit_error", "rate_limit_exceeded", "Slow."),
    (
        Error(ErrorClass.RATE_LIMIT, "Slow.", retry_after=60),
        "rate_limit_error",
        "rate_limit_exceeded",
        "Slow. Please try again in 60s.",
    ),
    (
        Error(ErrorClass.RATE_LIMIT, "Please try again in 3s.", retry_after=3),
        "rate_limit_error",
        "rate_limit_exceeded",
        "Please try again in 3s.",
    ),
    (Error(ErrorClass.SERVER, "Oops.", "image_too_large"), "server_error", "image_too_large", "Oops."),
    (Error(ErrorClass.SERVER, "Oops.", "made_up"), "server_error", "server_error", "Oops."),
    (Error(ErrorClass.BAD_GATEWAY, "Cut."), "server_error", "server_error", "Cut."),
    (Error(ErrorClass.OVERLOADED, "Busy."), "service_unavailable_error", "server_error", "Busy."),
]


@pytest.mark.parametrize(("error", "kind", "code", "message"), FAILURES)
def test_the_two_forms_of_a_failure(error: Error, kind: str, code: str, message: str) -> None:
    assert failure_of(error) == (
        {"type": kind, "code": code, "message": message, "param": None},
        {"code": code, "message": message},
    )


def test_every_class_has_a_documented_code() -> None:
    assert all(isinstance(failure_of(Error(kind, "x"))[1]["code"], str) for kind in ErrorClass)


@pytest.mark.parametrize("nothing", [None, {}, {"message": None}, [], 5])
def test_an_error_that_tells_nothing(nothing: object) -> None:
    assert read_failure(nothing, "It failed.") == Error(ErrorClass.SERVER, "It failed.")
