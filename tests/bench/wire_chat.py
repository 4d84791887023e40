"""Chat Completions as the benchmark writes and reads it."""

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
    "prompt_tokens": 900,
    "completion_tokens": 320,
    "total_tokens": 1220,
    "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
DONE = b"data: [DONE]\n\n"
REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def write_request(conversation: Conversation) -> Json:
    body: Json = {
        "model": conversation.model,
        "messages": [
            {"role": "system", "content": conversation.system},
            *(message for turn in conversation.turns for message in _write_turn(turn)),
        ],
        "max_completion_tokens": conversation.max_tokens,
    }
    if conversation.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in conversation.tools
        ]
        body["tool_choice"] = "auto"
    if conversation.thinks:
        body["reasoning_effort"] = "medium"
    if conversation.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def _write_turn(turn: Turn) -> list[Json]:
    match turn:
        case User(text):
            return [{"role": "user", "content": text}]
        case Result(call_id, text):
            return [{"role": "tool", "tool_call_id": call_id, "content": text}]
        case Assistant(text, Call() as call):
            return [{"role": "assistant", "content": text, "tool_calls": [_write_call(call)]}]
        case Assistant(text):
            return [{"role": "assistant", "content": text}]
        case Echoed(items):
            return list(items)


def _write_call(call: Call) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
    }


def digest_request(body: Json) -> Digest:
    messages = body["messages"]
    return Digest(
        text_chars=sum(_content_chars(message.get("content")) for message in messages),
        calls=sum(len(message.get("tool_calls") or ()) for message in messages),
        results=sum(1 for message in messages if message["role"] == "tool"),
        tools=len(body.get("tools") or ()),
        stream=body.get("stream") is True,
        thoughts=sum(1 for message in messages if any(message.get(field) for field in REASONING)),
    )


def _content_chars(content: str | list[Json] | None) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part["text"]) for part in content or ())


def write_reply(reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text, "refusal": None, "annotations": []}
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.call:
        message["tool_calls"] = [_write_call(reply.call)]
    return {
        "id": "chatcmpl-C7bench0000000000000000000000",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "bench-2026-01-01",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls" if reply.call else "stop",
            }
        ],
        "usage": USAGE,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def write_stream(reply: Reply) -> list[bytes]:
    opening = {"role": "assistant", "content": "", "refusal": None}
    return [
        _chunk([_choice(opening)]),
        *(_chunk([_choice({"reasoning_content": piece})]) for piece in reply.thoughts),
        *(_chunk([_choice({"content": piece})]) for piece in reply.pieces),
        *_call_chunks(reply),
        _chunk([_choice({}, "tool_calls" if reply.call else "stop")]),
        _chunk([], USAGE),
        DONE,
    ]


def _call_chunks(reply: Reply) -> Iterator[bytes]:
    if reply.call:
        call = _write_call(reply.call)
        dumped = call["function"]["arguments"]
        opening = {"index": 0, **call, "function": {"name": reply.call.name, "arguments": ""}}
        yield _chunk([_choice({"tool_calls": [opening]})])
        for piece in reply.argument_pieces(dumped):
            yield _chunk([_choice({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})])


def _choice(delta: Json, finish: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _chunk(choices: list[Json], usage: Json | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-C7bench0000000000000000000000",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "bench-2026-01-01",
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def read_reply(body: Json) -> Outcome:
    choice = body["choices"][0]
    message = choice["message"]
    calls = tuple(
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    )
    ended = choice["finish_reason"] == ("tool_calls" if calls else "stop") and body["usage"]["total_tokens"] == 1220
    return Outcome(message["content"] or "", calls, 0, ended, message.get("reasoning_content") or "")


def read_stream(events: list[bytes]) -> Outcome:
    chunks = [json.loads(event.removeprefix(b"data:")) for event in events[:-1]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    pieces, thoughts = (
        [delta[field] for delta in deltas if delta.get(field)] for field in ("content", "reasoning_content")
    )
    fragments = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    names = [fragment["name"] for fragment in fragments if fragment.get("name")]
    arguments = [fragment["arguments"] for fragment in fragments if fragment.get("arguments")]
    calls = tuple((name, json.loads("".join(arguments))) for name in names)
    finished = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    ended = finished == ["tool_calls" if calls else "stop"] and events[-1] == DONE.strip()
    counted = (chunks[-1].get("usage") or {}).get("total_tokens") == 1220
    deltas_read = len(pieces) + len(thoughts) + len(arguments)
    return Outcome("".join(pieces), calls, deltas_read, ended and counted, "".join(thoughts))


def keep(body: Json) -> Echoed:
    return Echoed((body["choices"][0]["message"],))


WIRE = Wire(
    name="chat",
    path="/v1/chat/completions",
    headers={"authorization": "Bearer bench"},
    write_request=write_request,
    digest_request=digest_request,
    write_reply=write_reply,
    write_stream=write_stream,
    read_reply=read_reply,
    read_stream=read_stream,
    keep=keep,
)
