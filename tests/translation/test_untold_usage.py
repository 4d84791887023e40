"""A backend that tells no usage: the client gets an estimate, never zeros that look real (mapping.md 10.2, 16.2)."""

import json
from collections.abc import Iterator

import pytest

from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.codecs import ClientProtocol
from proxy.translation.prepared import Prepared
from tests.harness.wire import Json, Protocol

WORDS = "It does, as far as I know. " * 6
PROMPT = "Does the café open early? " * 8
REQUESTS: dict[ClientProtocol, Json] = {
    "chat": {"messages": [{"role": "user", "content": PROMPT}], "stream_options": {"include_usage": True}},
    "responses": {"input": PROMPT},
    "messages": {"max_tokens": 50, "messages": [{"role": "user", "content": PROMPT}]},
    "completions": {"prompt": PROMPT, "stream_options": {"include_usage": True}},
}
PAIRS: list[tuple[ClientProtocol, Protocol]] = [
    *(("chat", "messages"), ("chat", "responses"), ("responses", "messages"), ("responses", "chat")),
    *(("messages", "chat"), ("messages", "responses"), ("completions", "chat"), ("completions", "messages")),
]
UNTOLD: dict[Protocol, list[Json]] = {
    "chat": [None, {}, {"prompt_tokens": None, "completion_tokens": None}],
    "responses": [None, {}, {"input_tokens": None}],
    "messages": [None, {}, {"input_tokens": None, "output_tokens": None}],
}


def whole(backend: Protocol, usage: Json) -> Json:
    if backend == "chat":
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": WORDS}}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    if backend == "responses":
        content = [{"type": "output_text", "text": WORDS, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        head = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        return {**head, "output": [item], "usage": usage}
    content = [{"type": "text", "text": WORDS}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return {**head, "content": content, "usage": usage}


def events(backend: Protocol, usage: Json) -> Iterator[Json]:
    reply = whole(backend, usage)
    if backend == "chat":
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        yield {**head, "choices": [{"index": 0, "delta": {"content": WORDS[:9]}, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {"content": WORDS[9:]}, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    elif backend == "responses":
        yield {"type": "response.created", "response": {**reply, "output": [], "status": "in_progress"}}
        place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        yield {"type": "response.output_text.delta", **place, "delta": WORDS}
        yield {"type": "response.output_item.done", "output_index": 0, "item": reply["output"][0]}
        yield {"type": "response.completed", "response": reply}
    else:
        yield {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS}}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
        yield {"type": "message_stop"}


def prepared(client: ClientProtocol, backend: Protocol, *, stream: bool) -> Prepared:
    request = {"model": "m", "stream": stream, **REQUESTS[client]}
    raw = json.dumps(request if stream else {k: v for k, v in request.items() if k != "stream_options"}).encode()
    return pair.prepare(pair.peek(client, raw), Target(backend, "m", Dialect()), pair.Options("req_1"))


def told(client: ClientProtocol, out: bytes, *, stream: bool) -> tuple[int, int]:
    """The tokens of prompt and answer that the client is told in the end."""
    found: Json = {}
    lines = [line[6:] for line in out.decode().splitlines() if line.startswith("data: {")] if stream else [out.decode()]
    for line in lines:
        event = json.loads(line)
        usage = (event.get("response") or event).get("usage") or {}
        found |= {name: count for name, count in usage.items() if count is not None}
    names = (
        ("prompt_tokens", "completion_tokens")
        if client in ("chat", "completions")
        else ("input_tokens", "output_tokens")
    )
    return found[names[0]], found[names[1]]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_what_a_backend_does_not_tell_is_estimated(client: ClientProtocol, backend: Protocol, stream: bool) -> None:
    for usage in UNTOLD[backend]:
        ready = prepared(client, backend, stream=stream)
        if stream:
            translation = ready.translation()
            sent = [f"data: {json.dumps(event)}\n\n".encode() for event in events(backend, usage)]
            out = b"".join([*map(translation.feed, sent), translation.end()])
            assert translation.usage is None
        else:
            out = ready.reply(json.dumps(whole(backend, usage)).encode())
            assert ready.usage is None
        prompt, answer = told(client, out, stream=stream)
        assert 60 < prompt < 75  # 216 bytes, in tokens, with what stands around them
        assert answer == 45  # 162 bytes


@pytest.mark.parametrize("client", ["chat", "completions"])
def test_who_does_not_ask_for_usage_is_told_none(client: ClientProtocol) -> None:
    raw = json.dumps(
        {"model": "m", "stream": True} | {k: v for k, v in REQUESTS[client].items() if k != "stream_options"}
    )
    ready = pair.prepare(pair.peek(client, raw.encode()), Target("messages", "m", Dialect()), pair.Options("req_1"))
    translation = ready.translation()
    sent = [f"data: {json.dumps(event)}\n\n".encode() for event in events("messages", None)]
    assert b"usage" not in b"".join([*map(translation.feed, sent), translation.end()])
