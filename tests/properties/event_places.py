"""Every type of event that a backend streams, found in the vendors' SDKs, each within the smallest legal stream."""

from typing import Any

from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta import BetaRawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from tests.harness.request_types import arms_of
from tests.harness.wire import DONE, Json, Protocol
from tests.properties.reply_places import ROOTS, ReplyPlace, minimal

UNIONS: dict[Protocol, tuple[Any, ...]] = {
    "chat": (ChatCompletionChunk,),
    "responses": (ResponseStreamEvent,),
    "messages": (BetaRawMessageStreamEvent, RawMessageStreamEvent),
}
INDEX = 7  # where `minimal` puts everything

AT: Json = {"item_id": "x", "output_index": INDEX, "content_index": INDEX}


def _added(item: Json) -> Json:
    return {
        "type": "response.output_item.added",
        "output_index": INDEX,
        "item": {"id": "x", "call_id": "call_1", **item},
    }


FINISHED: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
BEGUN: Json = {**minimal(ROOTS["responses"]), "output": [], "status": "in_progress"}
CREATED: Json = {"type": "response.created", "response": BEGUN}
COMPLETED: Json = {"type": "response.completed", "response": {**BEGUN, "status": "completed"}}
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")
# What comes before events whose types begin so.
BEFORE: dict[str, list[Json]] = {
    "response.function_call_arguments": [_added({"type": "function_call", "name": "look", "arguments": ""})],
    "response.custom_tool_call_input": [_added({"type": "custom_tool_call", "name": "write", "input": ""})],
    "response.output_text.annotation": [{"type": "response.output_text.delta", **AT, "delta": "words"}],
}
STARTED: Json = {"type": "message_start", "message": {**minimal(ROOTS["messages"]), "content": [], "stop_reason": None}}
STOPPING: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
STOPPED: Json = {"type": "message_stop"}
TEXT: Json = {"type": "text", "text": ""}
BLOCKS: dict[str, Json] = {
    "citations_delta": {"type": "text", "text": "words"},
    "thinking_delta": {"type": "thinking", "thinking": "", "signature": ""},
    "signature_delta": {"type": "thinking", "thinking": "words", "signature": ""},
    "input_json_delta": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    "compaction_delta": {"type": "compaction", "content": None},
}


def event_types(protocol: Protocol) -> list[type[BaseModel]]:
    return [arm for union in UNIONS[protocol] for arm in arms_of(union)]


def event_place(protocol: Protocol, event_type: type[BaseModel]) -> ReplyPlace:
    """Where an event stands; `around` gives all events of the stream."""
    return ReplyPlace(event_type, (), lambda event: framed(protocol, event)[0])


def framed(protocol: Protocol, event: Json) -> tuple[list[Json], list[Json]]:
    """A stream with the event, and the same stream without it."""
    before, after = FRAMES[protocol](event)
    return [*before, event, *after], [*before, *after]


def _chat(_event: Json) -> tuple[list[Json], list[Json]]:
    return [], [FINISHED, DONE]


def _responses(event: Json) -> tuple[list[Json], list[Json]]:
    name = event["type"]
    if name in TERMINAL:
        return [], []
    if name == CREATED["type"]:
        return [], [COMPLETED]
    return [CREATED, *BEFORE.get(name.rpartition(".")[0], [])], [COMPLETED]


def _messages(event: Json) -> tuple[list[Json], list[Json]]:
    stop = {"type": "content_block_stop", "index": INDEX}
    match event["type"]:
        case "message_start":
            return [], [STOPPING, STOPPED]
        case "message_delta":
            return [STARTED], [STOPPED]
        case "message_stop":
            return [STARTED, STOPPING], []
        case "content_block_start":
            return [STARTED], [stop, STOPPING, STOPPED]
        case "content_block_delta":
            block = BLOCKS.get(event["delta"]["type"], TEXT)
            return [STARTED, _started(block)], [stop, STOPPING, STOPPED]
        case "content_block_stop":
            return [STARTED, _started(TEXT)], [STOPPING, STOPPED]
        case _:
            return [STARTED], [STOPPING, STOPPED]


def _started(block: Json) -> Json:
    return {"type": "content_block_start", "index": INDEX, "content_block": block}


FRAMES = {"chat": _chat, "responses": _responses, "messages": _messages}
