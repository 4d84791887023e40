"""Numbers in the arguments of calls that no 64 bit hold, and NaN: the text says them as the backend did, whole and
streamed (mapping.md 0.3).
"""

import json

import pytest

from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import BackendProtocol, ClientProtocol
from proxy.translation.prepared import Prepared
from tests.harness.assemble import assemble
from tests.harness.wire import Protocol, read_events

REQUESTS: dict[Protocol, str] = {
    "chat": '{"model":"m","stream":%s,"messages":[{"role":"user","content":"hi"}]}',
    "responses": '{"model":"m","stream":%s,"input":"hi"}',
    "messages": '{"model":"m","stream":%s,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}',
}
PLACED = {
    "CALL": '{"id":"c1","type":"function","index":0,"function":{"name":"f","arguments":ARGS}}',
    "ITEM": '{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","status":"completed","arguments":ARGS}',
    "BLOCK": '{"type":"tool_use","id":"c1","name":"f","input":ARGS}',
    "RESPONSE": '"id":"resp_1","object":"response","created_at":1,"model":"m","error":null',
}
WHOLE: dict[BackendProtocol, str] = {
    "chat": '{"id":"1","choices":[{"index":0,"message":{"tool_calls":[CALL]},"finish_reason":"stop"}]}',
    "responses": '{RESPONSE,"status":"completed","output":[ITEM]}',
    "messages": '{"id":"1","type":"message","model":"m","stop_reason":"tool_use","content":[BLOCK]}',
}
STREAMS: dict[BackendProtocol, list[str]] = {
    "chat": [
        '{"id":"1","choices":[{"index":0,"delta":{"content":"Hm","tool_calls":[CALL]}}]}',
        '{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
    ],
    "responses": [
        '{"type":"response.created","response":{RESPONSE,"status":"in_progress","output":[]}}',
        '{"type":"response.output_item.done","output_index":0,"item":ITEM}',
        '{"type":"response.completed","response":{RESPONSE,"status":"completed","output":[ITEM]}}',
    ],
    "messages": [
        '{"type":"message_start","message":{"id":"1","model":"m","usage":{}}}',
        '{"type":"content_block_start","index":0,"content_block":BLOCK}',
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"}}',
        '{"type":"message_stop"}',
    ],
}
ARGUMENTS = [
    '{"id":123456789012345678901}',
    '{"id":-98765432109876543210,"of":[{"n":18446744073709551616}],"none":null}',
    '{"id":NaN,"low":-Infinity,"high":Infinity,"n":123456789012345678901}',
    '{"n":1.5e+300}',
]
PAIRS = [(client, backend) for client in REQUESTS for backend in WHOLE if client != backend]


def said(template: str, arguments: str) -> str:
    for name, text in PLACED.items():
        template = template.replace(name, text)
    return template.replace("ARGS", arguments)


def prepared(client: ClientProtocol, backend: BackendProtocol, *, stream: bool) -> Prepared:
    raw = (REQUESTS[client] % json.dumps(stream)).encode()  # type: ignore[index]
    return pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options())


def arguments_of(client: Protocol, reply: dict[str, object]) -> str:
    """The text of the one call's arguments; for Messages, of what stands in its place."""
    found: list[dict[str, object]]
    match client:
        case "chat":
            found = reply["choices"][0]["message"]["tool_calls"]  # type: ignore[index]
            return str(found[0]["function"]["arguments"])  # type: ignore[index]
        case "responses":
            found = [item for item in reply["output"] if item["type"] == "function_call"]  # type: ignore[attr-defined]
            return str(found[0]["arguments"])
        case "messages":
            found = [block for block in reply["content"] if block["type"] == "tool_use"]  # type: ignore[attr-defined]
            return json.dumps(found[0]["input"], separators=(",", ":"))


def expected(client: Protocol, arguments: str) -> str:
    if client == "messages" and "NaN" in arguments:
        return json.dumps({"INVALID_JSON": arguments}, separators=(",", ":"))
    if client == "messages":
        return json.dumps(json.loads(arguments), separators=(",", ":"))
    return arguments


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_of_a_whole_reply(client: Protocol, backend: BackendProtocol, arguments: str) -> None:
    ready = prepared(client, backend, stream=False)
    reply = json.loads(ready.reply(said(WHOLE[backend], arguments).encode()))
    assert arguments_of(client, reply) == expected(client, arguments)


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_of_a_stream(client: Protocol, backend: BackendProtocol, arguments: str) -> None:
    ready = prepared(client, backend, stream=True)
    stream = ready.translation()
    raw = "".join(f"data: {said(event, arguments)}\n\n" for event in STREAMS[backend])
    reply = assemble(client, read_events((stream.feed(raw.encode()) + stream.end()).decode()).events)
    if client != "messages" or "NaN" not in arguments:
        assert arguments_of(client, reply) == expected(client, arguments)
        return
    # What has been said piece by piece can't be wrapped any more, only told.
    assert [loss.rule for loss in ready.losses] == ["bad-args"]
