"""Scripts of what a backend says, and a script as each protocol's stream and whole reply.

A script is a list of parts in order with a stop and a usage. Hypothesis makes them; the writers here send them as the
vendors do. Chat's whole reply has one text and one reasoning, so scripts for a Chat backend keep its order.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from tests.harness.model_replies import Answer, numbered, response_object
from tests.harness.wire import DONE, Json, Protocol, chat_event, typed_event

CREATED = 1790000000
MODEL = "demo-model"


@dataclass(frozen=True)
class Part:
    """kind: text, reasoning or call; `pieces` joined are the text, the thinking or the arguments."""

    kind: str
    pieces: tuple[str, ...]
    number: int = 0

    @property
    def whole(self) -> str:
        return "".join(self.pieces)

    @property
    def call_id(self) -> str:
        return f"call_{self.number:03}"

    @property
    def name(self) -> str:
        return f"tool_{self.number}"


@dataclass(frozen=True)
class Script:
    """stop: end, length or tool."""

    parts: tuple[Part, ...]
    stop: str
    fresh: int = 20
    read: int = 5
    write: int = 3
    output: int = 9
    reasoning: int = 4

    @property
    def calls(self) -> list[Part]:
        return [part for part in self.parts if part.kind == "call"]

    def text(self, kind: str) -> str:
        return "".join(part.whole for part in self.parts if part.kind == kind)

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.write


WORDS = st.text(
    alphabet=st.one_of(st.sampled_from('ab \n"\\{}é€😀'), st.characters(codec="utf-8")), min_size=1, max_size=12
).filter(lambda text: bool(text.strip()))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
)


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    places = [0, *cuts, len(text)]
    return tuple(text[start:stop] for start, stop in pairwise(places) if start < stop)


@st.composite
def scripts(draw: st.DrawFn, *, any_order: bool) -> Script:
    kinds = draw(st.lists(st.sampled_from(["text", "reasoning", "call", "call"]), max_size=5))
    if not any_order:
        calls = kinds.count("call")
        kinds = [kind for kind in ("reasoning", "text") if kind in kinds] + ["call"] * calls
    parts: list[Part] = []
    for number, kind in enumerate(kinds):
        text = draw(ARGUMENTS if kind == "call" else WORDS)
        parts.append(Part(kind, draw(pieces_of(text)), number))
    stop = "tool" if "call" in kinds else draw(st.sampled_from(["end", "length"]))
    counts = st.integers(0, 10_000)
    output = draw(counts)
    return Script(tuple(parts), stop, draw(counts), draw(counts), draw(counts), output, draw(st.integers(0, output)))


# ---- Chat Completions

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
    message: dict[str, Json] = {"role": "assistant", "content": script.text("text") or None, "refusal": None}
    if script.text("reasoning"):
        message["reasoning_content"] = script.text("reasoning")
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
            field = "content" if part.kind == "text" else "reasoning_content"
            deltas += [{field: piece} for piece in part.pieces]
    usage = {**head, "choices": [], "usage": chat_usage(script)}
    return [*map(chunk, deltas), chunk({}, CHAT_STOPS[script.stop]), usage, DONE]


# ---- Messages

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


def _block(part: Part) -> Json:
    if part.kind == "text":
        return {"type": "text", "text": part.whole}
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": part.whole, "signature": f"sig-{part.number}"}
    return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": json.loads(part.whole)}


def _messages_whole(script: Script) -> Json:
    return {
        **_messages_head(script),
        "content": [_block(part) for part in script.parts],
        "stop_reason": MESSAGES_STOPS[script.stop],
        "usage": messages_usage(script),
    }


def _messages_events(script: Script) -> list[Json]:
    events: list[Json] = [{"type": "message_start", "message": _messages_head(script)}, {"type": "ping"}]
    for index, part in enumerate(script.parts):
        if part.kind == "text":
            opened: Json = {"type": "text", "text": ""}
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in part.pieces]
        elif part.kind == "reasoning":
            opened = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in part.pieces]
            deltas.append({"type": "signature_delta", "signature": f"sig-{part.number}"})
        else:
            opened = {**_block(part), "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in part.pieces]
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": MESSAGES_STOPS[script.stop], "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stop, "usage": messages_usage(script)},
        {"type": "message_stop"},
    ]


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
    if part.kind == "text":
        content = {"type": "output_text", "text": part.whole, "annotations": [], "logprobs": []}
        return {
            "id": f"msg_{part.number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [content],
        }
    if part.kind == "reasoning":
        summary = [{"type": "summary_text", "text": part.whole}]
        return {"id": f"rs_{part.number}", "type": "reasoning", "summary": summary, "encrypted_content": "enc"}
    return {
        "id": f"fc_{part.number}",
        "type": "function_call",
        "call_id": part.call_id,
        "name": part.name,
        "arguments": part.whole,
        "status": "completed",
    }


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


def _item_events(part: Part, item: Json) -> tuple[Json, list[Json]]:
    if part.kind == "text":
        content = item["content"][0]
        stem = "response.output_text"
        return {**item, "status": "in_progress", "content": []}, [
            {"type": "response.content_part.added", "content_index": 0, "part": {**content, "text": ""}},
            *({"type": f"{stem}.delta", "content_index": 0, "delta": p, "logprobs": []} for p in part.pieces),
            {"type": f"{stem}.done", "content_index": 0, "text": part.whole, "logprobs": []},
            {"type": "response.content_part.done", "content_index": 0, "part": content},
        ]
    if part.kind == "reasoning":
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
