"""An answer with reasoning, text and two calls: the legal streams that tests mutate or feed to readers."""

from tests.harness.model_replies import Answer, Call, render, write_stream
from tests.harness.wire import Json, Protocol

ANSWER = Answer(
    model="demo-model",
    reasoning="Two cities.",
    text="Let me look.",
    calls=(Call("call_0", "get_weather", {"city": "Lima"}), Call("call_1", "get_weather", {"city": "Oslo"})),
)


def sample_events(protocol: Protocol) -> list[Json]:
    return write_stream(protocol, ANSWER)


def sample_stream(protocol: Protocol) -> bytes:
    return render(protocol, sample_events(protocol))
