"""Put an event stream together into the whole reply that the same protocol gives without streaming.

This is what a client of each protocol does. Streams that broke off assemble into what had come.
"""

import json
from collections.abc import Callable, Iterable
from copy import deepcopy

from tests.harness.wire import Json, Protocol, WireEvent


def assemble(protocol: Protocol, events: Iterable[WireEvent]) -> Json:
    """The whole reply. Raises KeyError, TypeError or the like where an event lacks what its protocol promises."""
    return ASSEMBLERS[protocol]([event.data for event in events if event.data is not None])


def arguments_of(text: Json) -> Json:
    """The arguments of a call as an object; those of a call that was cut short stay text."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


# ---- Chat Completions

GROWING_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
GROWING_LISTS = ("annotations", "reasoning_details")
SAME_IN_ALL_CHUNKS = ("id", "created", "model", "system_fingerprint", "service_tier")


def _assemble_chat(chunks: list[Json]) -> Json:
    reply: dict[str, Json] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Json]] = {0: _empty_choice(0)}
    calls: dict[int, dict[int, dict[str, Json]]] = {}
    for chunk in chunks:
        for field in SAME_IN_ALL_CHUNKS:
            if chunk.get(field) and field not in reply:
                reply[field] = chunk[field]
        if chunk.get("usage"):
            reply["usage"] = chunk["usage"]
        for piece in chunk.get("choices") or []:
            place = piece.get("index", 0)
            choice = choices.setdefault(place, _empty_choice(place))
            _grow_message(choice["message"], calls.setdefault(place, {}), piece.get("delta") or {})
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
    for place, made in calls.items():
        if made:
            choices[place]["message"]["tool_calls"] = [made[index] for index in sorted(made)]
    reply["choices"] = [choices[place] for place in sorted(choices)]
    return reply


def _empty_choice(index: int) -> dict[str, Json]:
    return {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}


def _grow_message(message: dict[str, Json], calls: dict[int, dict[str, Json]], delta: dict[str, Json]) -> None:
    for field in GROWING_TEXTS:
        if isinstance(delta.get(field), str):
            message[field] = (message.get(field) or "") + delta[field]
    for field in GROWING_LISTS:
        if delta.get(field):
            message[field] = message.get(field, []) + delta[field]
    for fragment in delta.get("tool_calls") or []:
        _grow_call(calls, fragment)


def _grow_call(calls: dict[int, dict[str, Json]], fragment: dict[str, Json]) -> None:
    """The first id and name of a call count; servers that repeat them mean the same call."""
    kind, text_field = ("custom", "input") if "custom" in fragment else ("function", "arguments")
    call = calls.setdefault(fragment.get("index", 0), {"id": "", "type": kind, kind: {"name": "", text_field: ""}})
    body = fragment.get(kind) or {}
    call["id"] = call["id"] or fragment.get("id") or ""
    call[kind]["name"] = call[kind]["name"] or body.get("name") or ""
    call[kind][text_field] += body.get(text_field) or ""


# ---- Messages


def _assemble_messages(events: list[Json]) -> Json:
    message: dict[str, Json] = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                message = deepcopy(event["message"])
            case "content_block_start" if message:
                message["content"].append(deepcopy(event["content_block"]))
            case "content_block_delta" if message:
                _grow_block(message["content"][event["index"]], event["delta"], inputs, event["index"])
            case "content_block_stop" if inputs.get(event["index"]):
                message["content"][event["index"]]["input"] = arguments_of(inputs[event["index"]])
            case "message_delta" if message:
                message.update(event["delta"])
                counted = {name: count for name, count in (event.get("usage") or {}).items() if count is not None}
                message["usage"] = {**message["usage"], **counted}
    return message


def _grow_block(block: dict[str, Json], delta: dict[str, Json], inputs: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":  # the vendor's SDKs replace what was there
            block["signature"] = delta["signature"]
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


# ---- Responses

TERMINAL_EVENTS = {"response.completed", "response.incomplete", "response.failed"}


def _assemble_responses(events: list[Json]) -> Json:
    """The last event has it all. Servers that leave its output empty are served from the finished items."""
    response: dict[str, Json] = {"status": None, "output": []}
    finished: dict[int, Json] = {}
    for event in events:
        if event.get("type") == "response.output_item.done":
            finished[event["output_index"]] = event["item"]
        elif event.get("type") in TERMINAL_EVENTS:
            response = deepcopy(event["response"])
    response["output"] = response.get("output") or [finished[index] for index in sorted(finished)]
    return response


ASSEMBLERS: dict[Protocol, Callable[[list[Json]], Json]] = {
    "chat": _assemble_chat,
    "responses": _assemble_responses,
    "messages": _assemble_messages,
}
