"""The content of a paused message, as it has to be sent back."""

import pytest

from proxy.protocols.messages.content import MessageContent, continued
from tests.harness.wire import Json

SEARCH: dict[str, object] = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: dict[str, object] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"url": "https://e.test"}],
}
CITED = {"type": "web_search_result_location", "url": "https://e.test", "encrypted_index": "x"}


def start(block: Json) -> Json:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def delta(kind: str, **fields: Json) -> Json:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


STOP: Json = {"type": "content_block_stop", "index": 0}


def test_every_kind_of_block_comes_back_as_it_was() -> None:
    content = MessageContent()
    stream: list[Json] = [
        {"type": "message_start", "message": {"id": "m", "container": None}},
        start({"type": "thinking", "thinking": "", "signature": ""}),
        delta("thinking_delta", thinking="I sh"),
        delta("thinking_delta", thinking="ould"),
        delta("signature_delta", signature="abc"),
        STOP,
        start({"type": "redacted_thinking", "data": "d"}),
        STOP,
        start(SEARCH),
        delta("input_json_delta", partial_json='{"query":'),
        delta("input_json_delta", partial_json="12345678901234567890123}"),
        STOP,
        start(FOUND),
        STOP,
        start({"type": "text", "text": ""}),
        delta("text_delta", text="It "),
        delta("citations_delta", citation=CITED),
        delta("text_delta", text="is."),
        STOP,
        start({"type": "compaction"}),
        delta("compaction_delta", content="so far"),
        STOP,
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn", "container": {"id": "container_1"}}},
        {"type": "message_stop"},
    ]
    for event in stream:
        content.feed(event)
    assert content.blocks == [
        {"type": "thinking", "thinking": "I should", "signature": "abc"},
        {"type": "redacted_thinking", "data": "d"},
        {**SEARCH, "input": {"query": 12345678901234567890123}},
        FOUND,
        {"type": "text", "text": "It is.", "citations": [CITED]},
        {"type": "compaction", "content": "so far"},
    ]
    assert content.container == "container_1"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": 3},
        {"type": "content_block_start", "content_block": "no"},
        {"type": "content_block_delta", "delta": None},
        delta("text_delta", text=7),
        delta("input_json_delta"),
        {"type": "message_start", "message": {"container": {"id": 1}}},
        {"type": "message_delta"},
    ],
)
def test_what_makes_no_sense_is_passed_over(event: Json) -> None:
    content = MessageContent()
    content.feed(event)
    content.feed(start(SEARCH))
    content.feed(delta("input_json_delta", partial_json='{"cut'))
    content.feed(STOP)
    assert (content.blocks, content.container) == ([SEARCH], None)


def test_the_turn_that_goes_on_is_one() -> None:
    user = {"role": "user", "content": "hi"}
    body: Json = {"model": "m", "messages": [user], "tools": []}
    once = continued(body, [SEARCH], "container_1")
    turn = {"role": "assistant", "content": [SEARCH]}
    assert once == {**body, "messages": [user, turn], "container": "container_1"}
    twice = continued(once, [FOUND], None)
    assert twice["messages"] == [user, {"role": "assistant", "content": [SEARCH, FOUND]}]
    assert body == {"model": "m", "messages": [user], "tools": []}
