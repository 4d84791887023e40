"""Responses as the benchmark writes and reads it. `store` is off: what a store costs is not measured here."""

import itertools
import json
from collections.abc import Iterable, Iterator

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
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 512, "cache_write_tokens": 0},
    "output_tokens": 320,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 1220,
}
REASONING_ID = "rs_0bench000000000000000000000000000000000000"
ITEM_ID = "msg_0bench00000000000000000000000000000000000000000"

DELTAS = (
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
)


def write_request(conversation: Conversation) -> Json:
    body: Json = {
        "model": conversation.model,
        "instructions": conversation.system,
        "input": [
            item for number, turn in enumerate(conversation.turns) for item in _write_turn(turn, f"msg_{number:048x}")
        ],
        "max_output_tokens": conversation.max_tokens,
        "store": False,
    }
    if conversation.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in conversation.tools
        ]
        body["tool_choice"] = "auto"
    if conversation.thinks:
        body["reasoning"] = {"effort": "medium", "summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
    if conversation.stream:
        body["stream"] = True
    return body


def _write_turn(turn: Turn, item_id: str) -> list[Json]:
    match turn:
        case User(text):
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
        case Result(call_id, text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
        case Assistant(text, Call() as call):
            return [_message(item_id, [_text_part(text)], "completed"), _write_call(call)]
        case Assistant(text):
            return [_message(item_id, [_text_part(text)], "completed")]
        case Echoed(items):
            return list(items)


def _message(item_id: str, content: list[Json], status: str) -> Json:
    return {"type": "message", "id": item_id, "role": "assistant", "status": status, "content": content}


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _write_call(call: Call) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(call.arguments),
        "status": "completed",
    }


def digest_request(body: Json) -> Digest:
    items = body["input"]
    kinds = [item.get("type", "message") for item in items]
    return Digest(
        text_chars=len(body.get("instructions") or "") + sum(_item_chars(item) for item in items),
        calls=kinds.count("function_call"),
        results=kinds.count("function_call_output"),
        tools=len(body.get("tools") or ()),
        stream=body.get("stream") is True,
        thoughts=sum(1 for item in items if item.get("type") == "reasoning" and item.get("encrypted_content")),
    )


def _item_chars(item: Json) -> int:
    if item.get("type") == "reasoning":
        return 0
    content = item.get("output" if item.get("type") == "function_call_output" else "content", "")
    return len(content) if isinstance(content, str) else sum(len(part["text"]) for part in content)


def write_reply(reply: Reply) -> Json:
    return _response("completed", _output(reply))


def _output(reply: Reply) -> list[Json]:
    return [
        *([_reasoning(reply)] if reply.thought else ()),
        *([_message(ITEM_ID, [_text_part(reply.text)], "completed")] if reply.text else ()),
        *([_write_call(reply.call)] if reply.call else ()),
    ]


def _reasoning(reply: Reply) -> Json:
    summary = {"type": "summary_text", "text": reply.thought}
    item_id = REASONING_ID + reply.seal[:6].encode().hex()  # unlike any other's
    return {"type": "reasoning", "id": item_id, "summary": [summary], "encrypted_content": reply.seal}


def _response(status: str, output: list[Json]) -> Json:
    completed = status == "completed"
    return {
        "id": "resp_0bench0000000000000000000000000000000000000000",
        "object": "response",
        "created_at": 1790000000,
        "status": status,
        "background": False,
        "completed_at": 1790000002 if completed else None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": 4096,
        "model": "bench-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": USAGE if completed else None,
        "metadata": {},
    }


def write_stream(reply: Reply) -> list[bytes]:
    output = _output(reply)
    return _events(
        [
            {"type": "response.created", "response": _response("in_progress", [])},
            {"type": "response.in_progress", "response": _response("in_progress", [])},
            *(event for index, item in enumerate(output) for event in _item_events(index, item, reply)),
            {"type": "response.completed", "response": _response("completed", output)},
        ]
    )


def _item_events(index: int, item: Json, reply: Reply) -> Iterator[Json]:
    opening, inner = {"reasoning": _reasoning_events, "message": _text_events, "function_call": _call_events}[
        item["type"]
    ](item, reply)
    at = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **opening}}
    for event in inner:
        yield {"type": event["type"], **at, **event}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _reasoning_events(item: Json, reply: Reply) -> tuple[Json, list[Json]]:
    [part] = item["summary"]
    kind = "response.reasoning_summary"
    return {"summary": [], "encrypted_content": ""}, [
        {"type": f"{kind}_part.added", "summary_index": 0, "part": {**part, "text": ""}},
        *({"type": f"{kind}_text.delta", "summary_index": 0, "delta": thought} for thought in reply.thoughts),
        {"type": f"{kind}_text.done", "summary_index": 0, "text": reply.thought},
        {"type": f"{kind}_part.done", "summary_index": 0, "part": part},
    ]


def _text_events(item: Json, reply: Reply) -> tuple[Json, list[Json]]:
    [part] = item["content"]
    at = {"content_index": 0}
    return {"content": [], "status": "in_progress"}, [
        {"type": "response.content_part.added", **at, "part": _text_part("")},
        *({"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in reply.pieces),
        {"type": "response.output_text.done", **at, "text": reply.text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
    ]


def _call_events(item: Json, reply: Reply) -> tuple[Json, list[Json]]:
    kind = "response.function_call_arguments"
    return {"arguments": "", "status": "in_progress"}, [
        *({"type": f"{kind}.delta", "delta": piece} for piece in reply.argument_pieces(item["arguments"])),
        {"type": f"{kind}.done", "name": item["name"], "arguments": item["arguments"]},
    ]


def _events(events: Iterable[Json]) -> list[bytes]:
    numbers = itertools.count()
    numbered = ({"type": event["type"], "sequence_number": next(numbers), **event} for event in events)
    return [
        f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()
        for event in numbered
    ]


def read_reply(body: Json) -> Outcome:
    output = body["output"]
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    calls = tuple((item["name"], json.loads(item["arguments"])) for item in output if item["type"] == "function_call")
    ended = body["status"] == "completed" and body["usage"]["total_tokens"] == 1220
    thoughts = [part["text"] for item in output if item["type"] == "reasoning" for part in _said(item)]
    return Outcome("".join(texts), calls, 0, ended, "".join(thoughts))


def _said(reasoning: Json) -> list[Json]:
    said: list[Json] = reasoning.get("content") or reasoning["summary"]
    return said


def read_stream(events: list[bytes]) -> Outcome:
    if events[-1] == b"data: [DONE]":  # Open Responses demands it, OpenAI does not send it
        events = events[:-1]
    read = [json.loads(event.split(b"\ndata:", 1)[1]) for event in events]
    if [event["sequence_number"] for event in read] != list(range(len(read))):
        raise ValueError("sequence_number is not 0, 1, 2, …")
    deltas = [event for event in read if event["type"] in DELTAS and event["delta"]]
    final = read_reply(read[-1]["response"])
    told = {kind: "".join(event["delta"] for event in deltas if event["type"] == kind) for kind in DELTAS}
    text, arguments, *thoughts = told.values()
    calls = [json.loads(arguments)] if arguments else []
    same = (final.text, final.thought, [call for _, call in final.calls]) == (text, "".join(thoughts), calls)
    ended = read[-1]["type"] == "response.completed" and final.ended and same
    return Outcome(text, final.calls, len(deltas), ended, final.thought)


def keep(body: Json) -> Echoed:
    return Echoed(tuple(body["output"]))


WIRE = Wire(
    name="responses",
    path="/v1/responses",
    headers={"authorization": "Bearer bench"},
    write_request=write_request,
    digest_request=digest_request,
    write_reply=write_reply,
    write_stream=write_stream,
    read_reply=read_reply,
    read_stream=read_stream,
    keep=keep,
)
