"""Messages as the benchmark writes and reads it."""

import itertools
import json
from collections.abc import Iterator

from tests.bench.content import (
    Assistant,
    Call,
    Conversation,
    Digest,
    Echoed,
    Json,
    Outcome,
    Reply,
    Result,
    Turn,
    User,
    Wire,
)

USAGE: Json = {
    "input_tokens": 388,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 512,
    "output_tokens": 320,
    "service_tier": "standard",
}


def write_request(conversation: Conversation) -> Json:
    body: Json = {
        "model": conversation.model,
        "max_tokens": conversation.max_tokens,
        "system": conversation.system,
        "messages": [_write_turn(turn) for turn in conversation.turns],
    }
    if conversation.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in conversation.tools
        ]
        body["tool_choice"] = {"type": "auto"}
    if conversation.thinks:
        body["thinking"] = {"type": "enabled", "budget_tokens": 2048}
    if conversation.stream:
        body["stream"] = True
    return body


def _write_turn(turn: Turn) -> Json:
    match turn:
        case User(text):
            return {"role": "user", "content": text}
        case Result(call_id, text):
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}
        case Assistant(text, Call() as call):
            return {"role": "assistant", "content": [{"type": "text", "text": text}, _write_call(call)]}
        case Assistant(text):
            return {"role": "assistant", "content": text}
        case Echoed(items):
            return {"role": "assistant", "content": list(items)}


def _write_call(call: Call) -> Json:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def digest_request(body: Json) -> Digest:
    blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
    return Digest(
        text_chars=_text_chars(_blocks(body.get("system", ""))) + _text_chars(blocks),
        calls=sum(1 for block in blocks if block["type"] == "tool_use"),
        results=sum(1 for block in blocks if block["type"] == "tool_result"),
        tools=len(body.get("tools") or ()),
        stream=body.get("stream") is True,
        thoughts=sum(1 for block in blocks if block["type"] == "thinking" and block["signature"]),
    )


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text_chars(blocks: list[Json]) -> int:
    return sum(
        _text_chars(_blocks(block["content"])) if block["type"] == "tool_result" else len(block.get("text", ""))
        for block in blocks
    )


def write_reply(reply: Reply) -> Json:
    content: list[Json] = [{"type": "text", "text": reply.text, "citations": None}]
    if reply.thought:
        content.insert(0, {"type": "thinking", "thinking": reply.thought, "signature": reply.seal})
    if reply.call:
        content.append(_write_call(reply.call))
    return {**_message(content), "stop_reason": "tool_use" if reply.call else "end_turn"}


def _message(content: list[Json]) -> Json:
    return {
        "id": "msg_01bench000000000000000000",
        "type": "message",
        "role": "assistant",
        "model": "bench-2026-01-01",
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }


def write_stream(reply: Reply) -> list[bytes]:
    opening = {**_message([]), "usage": {**USAGE, "output_tokens": 1}}
    opened = itertools.count()
    stop = {"stop_reason": "tool_use" if reply.call else "end_turn", "stop_sequence": None}
    return [
        _event({"type": "message_start", "message": opening}),
        *_block(opened, {"type": "thinking", "thinking": "", "signature": ""}, _thoughts(reply)),
        *_block(opened, {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in reply.pieces]),
        *_call_block(opened, reply),
        _event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": USAGE["output_tokens"]}}),
        _event({"type": "message_stop"}),
    ]


def _thoughts(reply: Reply) -> list[Json]:
    deltas: list[Json] = [{"type": "thinking_delta", "thinking": thought} for thought in reply.thoughts]
    return [*deltas, {"type": "signature_delta", "signature": reply.seal}] if deltas else []


def _call_block(opened: Iterator[int], reply: Reply) -> Iterator[bytes]:
    if reply.call:
        pieces = reply.argument_pieces(json.dumps(reply.call.arguments))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        yield from _block(opened, {**_write_call(reply.call), "input": {}}, deltas)


def _block(opened: Iterator[int], block: Json, deltas: list[Json]) -> Iterator[bytes]:
    if not deltas:
        return
    index = next(opened)
    yield _event({"type": "content_block_start", "index": index, "content_block": block})
    if index == 0:
        yield _event({"type": "ping"})
    for delta in deltas:
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
    yield _event({"type": "content_block_stop", "index": index})


def _event(event: Json) -> bytes:
    dumped = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    return f"event: {event['type']}\ndata: {dumped}\n\n".encode()


def read_reply(body: Json) -> Outcome:
    texts = [block["text"] for block in body["content"] if block["type"] == "text"]
    calls = tuple((block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use")
    ended = body["stop_reason"] == ("tool_use" if calls else "end_turn") and body["usage"]["output_tokens"] == 320
    thoughts = [block["thinking"] for block in body["content"] if block["type"] == "thinking"]
    return Outcome("".join(texts), calls, 0, ended, "".join(thoughts))


def read_stream(events: list[bytes]) -> Outcome:
    read = [_read_event(event) for event in events]
    deltas = [event["delta"] for event in read if event["type"] == "content_block_delta"]
    pieces, thoughts, arguments = (
        [delta[field] for delta in deltas if delta.get(field)] for field in ("text", "thinking", "partial_json")
    )
    blocks = [event["content_block"] for event in read if event["type"] == "content_block_start"]
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    calls = tuple((name, json.loads("".join(arguments))) for name in names)
    closings = [event for event in read if event["type"] == "message_delta"]
    finished = [event["delta"]["stop_reason"] for event in closings] == ["tool_use" if calls else "end_turn"]
    counted = closings[-1]["usage"]["output_tokens"] == 320
    ended = finished and counted and read[-1]["type"] == "message_stop"
    deltas_read = len(pieces) + len(thoughts) + len(arguments)
    return Outcome("".join(pieces), calls, deltas_read, ended, "".join(thoughts))


def keep(body: Json) -> Echoed:
    return Echoed(tuple(body["content"]))


def _read_event(event: bytes) -> Json:
    name, dumped = event.split(b"\n", 1)
    read: Json = json.loads(dumped.removeprefix(b"data:"))
    if name.removeprefix(b"event:").strip() != read["type"].encode():
        raise ValueError(f"event named {name!r} carries type {read['type']!r}")
    return read


WIRE = Wire(
    name="messages",
    path="/v1/messages",
    headers={"x-api-key": "bench", "anthropic-version": "2023-06-01"},
    write_request=write_request,
    digest_request=digest_request,
    write_reply=write_reply,
    write_stream=write_stream,
    read_reply=read_reply,
    read_stream=read_stream,
    keep=keep,
)
