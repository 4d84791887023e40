"""A turn that the vendor pauses reaches Chat and Responses clients as one answer (mapping.md 12.3)."""

import json

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Target
from proxy.canonical.usage import Usage, total
from proxy.translation import ids
from proxy.translation.continuation import MOST
from proxy.translation.emulation import Emulation
from proxy.translation.prepared import Prepared
from tests.harness.assemble import assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import Json, Protocol, read_events

BODY: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "web_search"}]}
CLIENTS: list[Protocol] = ["chat", "responses"]
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def message(blocks: list[Json], stop: str, number: int = 1, tokens: int = 10) -> Json:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": tokens, "cache_read_input_tokens": 5},
    }


def events(reply: Json) -> list[bytes]:
    """The stream of a message, each block in one delta."""
    begun = {**reply, "content": [], "stop_reason": None}
    found: list[Json] = [{"type": "message_start", "message": begun}]
    deltas = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
    for index, block in enumerate(reply["content"]):
        place = {"index": index}
        kind = block["type"]
        if kind == "server_tool_use":
            whole = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            empty = {**block, "input": {}}
        else:
            name, field = deltas[kind]
            whole = [{"type": name, field: block[field]}]
            empty = {**block, field: ""}
        if "signature" in block:
            whole.append({"type": "signature_delta", "signature": block["signature"]})
            empty["signature"] = ""
        found.append({"type": "content_block_start", **place, "content_block": empty})
        found += [{"type": "content_block_delta", **place, "delta": delta} for delta in whole]
        found.append({"type": "content_block_stop", **place})
    found.append({"type": "message_delta", "delta": {"stop_reason": reply["stop_reason"]}, "usage": reply["usage"]})
    found.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in found]


def prepared(client: Protocol, *, stream: bool, must_call: bool = False) -> Prepared:
    context = ReplyContext("req_1", "m", now=1, include_usage=True, summary_requested=True)
    return Prepared(
        client,
        Target("messages", "m"),
        json.dumps(BODY).encode(),
        stream,
        stream,
        context,
        LossReport(),
        Spelling(encode=ids.for_client(client), mint=ids.mint),
        emulation=Emulation(pauses=True, directive="Call." if must_call else None),
    )


ROUNDS = [
    message([THINKING, text("One "), SEARCH], "pause_turn"),
    message([text("two "), SEARCH], "pause_turn", 2, 20),
    message([text("three.")], "end_turn", 3, 30),
]
GOING_ON = [
    {**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": ROUNDS[0]["content"]}]},
    {
        **BODY,
        "messages": [
            *BODY["messages"],
            {"role": "assistant", "content": ROUNDS[0]["content"] + ROUNDS[1]["content"]},
        ],
    },
]


def words(client: Protocol, reply: Json) -> str:
    if client == "chat":
        return str(reply["choices"][0]["message"]["content"]).replace("\n", "")
    items = [item for item in reply["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in items for part in item["content"])


def stop_and_usage(client: Protocol, reply: Json) -> tuple[str, int, int]:
    usage = reply["usage"]
    if client == "chat":
        return reply["choices"][0]["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"]
    return reply["status"], usage["input_tokens"], usage["output_tokens"]


DONE = {"chat": ("stop", 315, 60), "responses": ("completed", 315, 60)}
CUT = {"chat": "length", "responses": "incomplete"}


@pytest.mark.parametrize("client", CLIENTS)
def test_whole(client: Protocol) -> None:
    asked = prepared(client, stream=False)
    bodies = []
    for reply in ROUNDS[:2]:
        assert asked.take(json.dumps(reply).encode()) is None
        bodies.append(json.loads(asked.body))
    assert bodies == GOING_ON
    last = asked.take(json.dumps(ROUNDS[2]).encode())
    assert last is not None
    reply = json.loads(last)
    assert (words(client, reply), stop_and_usage(client, reply)) == ("One two three.", DONE[client])
    assert asked.usage == Usage(300, 15, output=60)


@pytest.mark.parametrize("client", CLIENTS)
def test_streamed(client: Protocol) -> None:
    asked = prepared(client, stream=True)
    translation = asked.translation()
    out = b""
    bodies = []
    for reply in ROUNDS:
        for event in events(reply):
            assert translation.goes_on() is None
            out += translation.feed(event)
        if (again := translation.goes_on()) is not None:
            bodies.append(json.loads(again))
            assert not translation.over(out)
    out += translation.end()
    assert bodies == GOING_ON
    assert translation.over(out)
    assert check_stream(client, out) == []
    reply = assemble(client, read_events(out.decode()).events)
    assert (words(client, reply), stop_and_usage(client, reply)) == ("One two three.", DONE[client])
    assert translation.usage == Usage(300, 15, output=60)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_backend_that_streams_to_a_client_that_waits(client: Protocol) -> None:
    asked = prepared(client, stream=False)
    bodies = []
    last: bytes | None = None
    for reply in ROUNDS:
        folding = asked.folding()
        for event in events(reply):
            assert not folding.closed
            folding.feed(event)
        last = asked.take_folded(folding)
        if last is None:
            bodies.append(json.loads(asked.body))
    assert bodies == GOING_ON
    assert last is not None
    reply = json.loads(last)
    assert (words(client, reply), stop_and_usage(client, reply)) == ("One two three.", DONE[client])


@pytest.mark.parametrize("client", CLIENTS)
def test_it_ends_as_cut_when_it_goes_on_too_often(client: Protocol) -> None:
    paused = message([text("again ")], "pause_turn")
    whole, streaming = prepared(client, stream=False), prepared(client, stream=True)
    for _ in range(MOST):
        assert whole.take(json.dumps(paused).encode()) is None
    last = whole.take(json.dumps(paused).encode())
    assert last is not None
    assert stop_and_usage(client, json.loads(last))[0] == CUT[client]
    translation = streaming.translation()
    out = b""
    rounds = 0
    while not translation.over(out):
        out += b"".join(map(translation.feed, events(paused)))
        rounds += translation.goes_on() is not None
    assert rounds == MOST
    reply = assemble(client, read_events(out.decode()).events)
    assert (words(client, reply), stop_and_usage(client, reply)[0]) == ("again " * (MOST + 1), CUT[client])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("asked_again", [True, False])
def test_a_pause_that_does_not_go_on_is_no_clean_end(client: Protocol, asked_again: bool) -> None:
    translation = prepared(client, stream=True).translation()
    out = b"".join(map(translation.feed, events(ROUNDS[0])[:-1]))  # without the end mark
    if asked_again:
        out += translation.end()
        assert translation.goes_on() is not None
    out += translation.fail(Error(ErrorClass.OVERLOADED, "busy"))
    assert translation.failed is not None
    assert check_stream(client, out, expect_end="error") == []


def test_a_messages_client_sees_the_pause_itself() -> None:
    asked = Prepared("messages", Target("messages", "m"), b"{}", False, False, ReplyContext("r", "m"), LossReport())
    raw = json.dumps(ROUNDS[0]).encode()
    assert asked.take(raw) == raw
    stream = Prepared(
        "messages", Target("messages", "m"), b"{}", True, True, ReplyContext("r", "m"), LossReport()
    ).translation()
    assert [stream.feed(event) for event in events(ROUNDS[0])] == events(ROUNDS[0])
    assert stream.goes_on() is None


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("streams", [False, True])
def test_a_whole_answer_without_the_call_is_asked_for_once_more(client: Protocol, streams: bool) -> None:
    asked = prepared(client, stream=False, must_call=True)
    answers = []
    for number, said in enumerate(("No.", "Still no.")):
        reply = message([text(said)], "end_turn", number)
        if streams:
            folding = asked.folding()
            for event in events(reply):
                folding.feed(event)
            answers.append(asked.take_folded(folding))
        else:
            answers.append(asked.take(json.dumps(reply).encode()))
        assert json.loads(asked.body) == BODY
    assert answers[0] is None
    assert answers[1] is not None
    reply = json.loads(answers[1])
    assert words(client, reply) == "Still no."
    assert stop_and_usage(client, reply)[1:] == (210, 20)


@pytest.mark.parametrize(
    "reply",
    [
        message([{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}], "tool_use"),
        message([text("I can't.")], "refusal"),
        message([text("I w")], "max_tokens"),
    ],
)
def test_a_call_and_an_answer_that_ended_otherwise_are_taken(reply: Json) -> None:
    assert prepared("chat", stream=False, must_call=True).take(json.dumps(reply).encode()) is not None


def test_usage_adds_up() -> None:
    first = Usage(1, 2, 3, 1, 4, 2, {"web_search": 1})
    second = Usage(10, 20, 30, 10, 40, 20, {"web_search": 2, "web_fetch": 1}, estimated=True)
    assert total(first, second) == Usage(11, 22, 33, 11, 44, 22, {"web_search": 3, "web_fetch": 1}, estimated=True)
