"""The two ends of an exchange, joined without a proxy between them."""

import json
import zlib

import pytest

from tests.harness.backend import ScriptedBackend
from tests.harness.client import Reply, get_status, post
from tests.harness.http_wire import Head
from tests.harness.scripted_reply import Request, script_reply
from tests.harness.wire import Json, read_events

OK = {"status": 200, "headers": {"content-type": "application/json"}}
SSE = {"status": 200, "headers": {"content-type": "text/event-stream"}}
EVENTS = 'data: {"n":1}\n\ndata: {"n":2}\n\ndata: {"n":3}\n\ndata: [DONE]\n\n'


async def _ask(turn: Json, *, path: str = "/v1/chat/completions", leave_after_events: int | None = None) -> Reply:
    backend = ScriptedBackend("chat")
    await backend.play(turn)
    try:
        reply = await post(backend.port, path, {"x-key": "k"}, b'{"a":"b"}', leave_after_events=leave_after_events)
        if leave_after_events:
            await backend.settled()
            assert reply.left_at is not None
            assert backend.requests[0].closed_at is not None
            assert backend.requests[0].closed_at - reply.left_at < 1
        return reply
    finally:
        backend.close()


async def test_a_json_reply_and_what_was_asked() -> None:
    backend = ScriptedBackend("chat")
    await backend.play({"upstream_reply": {**OK, "json": {"x": "é"}}, "upstream_reply_next": {**OK, "text": "2nd"}})
    first, second = [await post(backend.port, "/chat/completions", {"x-key": "k"}, b'{"a":1}') for _ in range(2)]
    assert (first.status, first.header("content-type"), json.loads(first.body)) == (200, "application/json", {"x": "é"})
    assert second.body == b"2nd"
    assert (first.broken, first.streamed) == (False, False)
    assert [(request.method, request.path, request.body) for request in backend.requests] == [
        ("POST", "/chat/completions", b'{"a":1}')
    ] * 2
    assert backend.requests[0].head.header("x-key") == "k"
    assert backend.requests[0].closed_at is None
    backend.close()


@pytest.mark.parametrize("modifiers", [{}, {"split_every": 5, "pause_ms": 0}, {"encoding": "gzip", "pause_ms": 0}])
async def test_a_stream_arrives_whole(modifiers: Json) -> None:
    reply = await _ask({"upstream_reply": {**SSE, "sse": EVENTS, **modifiers}})
    assert reply.streamed
    assert not reply.broken
    assert reply.body.decode() == EVENTS


async def test_a_stream_is_cut_after_so_many_events() -> None:
    reply = await _ask({"upstream_reply": {**SSE, "sse": EVENTS, "close_after": 2}})
    assert reply.broken
    assert [event.data for event in read_events(reply.body.decode()).events] == [{"n": 1}, {"n": 2}]


async def test_the_backend_sees_when_the_client_leaves() -> None:
    reply = await _ask({"upstream_reply": {**SSE, "sse": EVENTS, "pause_ms": 5000}}, leave_after_events=1)
    assert not reply.broken


async def test_only_the_protocol_s_own_endpoint_is_served() -> None:
    turn = {"upstream_reply": {"none": True}}
    assert (await _ask(turn)).status == 404
    assert (await _ask({"upstream_reply": {**OK, "json": {}}}, path="/v1/messages")).status == 404


async def test_a_port_where_nobody_listens_comes_back() -> None:
    backend = ScriptedBackend("chat")
    await backend.listen()
    assert await get_status(backend.port, "/v1/models") == 200
    await backend.play({"upstream_reply": {"connect_error": True}})
    assert await get_status(backend.port, "/v1/models") is None
    await backend.play({"upstream_reply": {"none": True}})
    assert await get_status(backend.port, "/v1/models") == 200
    backend.close()


def _request(body: Json) -> Request:
    return Request(Head("POST /v1/messages HTTP/1.1", [("accept-encoding", "identity")]), json.dumps(body).encode())


def test_a_reply_takes_names_from_the_request() -> None:
    request = _request({"tools": [{"name": 'say "hi"', "schema": {"properties": {"input": {}}}}]})
    wanted = {**OK, "json": {"name": "{{req:tools[0].name}}", "{{req_key:tools[0].schema.properties}}": 1}}
    assert json.loads(script_reply(wanted, request).writes[0]) == {"name": 'say "hi"', "input": 1}
    assert script_reply({**OK, "json": "{{req:tools[1].name}}"}, request).missing == ["tools[1].name"]


def test_arguments_come_in_pieces() -> None:
    deltas = {"key": "{{req_key:properties}}", "value": "grün", "pieces": 3}
    reply = script_reply({**SSE, "sse": "{{json_deltas}}"}, _request({"properties": {"q": {}}}), deltas)
    events = read_events(b"".join(reply.writes).decode()).events
    assert len(events) == len(reply.writes) == 3
    assert "".join(event.data["delta"]["partial_json"] for event in events) == r'{"q": "gr\u00fcn"}'


def test_bytes_that_are_no_characters_and_gzip_only_where_accepted() -> None:
    wanted = {**SSE, "sse_chunks": ["a", {"b64": "w6k="}], "encoding": "gzip"}
    assert script_reply(wanted, _request({})).writes == [b"a", "é".encode()]
    anyone = Request(Head("POST / HTTP/1.1"), b"{}")
    packed = script_reply(wanted, anyone)
    assert packed.headers["content-encoding"] == "gzip"
    assert zlib.decompress(b"".join(packed.writes), wbits=31) == "aé".encode()
