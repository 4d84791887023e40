"""What a model says, written as the reply and as the event stream of each protocol, the way the vendors write them."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.wire import DONE, Json, Protocol, chat_event, typed_event

INPUT_TOKENS, OUTPUT_TOKENS = 12, 7
CREATED = 1790000000


@dataclass(frozen=True)
class Call:
    """free_text: what a tool without a schema gets in place of arguments."""

    id: str
    name: str
    arguments: Json
    free_text: str = ""

    @property
    def json_text(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Answer:
    """number: makes the ids of this answer; two answers with one number have the same ids."""

    model: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    number: int = 1


def sign(reasoning: str) -> str:
    """The token by which a vendor recognises its own reasoning when it comes back."""
    return hashlib.sha256(reasoning.encode()).hexdigest()


def write_whole(protocol: Protocol, answer: Answer) -> Json:
    return WHOLE[protocol](answer)


def write_stream(protocol: Protocol, answer: Answer) -> list[Json]:
    """The events, for Chat with the final `[DONE]`."""
    return STREAM[protocol](answer)


def render(protocol: Protocol, events: list[Json]) -> bytes:
    write = chat_event if protocol == "chat" else typed_event
    return "".join(map(write, events)).encode()


def _words(text: str) -> list[str]:
    """Text as a model speaks it, a word at a time."""
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


# ---- Chat Completions

CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _chat_finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _chat_whole(answer: Answer) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [_chat_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _chat_finish(answer), "logprobs": None}
    head = {"id": f"chatcmpl-{answer.number}", "object": "chat.completion", "created": CREATED, "model": answer.model}
    return {**head, "choices": [choice], "usage": CHAT_USAGE}


def _chat_call(call: Call) -> Json:
    if call.free_text:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.free_text}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json_text}}


def _chat_call_deltas(call: Call, index: int) -> list[Json]:
    kind, field, text = (
        ("custom", "input", call.free_text) if call.free_text else ("function", "arguments", call.json_text)
    )
    begun = {"index": index, "id": call.id, "type": kind, kind: {"name": call.name, field: ""}}
    return [begun, *({"index": index, kind: {field: half}} for half in _halves(text))]


def _chat_stream(answer: Answer) -> list[Json]:
    head = {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": answer.model,
    }

    def chunk(delta: Json, finish_reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return {**head, "choices": [choice], "usage": None}

    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": answer.reasoning}] if answer.reasoning else []
    deltas += [{"content": word} for word in _words(answer.text)]
    for index, call in enumerate(answer.calls):
        deltas += [{"tool_calls": [delta]} for delta in _chat_call_deltas(call, index)]
    usage_chunk = {**head, "choices": [], "usage": CHAT_USAGE}
    return [*map(chunk, deltas), chunk({}, _chat_finish(answer)), usage_chunk, DONE]


# ---- Messages

MESSAGES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "output_tokens": OUTPUT_TOKENS,
}


def _messages_head(answer: Answer) -> Json:
    return {
        "id": f"msg_{answer.number:04}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**MESSAGES_USAGE, "output_tokens": 1},
    }


def _messages_stop(answer: Answer) -> Json:
    return {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}


def _messages_whole(answer: Answer) -> Json:
    content: list[Json] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": sign(answer.reasoning)})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in answer.calls
    ]
    return {**_messages_head(answer), "content": content, **_messages_stop(answer), "usage": MESSAGES_USAGE}


def _messages_stream(answer: Answer) -> list[Json]:
    blocks: list[tuple[Json, list[Json]]] = []
    if answer.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": answer.reasoning},
            {"type": "signature_delta", "signature": sign(answer.reasoning)},
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if answer.text:
        words = [{"type": "text_delta", "text": word} for word in _words(answer.text)]
        blocks.append(({"type": "text", "text": ""}, words))
    for call in answer.calls:
        halves = [{"type": "input_json_delta", "partial_json": half} for half in _halves(call.json_text)]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, halves))

    events: list[Json] = [{"type": "message_start", "message": _messages_head(answer)}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"type": "message_delta", "delta": _messages_stop(answer), "usage": MESSAGES_USAGE}
    return [*events, stop, {"type": "message_stop"}]


# ---- Responses

RESPONSES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def response_object(answer: Answer, status: str, output: list[Json], usage: Json = None) -> Json:
    return {
        "id": f"resp_{answer.number:04}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
    }


def _responses_items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        item_id = f"rs_{answer.number:04}"
        items.append(
            {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": sign(answer.reasoning)}
        )
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        item_id = f"msg_{answer.number:04}"
        items.append({"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    for place, call in enumerate(answer.calls):
        item_id = f"{'ctc' if call.free_text else 'fc'}_{answer.number:04}_{place}"
        named = {"id": item_id, "call_id": call.id, "name": call.name, "status": "completed"}
        if call.free_text:
            items.append({"type": "custom_tool_call", **named, "input": call.free_text})
        else:
            items.append({"type": "function_call", **named, "arguments": call.json_text})
    return items


def _responses_whole(answer: Answer) -> Json:
    return response_object(answer, "completed", _responses_items(answer), RESPONSES_USAGE)


def _responses_stream(answer: Answer) -> list[Json]:
    items = _responses_items(answer)
    begun = response_object(answer, "in_progress", [])
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        announced, body = ITEM_EVENTS[item["type"]](item)
        events.append({"type": "response.output_item.added", "output_index": index, "item": announced})
        events += [{**event, "item_id": item["id"], "output_index": index} for event in body]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": _responses_whole(answer)})
    return numbered(events)


def numbered(events: list[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _reasoning_events(item: Json) -> tuple[Json, list[Json]]:
    part, at = item["summary"][0], {"summary_index": 0}
    stem = "response.reasoning_summary"
    return {**item, "summary": [], "encrypted_content": None}, [
        {"type": f"{stem}_part.added", **at, "part": {**part, "text": ""}},
        {"type": f"{stem}_text.delta", **at, "delta": part["text"]},
        {"type": f"{stem}_text.done", **at, "text": part["text"]},
        {"type": f"{stem}_part.done", **at, "part": part},
    ]


def _message_events(item: Json) -> tuple[Json, list[Json]]:
    part, at = item["content"][0], {"content_index": 0}
    words = [
        {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in _words(part["text"])
    ]
    return {**item, "status": "in_progress", "content": []}, [
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *words,
        {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
    ]


def _call_events(item: Json) -> tuple[Json, list[Json]]:
    stem, text = "response.function_call_arguments", item["arguments"]
    return {**item, "status": "in_progress", "arguments": ""}, [
        *({"type": f"{stem}.delta", "delta": half} for half in _halves(text)),
        {"type": f"{stem}.done", "arguments": text},
    ]


def _custom_call_events(item: Json) -> tuple[Json, list[Json]]:
    stem, text = "response.custom_tool_call_input", item["input"]
    return {**item, "status": "in_progress", "input": ""}, [
        *({"type": f"{stem}.delta", "delta": half} for half in _halves(text)),
        {"type": f"{stem}.done", "input": text},
    ]


ITEM_EVENTS: dict[str, Callable[[Json], tuple[Json, list[Json]]]] = {
    "reasoning": _reasoning_events,
    "message": _message_events,
    "function_call": _call_events,
    "custom_tool_call": _custom_call_events,
}

WHOLE: dict[Protocol, Callable[[Answer], Json]] = {
    "chat": _chat_whole,
    "responses": _responses_whole,
    "messages": _messages_whole,
}
STREAM: dict[Protocol, Callable[[Answer], list[Json]]] = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "messages": _messages_stream,
}
