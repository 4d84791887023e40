"""Hold a stream against the grammar that `tables` states, and against what the vendor's SDKs need beyond it."""

import json

from proxy.protocols.messages.tables import GRAMMAR, StreamState

Wire = dict[str, object]


def wire_events(stream: bytes) -> list[Wire]:
    """The events of a stream, each held to its framing: a name that is the type, one line of data, a blank line."""
    if not stream:
        return []
    assert stream.endswith(b"\n\n"), "the last event has no blank line"
    events = []
    for frame in stream[:-2].split(b"\n\n"):
        if frame.startswith(b":"):
            continue
        name, data = frame.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        events.append(event)
    return events


def check_stream(stream: bytes) -> list[Wire]:
    """The events of a legal stream: order by the grammar, indices dense, deltas that fit their block."""
    events = wire_events(stream)
    state: StreamState = "begin"
    index = -1
    block: Wire = {}
    for event in events:
        allowed = GRAMMAR[state]
        assert event["type"] in allowed, f"{event['type']} in state {state}"
        state = allowed[event["type"]]
        if event["type"] == "content_block_start":
            index += 1
            block = event["content_block"]
        if event["type"].startswith("content_block_"):
            assert event["index"] == index
        if event["type"] == "content_block_delta":
            assert (block["type"], event["delta"]["type"]) in FITTING
    assert state == "ended", f"the stream stops in state {state}"
    return events


FITTING = {
    ("text", "text_delta"),
    ("text", "citations_delta"),
    ("thinking", "thinking_delta"),
    ("thinking", "signature_delta"),
    ("tool_use", "input_json_delta"),
    ("server_tool_use", "input_json_delta"),
    ("mcp_tool_use", "input_json_delta"),
}
