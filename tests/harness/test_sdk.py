"""The SDK readers, and that the harness reads streams as the vendors' SDKs do."""

import json

import pytest

from tests.harness import sdk
from tests.harness.assemble import assemble
from tests.harness.digest import digest
from tests.harness.model_replies import render
from tests.harness.samples import sample_events, sample_stream
from tests.harness.wire import PROTOCOLS, Json, Protocol, read_events


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_assembles_into_what_the_sdk_assembles(protocol: Protocol) -> None:
    raw = sample_stream(protocol)
    ours = digest(protocol, assemble(protocol, read_events(raw.decode()).events))
    theirs = digest(protocol, sdk.read_stream(protocol, raw))
    assert ours == theirs
    assert ours.text == "Let me look."
    assert ours.reasoning == "Two cities."
    assert [call["arguments"] for call in ours.calls] == [{"city": "Lima"}, {"city": "Oslo"}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_reply_comes_back_as_it_was(protocol: Protocol) -> None:
    reply = assemble(protocol, read_events(sample_stream(protocol).decode()).events)
    assert sdk.read_whole(protocol, json.dumps(reply).encode()) == reply


def test_a_stream_without_its_end_has_no_stop_reason() -> None:
    """The helpers of Chat and Messages take what came for the whole, so a cut has to be told as an error."""
    chat, messages, responses = (render(p, sample_events(p)[:7]) for p in ("chat", "messages", "responses"))
    assert sdk.read_stream("chat", chat)["choices"][0].get("finish_reason") is None
    assert sdk.read_stream("messages", messages).get("stop_reason") is None
    assert sdk.read_stream_error("responses", responses).name == "RuntimeError"


OPENAI_ERROR = {"error": {"message": "No.", "type": "t", "param": None, "code": None}}
ANTHROPIC_ERROR = {"type": "error", "error": {"type": "t", "message": "No."}}


@pytest.mark.parametrize(
    ("protocol", "status", "body", "name", "retried"),
    [
        ("chat", 400, OPENAI_ERROR, "BadRequestError", False),
        ("responses", 401, OPENAI_ERROR, "AuthenticationError", False),
        ("chat", 429, OPENAI_ERROR, "RateLimitError", True),
        ("responses", 503, OPENAI_ERROR, "InternalServerError", True),
        ("messages", 400, ANTHROPIC_ERROR, "BadRequestError", False),
        ("messages", 429, ANTHROPIC_ERROR, "RateLimitError", True),
        ("messages", 529, ANTHROPIC_ERROR, "OverloadedError", True),
    ],
)
def test_an_error_is_the_class_that_user_code_catches(
    protocol: Protocol, status: int, body: Json, name: str, retried: bool
) -> None:
    error = sdk.read_error(protocol, status, json.dumps(body).encode())
    assert (error.name, error.retried) == (name, retried)
    assert "No." in error.message


def test_the_server_may_forbid_the_retry() -> None:
    body = json.dumps(OPENAI_ERROR).encode()
    assert not sdk.read_error("chat", 503, body, {"x-should-retry": "false"}).retried


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_is_no_error(protocol: Protocol) -> None:
    raw = sample_stream(protocol)
    with pytest.raises(AssertionError):
        sdk.read_stream_error(protocol, raw)
    with pytest.raises(AssertionError):
        sdk.read_error(protocol, 200, b"{}")
