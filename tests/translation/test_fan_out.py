"""Several answers become the choices of one, whole and as a stream (mapping.md 7.4)."""

import json

import pytest

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.fan_out import fan_out, immediate
from proxy.translation.prepared import Prepared
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Json, Protocol, read_events
from tests.properties.scripts import Part, Script
from tests.properties.spoken import event_bytes, whole_bytes

BACKENDS: list[Protocol] = ["messages", "responses"]
WORDS = ("One.", "Two.", "Three.")
SCRIPTS = [
    Script((Part("reasoning", ("Hm.",), 0), Part("text", (words[:2], words[2:]), 1)), stop, 10 * number, 2, 3, 7, 4)
    for number, (words, stop) in enumerate(zip(WORDS, ("end", "length", "end"), strict=True), 1)
]
SUM = {
    "prompt_tokens": 10 + 20 + 30 + 3 * 5,
    "completion_tokens": 3 * 7,
    "total_tokens": 75 + 21,
    "prompt_tokens_details": {"cached_tokens": 3 * 2, "cache_write_tokens": 3 * 3, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 3 * 4,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def prepared(backend: Protocol, most: int = 3, client: str = "chat", **fields: Json) -> Prepared:
    said = {"prompt": "go"} if client == "completions" else {"messages": [{"role": "user", "content": "go"}]}
    raw = json.dumps({"model": "m", **said, **fields}).encode()
    target = Target(backend, "m", Dialect(), fan_out=most)
    asked = pair.prepare(pair.peek("completions" if client == "completions" else "chat", raw), target, pair.Options())
    asked.context.now = 5
    return asked


def named(raw: bytes, number: int) -> bytes:
    """Answer `number` has an id and a model of its own."""
    ids = {b'"msg_1"': b'"msg_%d"', b'"resp_0001"': b'"resp_%d"', b'"demo-model"': b'"model-%d"'}
    for old, new in ids.items():
        raw = raw.replace(old, new % number)
    return raw


def whole(backend: Protocol) -> Json:
    asked = prepared(backend, n=3)
    each, choices = fan_out(asked)
    for number, (one, script) in enumerate(zip(each, SCRIPTS, strict=True)):
        assert one.take(named(whole_bytes(backend, script), number)) == b""
    assert choices.stop is not None
    assert choices.stop.kind == "end"
    return json.loads(choices.reply("chat", asked.context))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_request_is_made_of_any_number_of_choices(backend: Protocol) -> None:
    asked = [prepared(backend, n=n) for n in (None, 1, 2, 3)]
    assert len({one.body for one in asked}) == 1
    assert [one.choices for one in asked] == [1, 1, 2, 3]


@pytest.mark.parametrize(("most", "limit"), [(1, "only one choice"), (3, "between 1 and 3 choices")])
@pytest.mark.parametrize("n", [0, -1, 4])
@pytest.mark.parametrize("client", ["chat", "completions"])
def test_a_number_beyond_the_limit_is_refused_with_the_limit(client: str, n: int, most: int, limit: str) -> None:
    with pytest.raises(Rejected) as refused:
        prepared("messages", most, client, n=n)
    error = refused.value.error
    assert (error.kind, error.param) == (ErrorClass.UNSUPPORTED, "n")
    assert limit in error.message


def test_text_completions_know_no_choices_of_a_chat_backend() -> None:
    with pytest.raises(Rejected):
        prepared("chat", 1, "completions", n=2)
    assert prepared("chat", 2, "completions", n=2, best_of=2).choices == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_whole(backend: Protocol) -> None:
    reply = whole(backend)
    found = [
        (choice["index"], choice["message"]["content"], choice["message"]["reasoning_content"], choice["finish_reason"])
        for choice in reply["choices"]
    ]
    assert found == [(0, "One.", "Hm.", "stop"), (1, "Two.", "Hm.", "length"), (2, "Three.", "Hm.", "stop")]
    assert (reply["id"], reply["model"]) == (f"chatcmpl-{'msg' if backend == 'messages' else 'resp'}_0", "model-0")
    assert reply["usage"] == SUM


@pytest.mark.parametrize("include_usage", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stream_put_together_is_the_whole(backend: Protocol, include_usage: bool) -> None:
    each, choices = fan_out(prepared(backend, n=3, stream=True, stream_options={"include_usage": include_usage}))
    streams = [one.translation() for one in each]
    pieces = [[named(event, number) for event in event_bytes(backend, script)] for number, script in enumerate(SCRIPTS)]
    out = b""
    for turn in range(max(map(len, pieces))):
        for stream, told in zip(streams, pieces, strict=True):
            assert not choices.over
            out += stream.feed(told[turn]) if turn < len(told) else b""
    assert choices.over
    assert check_stream("chat", out, choices=3) == []
    expected = whole(backend)
    if not include_usage:
        del expected["usage"]
    put_together = assemble("chat", read_events(out.decode()).events)
    for choice in (*expected["choices"], *put_together["choices"]):
        choice.pop("logprobs", None)
        choice["message"].pop("annotations", None)
        details = choice["message"].pop("reasoning_details")
        assert details
        choice["message"]["refusal"] = choice["message"].get("refusal") or None
    assert {**put_together, "created": 0} == {**expected, "created": 0}


def test_the_first_to_begin_is_choice_0() -> None:
    """The vendor's helper would take the first choice that opens for choice 0 whatever its index says."""
    each, _ = fan_out(prepared("messages", n=3, stream=True))
    streams = [one.translation() for one in each]
    pieces = [[named(event, number) for event in event_bytes("messages", SCRIPTS[number])] for number in range(3)]
    out = b"".join(stream.feed(told[0]) for stream, told in reversed(list(zip(streams, pieces, strict=True))))
    out += b"".join(stream.feed(event) for stream, told in zip(streams, pieces, strict=True) for event in told[1:])
    assert check_stream("chat", out, choices=3) == []
    reply = assemble("chat", read_events(out.decode()).events)
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["Three.", "Two.", "One."]
    assert reply["id"] == "chatcmpl-msg_2"


def test_a_choice_that_fails_tells_it_and_nobody_finishes() -> None:
    each, choices = fan_out(prepared("messages", n=2, stream=True))
    first, second = (one.translation() for one in each)
    events = event_bytes("messages", SCRIPTS[0])
    out = b"".join(map(first.feed, events)) + second.feed(events[0])
    out += second.fail(Error(ErrorClass.TIMEOUT, "too late"))
    assert check_stream("chat", out, choices=2, expect_end="error") == []
    assert not choices.over
    assert choices.usage is not None
    assert choices.usage.input_fresh == 2 * 10


def test_a_sum_is_told_only_if_it_is_the_sum_of_all() -> None:
    untold = json.loads(whole_bytes("responses", SCRIPTS[0]))
    del untold["usage"]
    asked = prepared("responses", n=2)
    (first, second), choices = fan_out(asked)
    first.take(whole_bytes("responses", SCRIPTS[0]))
    second.take(json.dumps(untold).encode())
    assert "usage" not in json.loads(choices.reply("chat", asked.context))
    assert choices.usage is not None
    assert choices.usage.output == 7


@pytest.mark.parametrize("streamed", [False, True])
def test_each_answer_has_a_way_back_of_its_own(streamed: bool) -> None:
    """The same call in two answers is no second call of one, and its reasoning is remembered for both."""
    script = Script((Part("reasoning", ("Hm.",), 0), Part("call", ('{"a":"b"}',), 1)), "tool")
    tool = {"type": "function", "function": {"name": "tool_1", "parameters": {"type": "object"}}}
    asked = prepared("messages", n=2, stream=streamed, tools=[tool])
    each, choices = fan_out(asked)
    out = b""
    for one in each:
        if streamed:
            stream = one.translation()
            out += b"".join(map(stream.feed, event_bytes("messages", script)))
        else:
            one.take(whole_bytes("messages", script))
    reply = (
        assemble("chat", read_events(out.decode()).events)
        if streamed
        else json.loads(choices.reply("chat", asked.context))
    )
    assert [choice["message"]["tool_calls"][0]["id"] for choice in reply["choices"]] == ["call_001", "call_001"]
    assert [one.remembered.calls for one in each] == [["call_001"], ["call_001"]]
    assert all(len(one.remembered.entries) == 2 for one in each)
    assert asked.remembered.calls == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_wish_for_no_text_is_granted_as_often(streamed: bool) -> None:
    raw = immediate(prepared("responses", client="completions", n=2, max_tokens=0, stream=streamed))
    if not streamed:
        assert [choice["text"] for choice in json.loads(raw)["choices"]] == ["", ""]
        return
    stream = read_events(raw.decode())
    finished = [choice["index"] for event in stream.events for choice in event.data["choices"]]
    assert (finished, stream.done) == ([0, 1], True)
