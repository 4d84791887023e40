"""What a backend says of its own request's fields, in the words of the client's (mapping.md 15.1)."""

import json

import pytest

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol, ClientProtocol
from proxy.translation.error_fields import reword
from proxy.translation.prepared import Prepared

REQUESTS: dict[ClientProtocol, str] = {
    "chat": '{"model":"m","stream":true,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}',
    "responses": '{"model":"m","stream":true,"max_output_tokens":99,"input":"hi"}',
    "messages": '{"model":"m","stream":true,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}',
    "completions": '{"model":"m","stream":true,"max_tokens":99,"prompt":"hi"}',
}


def reworded(
    backend: BackendProtocol, client: ClientProtocol, param: str | None, message: str = "", limit: str | None = None
) -> tuple[str | None, str]:
    error = Error(ErrorClass.INVALID, message, param=param, http=400)
    reword(error, backend, client, limit)
    return error.param, error.message


@pytest.mark.parametrize(
    ("backend", "client", "told", "shown"),
    [
        ("messages", "responses", "max_tokens", "max_output_tokens"),
        ("messages", "responses", "messages.3.content.0.text", "input"),
        ("messages", "responses", "system", "instructions"),
        ("messages", "chat", "system", "messages"),
        ("messages", "chat", "stop_sequences", "stop"),
        ("messages", "chat", "output_config.format.schema", "response_format"),
        ("messages", "chat", "thinking.budget_tokens", "reasoning_effort"),
        ("messages", "completions", "messages", "prompt"),
        ("responses", "messages", "max_output_tokens", "max_tokens"),
        ("responses", "messages", "input[2].content", "messages"),
        ("responses", "chat", "text.format", "response_format"),
        ("responses", "chat", "reasoning.effort", "reasoning_effort"),
        ("responses", "chat", "user", "user"),
        ("chat", "responses", "messages[0].content", "input"),
        ("chat", "responses", "max_completion_tokens", "max_output_tokens"),
        ("chat", "responses", "response_format", "text.format"),
        ("chat", "messages", "max_tokens", "max_tokens"),
        ("chat", "messages", "messages[0].content", "messages[0].content"),
        ("chat", "messages", "stop", "stop_sequences"),
        ("chat", "messages", "reasoning_effort", "output_config.effort"),
        ("chat", "messages", "user", "metadata.user_id"),
        ("chat", "messages", "temperature", "temperature"),
        ("chat", "responses", "stop", "stop"),
    ],
)
def test_a_param_is_the_clients_field(backend: BackendProtocol, client: ClientProtocol, told: str, shown: str) -> None:
    assert reworded(backend, client, told, f"Invalid value for '{told}'.") == (shown, f"Invalid value for '{shown}'.")
    assert reworded(backend, client, None, f"{told}: too low") == (None, f"{shown}: too low")


def test_a_quoted_word_is_a_field_only_where_the_error_is_about_it() -> None:
    message = "Expected a role of 'user' or 'system', or \"stop\"."
    assert reworded("chat", "messages", "messages", message)[1] == message
    assert reworded("messages", "responses", None, message)[1] == message
    assert reworded("chat", "messages", "stop", "'stop' is no 'user'.")[1] == "'stop_sequences' is no 'user'."


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_the_limit_is_called_as_the_client_did(limit: str) -> None:
    assert reworded("responses", "chat", "max_output_tokens", limit=limit)[0] == limit
    assert reworded("messages", "chat", "max_tokens", limit=limit)[0] == limit
    assert reworded("messages", "chat", "max_tokens")[0] == "max_completion_tokens"


@pytest.mark.parametrize(
    "message", ["Send fewer messages.", "The 'inputs' are odd.", "I stop here: no", "'my.messages' is no field"]
)
def test_words_are_no_fields(message: str) -> None:
    assert reworded("messages", "responses", None, message)[1] == message
    assert reworded("chat", "responses", None, message)[1] == message


def test_the_proxys_own_words_stay() -> None:
    error = Error(ErrorClass.UNSUPPORTED, "'messages' is the client's.", param="messages", reason=Reason.LOSS_REFUSED)
    reword(error, "messages", "responses", None)
    assert (error.param, error.message) == ("messages", "'messages' is the client's.")


def prepared(client: ClientProtocol, backend: BackendProtocol) -> Prepared:
    raw = REQUESTS[client].encode()
    return pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options())


@pytest.mark.parametrize(
    ("client", "backend", "told", "shown"),
    [
        ("chat", "messages", "max_tokens", "max_tokens"),
        ("chat", "responses", "max_output_tokens", "max_tokens"),
        ("responses", "messages", "max_tokens", "max_output_tokens"),
        ("messages", "chat", "max_completion_tokens", "max_tokens"),
        ("completions", "responses", "max_output_tokens", "max_tokens"),
    ],
)
def test_an_error_is_told_so_inside_an_answer_too(
    client: ClientProtocol, backend: BackendProtocol, told: str, shown: str
) -> None:
    error = {"type": "invalid_request_error", "message": f"'{told}' is too low.", "param": told, "code": None}
    raw = json.dumps({"type": "error", "error": error}).encode()
    with pytest.raises(Rejected) as caught:
        prepared(client, backend).reply(raw)
    assert (caught.value.error.param, caught.value.error.message) == (shown, f"'{shown}' is too low.")
    stream = prepared(client, backend).translation()
    assert f"'{shown}' is too low.".encode() in stream.feed(b"event: error\ndata: %b\n\n" % raw)
