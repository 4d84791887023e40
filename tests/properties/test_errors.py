"""An error keeps its meaning across protocols: the client's SDK raises the sister exception and retries alike (I12)."""

import json

import pytest

from proxy.translation import pair
from tests.harness import sdk
from tests.harness.wire import PROTOCOLS, Json, Protocol

# What each vendor sends for one kind of failure, and what the client's SDK makes of it: the exception's family (by
# the client's vendor) and whether another try is worth it.
OPENAI: dict[str, tuple[int, Json]] = {
    "invalid": (400, {"message": "bad", "type": "invalid_request_error", "param": "x", "code": None}),
    "context": (
        400,
        {
            "message": "This model's maximum context length is 8192 tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    "authentication": (
        401,
        {"message": "Incorrect API key", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"},
    ),
    "permission": (403, {"message": "no", "type": "permission_error", "param": None, "code": None}),
    "not_found": (
        404,
        {"message": "no such model", "type": "invalid_request_error", "param": None, "code": "model_not_found"},
    ),
    "rate_limit": (429, {"message": "slow", "type": "requests", "param": None, "code": "rate_limit_exceeded"}),
    "quota": (
        429,
        {"message": "money", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"},
    ),
    "server": (500, {"message": "oops", "type": "server_error", "param": None, "code": None}),
    "overloaded": (
        503,
        {"message": "busy", "type": "service_unavailable_error", "param": None, "code": "server_is_overloaded"},
    ),
}
ANTHROPIC: dict[str, tuple[int, Json]] = {
    "invalid": (400, {"type": "invalid_request_error", "message": "bad"}),
    "context": (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
    ),
    "authentication": (401, {"type": "authentication_error", "message": "invalid x-api-key"}),
    "permission": (403, {"type": "permission_error", "message": "no"}),
    "not_found": (404, {"type": "not_found_error", "message": "model: x"}),
    "rate_limit": (429, {"type": "rate_limit_error", "message": "slow"}),
    "quota": (402, {"type": "billing_error", "message": "money"}),
    "server": (500, {"type": "api_error", "message": "oops"}),
    "overloaded": (529, {"type": "overloaded_error", "message": "busy"}),
    "timeout": (504, {"type": "timeout_error", "message": "late"}),
}
KINDS = sorted(OPENAI)
RETRIED = {"rate_limit", "server", "overloaded"}
FAMILIES: dict[str, dict[str, str]] = {
    "openai": {
        "invalid": "BadRequestError",
        "context": "BadRequestError",
        "authentication": "AuthenticationError",
        "permission": "PermissionDeniedError",
        "not_found": "NotFoundError",
        "rate_limit": "RateLimitError",
        "quota": "RateLimitError",
        "server": "InternalServerError",
        "overloaded": "InternalServerError",
    },
    "anthropic": {
        "invalid": "BadRequestError",
        "context": "BadRequestError",
        "authentication": "AuthenticationError",
        "permission": "PermissionDeniedError",
        "not_found": "NotFoundError",
        "rate_limit": "RateLimitError",
        "quota": "PaymentRequiredError",
        "server": "InternalServerError",
        "overloaded": "OverloadedError",
    },
}


def backend_answer(backend: Protocol, kind: str) -> tuple[int, bytes]:
    if backend == "messages":
        status, error = ANTHROPIC[kind]
        return status, json.dumps({"type": "error", "error": error}).encode()
    status, error = OPENAI[kind]
    return status, json.dumps({"error": error}).encode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_the_sdk_raises_the_sister_exception_and_retries_alike(client: Protocol, backend: Protocol, kind: str) -> None:
    error = pair.read_backend_error(backend, *backend_answer(backend, kind))
    status, body = pair.write_client_error(client, error, "req_1")
    # The server says so in a header where a status alone would make the SDKs retry in vain.
    headers = {"x-should-retry": "false"} if kind == "quota" else None
    raised = sdk.read_error(client, status, body, headers)
    vendor = "anthropic" if client == "messages" else "openai"
    assert (raised.name, raised.retried) == (FAMILIES[vendor][kind], kind in RETRIED)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_no_type_of_one_vendor_shows_in_the_body_of_the_other(client: Protocol) -> None:
    for backend in PROTOCOLS:
        for kind in KINDS:
            error = pair.read_backend_error(backend, *backend_answer(backend, kind))
            wire = json.loads(pair.write_client_error(client, error, "req_1")[1])
            if client == "messages":
                assert wire["error"]["type"] in {given["type"] for _, given in ANTHROPIC.values()}
                assert wire["request_id"] == "req_1"
            else:
                assert set(wire["error"]) == {"message", "type", "param", "code"}
                assert wire["error"]["type"] in {given["type"] for _, given in OPENAI.values()} | {"rate_limit_error"}
