"""What the vendors' SDKs make of replies: the right answer, or an exception that user code can catch."""

from tests.harness import sdk
from tests.harness.client import Reply
from tests.harness.digest import digest
from tests.harness.model_replies import Answer
from tests.harness.wire import Json, Protocol


def seen_by_sdk(client: Protocol, reply: Reply, answer: Answer, *, right: bool) -> list[str]:
    """What is wrong with that."""
    assert reply.status is not None
    try:
        if right:
            whole = (sdk.read_stream if reply.streamed else sdk.read_whole)(client, reply.body)
            return _differences(client, whole, answer)
        if reply.streamed:
            told = sdk.read_stream_error(client, reply.body)
        else:
            told = sdk.read_error(client, reply.status, reply.body, {"x-should-retry": reply.header("x-should-retry")})
    except (*sdk.SDK_ERRORS, AssertionError) as error:
        return [f"the SDK sees {error!r}"]
    return [] if told.message else ["the SDK tells nothing"]


def _differences(client: Protocol, whole: Json, answer: Answer) -> list[str]:
    said = digest(client, whole)
    calls = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
    return [] if (said.text, said.calls) == (answer.text, calls) else [f"the SDK reads {said}"]
