"""What the vendor's own SDK makes of replies, streams and errors that the proxy writes."""

from collections.abc import Callable

import anthropic
import httpx2
import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import Close, Delta, End, Event, Fail, Finish, Open, Start, UsageUpdate
from proxy.canonical.fold import unfold
from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import Call, Citation, Reasoning, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.messages import StreamWriter, write_error, write_reply

CONTEXT = ReplyContext("req_1", "m", estimate_prompt=lambda: 7)
PARTS: list[ReplyPart] = [
    Reasoning("hm", native={"type": "thinking", "thinking": "hm", "signature": "EqQB"}),
    Text("It is.", [Citation("url", "https://a", "T", start=0, end=2)]),
    Call("call_1", "get", '{"city": "Oslo", "n": 12345678901234567890}'),
    Call("call_2", "now", "{}"),
]
REPLY = Reply("resp_1", "gpt-x", PARTS, Stop("tool"), Usage(10, 2, 3, output=40, reasoning=15))


def client_of(answer: Callable[[], httpx2.Response]) -> anthropic.Anthropic:
    """The SDK with its network replaced by one answer."""
    transport = httpx2.MockTransport(lambda _: answer())
    return anthropic.Anthropic(
        api_key="k", base_url="http://proxy", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def stream_of(events: list[Event]) -> httpx2.Response:
    stream = StreamWriter(CONTEXT).write(events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)


def asked(client: anthropic.Anthropic) -> anthropic.types.Message:
    return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])


def streamed(client: anthropic.Anthropic) -> anthropic.types.Message:
    with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream:
        return stream.get_final_message()


def essence(message: anthropic.types.Message) -> dict[str, object]:
    whole = message.to_dict()
    usage = whole["usage"]
    assert isinstance(usage, dict)
    usage.pop("cache_creation")
    content = whole["content"]
    assert isinstance(content, list)
    for block in content:
        block.pop("parsed_output", None)
        if not block.get("citations"):
            block.pop("citations", None)
    return whole


def test_a_whole_reply_and_its_stream_are_the_same_to_the_sdk() -> None:
    whole = asked(client_of(lambda: httpx2.Response(200, json={}, content=write_reply(REPLY, CONTEXT))))
    from_stream = streamed(client_of(lambda: stream_of(list(unfold(REPLY)))))
    assert essence(from_stream) == essence(whole)
    assert whole.stop_reason == "tool_use"
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert whole.content[2].input == {"city": "Oslo", "n": 12345678901234567890}
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (10, 40)


def test_an_empty_stream_is_an_empty_message() -> None:
    message = streamed(client_of(lambda: stream_of([Start("", ""), Finish(Stop("end")), End()])))
    assert (message.content, message.stop_reason, message.usage.input_tokens) == ([], "end_turn", 7)


def test_a_failure_in_the_middle_raises() -> None:
    events: list[Event] = [
        Start("x", "m"),
        Open(0, Text("")),
        Delta(0, "A"),
        Fail(Error(ErrorClass.OVERLOADED, "Busy")),
        UsageUpdate(Usage()),
        Close(0),
    ]
    with pytest.raises(anthropic.APIStatusError) as caught:
        streamed(client_of(lambda: stream_of(events)))
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Busy"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("kind", "exception"),
    [
        (ErrorClass.INVALID, anthropic.BadRequestError),
        (ErrorClass.CONTEXT_LENGTH, anthropic.BadRequestError),
        (ErrorClass.AUTHENTICATION, anthropic.AuthenticationError),
        (ErrorClass.PERMISSION, anthropic.PermissionDeniedError),
        (ErrorClass.MODEL_NOT_FOUND, anthropic.NotFoundError),
        (ErrorClass.CONFLICT, anthropic.ConflictError),
        (ErrorClass.RATE_LIMIT, anthropic.RateLimitError),
        (ErrorClass.SERVER, anthropic.InternalServerError),
        (ErrorClass.BAD_GATEWAY, anthropic.InternalServerError),
    ],
)
def test_errors_raise_what_the_vendors_would(kind: ErrorClass, exception: type[anthropic.APIStatusError]) -> None:
    status, body = write_error(Error(kind, "words"), "req_1")
    response = httpx2.Response(status, headers={"content-type": "application/json"}, content=dumps(body))
    with pytest.raises(exception) as caught:
        asked(client_of(lambda: response))
    assert caught.value.status_code == status
