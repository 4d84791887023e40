"""A script as each protocol's stream and whole reply, the way the vendors send them."""

import json
from collections.abc import Callable

from tests.harness.model_replies import Answer, numbered, response_object
from tests.harness.wire import DONE, Json, Protocol, chat_event, typed_event
from tests.properties.scripts import Part, Script

CREATED = 1790000000
MODEL = "demo-model"

# ---- Chat Completions

SOURCE = {"title": "T", "url": "https://a"}
CHAT_FIELDS = {"text": "content", "refusal": "refusal", "reasoning": "reasoning_content"}
CHAT_STOPS = {"end": "stop", "length": "length", "tool": "tool_calls"}


def chat_usage(script: Script) -> Json:
    return {
        "prompt_tokens": script.prompt,
        "completion_tokens": script.output,
        "total_tokens": script.prompt + script.output,
        "prompt_tokens_details": {"cached_tokens": script.read, "cache_write_tokens": script.write},
        "completion_tokens_details": {"reasoning_tokens": script.reasoning},
    }


def _chat_call(part: Part, arguments: str) -> Json:
    return {"id": part.call_id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _chat_whole(script: Script) -> Json:
    refusal = script.text("refusal") or None
    message: dict[str, Json] = {"role": "assistant", "content": script.text("text") or None, "refusal": refusal}
    if script.text("reasoning"):
        message["reasoning_content"] = script.text("reasoning")
    for part in script.parts:
        message |= _chat_unsaid(part)
    if script.calls:
        message["tool_calls"] = [_chat_call(part, part.whole) for part in script.calls]
    choice = {"index": 0, "message": message, "finish_reason": CHAT_STOPS[script.stop], "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
        "usage": chat_usage(script),
    }


def _chat_unsaid(part: Part) -> dict[str, Json]:
    """What comes with a part that is no text of its own."""
    if part.kind == "redacted":
        entry = {"type": "reasoning.encrypted", "data": f"E-{part.number}", "index": part.number, "format": "unknown"}
        return {"reasoning_details": [entry]}
    if part.cited:
        where = {"start_index": 0, "end_index": len(part.whole), **SOURCE}
        return {"annotations": [{"type": "url_citation", "url_citation": where}]}
    return {}


def _chat_events(script: Script) -> list[Json]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    deltas: list[Json] = [{"role": "assistant", "content": None}]
    index = 0
    for part in script.parts:
        if part.kind == "call":
            deltas.append({"tool_calls": [{"index": index, **_chat_call(part, "")}]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in part.pieces]
            index += 1
        else:
            deltas += [{CHAT_FIELDS[part.kind]: piece} for piece in part.pieces]
        if unsaid := _chat_unsaid(part):
            deltas.append(unsaid)
    usage = {**head, "choices": [], "usage": chat_usage(script)}
    return [*map(chunk, deltas), chunk({}, CHAT_STOPS[script.stop]), usage, DONE]


# ---- Messages

CITATION = {
    "type": "web_search_result_location",
    **SOURCE,
    "cited_text": "c",
    "encrypted_index": "E",
}
MESSAGES_STOPS = {"end": "end_turn", "length": "max_tokens", "tool": "tool_use"}


def messages_usage(script: Script) -> Json:
    return {
        "input_tokens": script.fresh,
        "cache_read_input_tokens": script.read,
        "cache_creation_input_tokens": script.write,
        "output_tokens": script.output,
        "output_tokens_details": {"thinking_tokens": script.reasoning},
    }


def _messages_head(script: Script) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**messages_usage(script), "output_tokens": 1},
    }


def _blocks(part: Part) -> list[Json]:
    if part.kind == "text":
        return [{"type": "text", "text": part.whole, **({"citations": [CITATION]} if part.cited else {})}]
    if part.kind == "reasoning":
        return [{"type": "thinking", "thinking": part.whole, "signature": f"sig-{part.number}"}]
    if part.kind == "redacted":
        return [{"type": "redacted_thinking", "data": f"E-{part.number}"}]
    if part.kind == "hosted":
        search = f"srvtoolu_{part.number}"
        return [
            {"type": "server_tool_use", "id": search, "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": search, "content": []},
        ]
    given = part.whole if part.cut else json.loads(part.whole)  # whole replies of some servers have text here
    return [{"type": "tool_use", "id": part.call_id, "name": part.name, "input": given}]


def _messages_whole(script: Script) -> Json:
    return {
        **_messages_head(script),
        "content": [block for part in script.parts for block in _blocks(part)],
        "stop_reason": MESSAGES_STOPS[script.stop],
        "usage": messages_usage(script),
    }


def _messages_events(script: Script) -> list[Json]:
    events: list[Json] = [{"type": "message_start", "message": _messages_head(script)}, {"type": "ping"}]
    spoken = [(part, block) for part in script.parts for block in _blocks(part)]
    for index, (part, block) in enumerate(spoken):
        opened, deltas = _block_events(part, block)
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": MESSAGES_STOPS[script.stop], "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stop, "usage": messages_usage(script)},
        {"type": "message_stop"},
    ]


def _block_events(part: Part, block: Json) -> tuple[Json, list[Json]]:
    """How a block starts, and its deltas."""
    match block["type"]:
        case "text":
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in part.pieces]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in block.get("citations", ())]
            return {"type": "text", "text": ""}, deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in part.pieces]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in part.pieces
            ]
        case "server_tool_use":
            asked = json.dumps(block["input"])
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": asked}]
        case _:
            return block, []


# ---- Responses


def responses_usage(script: Script) -> Json:
    return {
        "input_tokens": script.prompt,
        "input_tokens_details": {"cached_tokens": script.read, "cache_write_tokens": script.write},
        "output_tokens": script.output,
        "output_tokens_details": {"reasoning_tokens": script.reasoning},
        "total_tokens": script.prompt + script.output,
    }


def _item(part: Part) -> Json:
    if part.kind in ("text", "refusal"):
        return {
            "id": f"msg_{part.number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [_content(part)],
        }
    if part.kind in ("reasoning", "redacted"):
        summary = [{"type": "summary_text", "text": part.whole}] if part.pieces else []
        return {"id": f"rs_{part.number}", "type": "reasoning", "summary": summary, "encrypted_content": "enc"}
    if part.kind == "hosted":
        action = {"type": "search", "query": "q"}
        return {"id": f"ws_{part.number}", "type": "web_search_call", "status": "completed", "action": action}
    return {
        "id": f"fc_{part.number}",
        "type": "function_call",
        "call_id": part.call_id,
        "name": part.name,
        "arguments": part.whole,
        "status": "incomplete" if part.cut else "completed",
    }


def _content(part: Part) -> Json:
    if part.kind == "refusal":
        return {"type": "refusal", "refusal": part.whole}
    mark = {"type": "url_citation", "start_index": 0, "end_index": len(part.whole), **SOURCE}
    return {"type": "output_text", "text": part.whole, "annotations": [mark] if part.cited else [], "logprobs": []}


def _response(script: Script) -> Json:
    items = [_item(part) for part in script.parts]
    response = response_object(Answer(MODEL), "completed", items, responses_usage(script))
    if script.stop == "length":
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return response


def _responses_events(script: Script) -> list[Json]:
    begun = response_object(Answer(MODEL), "in_progress", [])
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, part in enumerate(script.parts):
        item = _item(part)
        opened, body = _item_events(part, item)
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        events += [{**event, "item_id": item["id"], "output_index": index} for event in body]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    kind = "response.incomplete" if script.stop == "length" else "response.completed"
    return numbered([*events, {"type": kind, "response": _response(script)}])


def _content_events(part: Part, content: Json) -> list[Json]:
    at = {"content_index": 0}
    empty = {**content, "refusal": ""} if part.kind == "refusal" else {**content, "text": "", "annotations": []}
    stem, field = ("refusal", "refusal") if part.kind == "refusal" else ("output_text", "text")
    more: Json = {} if part.kind == "refusal" else {"logprobs": []}
    return [
        {"type": "response.content_part.added", **at, "part": empty},
        *({"type": f"response.{stem}.delta", **at, "delta": piece, **more} for piece in part.pieces),
        *(
            {"type": "response.output_text.annotation.added", **at, "annotation_index": 0, "annotation": annotation}
            for annotation in content.get("annotations", ())
        ),
        {"type": f"response.{stem}.done", **at, field: part.whole, **more},
        {"type": "response.content_part.done", **at, "part": content},
    ]


def _item_events(part: Part, item: Json) -> tuple[Json, list[Json]]:
    if part.kind in ("text", "refusal"):
        return {**item, "status": "in_progress", "content": []}, _content_events(part, item["content"][0])
    if part.kind == "hosted":
        return {**item, "status": "in_progress"}, [{"type": "response.web_search_call.searching"}]
    if part.kind in ("reasoning", "redacted"):
        if not part.pieces:
            return {**item, "encrypted_content": None}, []
        summary = item["summary"][0]
        stem = "response.reasoning_summary"
        return {**item, "summary": [], "encrypted_content": None}, [
            {"type": f"{stem}_part.added", "summary_index": 0, "part": {**summary, "text": ""}},
            *({"type": f"{stem}_text.delta", "summary_index": 0, "delta": piece} for piece in part.pieces),
            {"type": f"{stem}_text.done", "summary_index": 0, "text": part.whole},
            {"type": f"{stem}_part.done", "summary_index": 0, "part": summary},
        ]
    stem = "response.function_call_arguments"
    return {**item, "status": "in_progress", "arguments": ""}, [
        *({"type": f"{stem}.delta", "delta": piece} for piece in part.pieces),
        {"type": f"{stem}.done", "arguments": part.whole},
    ]


WHOLE: dict[Protocol, Callable[[Script], Json]] = {
    "chat": _chat_whole,
    "responses": _response,
    "messages": _messages_whole,
}
EVENTS: dict[Protocol, Callable[[Script], list[Json]]] = {
    "chat": _chat_events,
    "responses": _responses_events,
    "messages": _messages_events,
}
USAGE: dict[Protocol, Callable[[Script], Json]] = {
    "chat": chat_usage,
    "responses": responses_usage,
    "messages": messages_usage,
}


def event_bytes(protocol: Protocol, script: Script) -> list[bytes]:
    """The stream, one element an event."""
    write = chat_event if protocol == "chat" else typed_event
    return [write(event).encode() for event in EVENTS[protocol](script)]


def whole_bytes(protocol: Protocol, script: Script) -> bytes:
    return json.dumps(WHOLE[protocol](script), ensure_ascii=False).encode()
