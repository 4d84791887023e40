"""Legal streams of each protocol: reasoning, text, two calls, usage. Tests mutate them or feed them to readers."""

import itertools
from collections.abc import Iterable

from tests.harness.wire import DONE, Json, Protocol, chat_event, typed_event

CHAT_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "demo-model"}
CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def chat_chunk(delta: Json, finish_reason: str | None = None) -> Json:
    return {
        **CHAT_HEAD,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}],
        "usage": None,
    }


def chat_stream() -> list[Json]:
    def opening(index: int) -> Json:
        function = {"name": "get_weather", "arguments": ""}
        return chat_chunk(
            {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}
        )

    def arguments(index: int, text: str) -> Json:
        return chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    return [
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "Two cities."}),
        chat_chunk({"content": "Let me "}),
        chat_chunk({"content": "look."}),
        opening(0),
        arguments(0, '{"city":'),
        arguments(0, '"Lima"}'),
        opening(1),
        arguments(1, '{"city":"Oslo"}'),
        chat_chunk({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "Two cities."}]}),
        chat_chunk({}, "tool_calls"),
        {**CHAT_HEAD, "choices": [], "usage": CHAT_USAGE},
        DONE,
    ]


MESSAGES_USAGE = {
    "input_tokens": 9,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "output_tokens": 5,
}


def messages_stream() -> list[Json]:
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "demo-model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**MESSAGES_USAGE, "output_tokens": 0},
    }
    blocks: list[tuple[Json, list[Json]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "Two cities."},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        ),
        (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": "Let me "}, {"type": "text_delta", "text": "look."}],
        ),
        (
            {"type": "tool_use", "id": "call_0", "name": "get_weather", "input": {}},
            [
                {"type": "input_json_delta", "partial_json": '{"city":'},
                {"type": "input_json_delta", "partial_json": '"Lima"}'},
            ],
        ),
        (
            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"city":"Oslo"}'}],
        ),
    ]
    events: list[Json] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": stop, "usage": MESSAGES_USAGE}, {"type": "message_stop"}]


def response(status: str, output: list[Json], usage: Json = None) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1790000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "demo-model",
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


RESPONSES_USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}


def responses_stream() -> list[Json]:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Two cities."}]}
    part = {"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    calls = [
        {
            "id": f"fc_{number}",
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": "get_weather",
            "arguments": f'{{"city":"{city}"}}',
            "status": "completed",
        }
        for number, city in enumerate(["Lima", "Oslo"])
    ]
    output = [reasoning, message, *calls]
    events: list[Json] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
        *_reasoning_events(reasoning),
        *_message_events(message, ["Let me ", "look."]),
        *itertools.chain.from_iterable(_call_events(2 + number, call) for number, call in enumerate(calls)),
        {"type": "response.completed", "response": response("completed", output, RESPONSES_USAGE)},
    ]
    return numbered(events)


def numbered(events: Iterable[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _reasoning_events(item: Json) -> list[Json]:
    part = item["summary"][0]
    at = {"item_id": item["id"], "output_index": 0, "summary_index": 0}
    stem = "response.reasoning_summary"
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "summary": []}},
        {"type": f"{stem}_part.added", **at, "part": {**part, "text": ""}},
        {"type": f"{stem}_text.delta", **at, "delta": part["text"]},
        {"type": f"{stem}_text.done", **at, "text": part["text"]},
        {"type": f"{stem}_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def _message_events(item: Json, pieces: list[str]) -> list[Json]:
    part = item["content"][0]
    at = {"item_id": item["id"], "output_index": 1, "content_index": 0}
    announced = {**item, "status": "in_progress", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": 1, "item": announced},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 1, "item": item},
    ]


def _call_events(index: int, item: Json) -> list[Json]:
    at = {"item_id": item["id"], "output_index": index}
    announced = {**item, "arguments": "", "status": "in_progress"}
    stem = "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", "output_index": index, "item": announced},
        {"type": f"{stem}.delta", **at, "delta": item["arguments"]},
        {"type": f"{stem}.done", **at, "arguments": item["arguments"]},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


STREAMS = {"chat": chat_stream, "responses": responses_stream, "messages": messages_stream}


def render(protocol: Protocol, events: Iterable[Json]) -> bytes:
    write = chat_event if protocol == "chat" else typed_event
    return "".join(map(write, events)).encode()
