"""What the backend says, in Chat and in Messages, and what it has told of its usage by then."""

from typing import NamedTuple

import orjson

from tests.limits.asks import Ask

TEXTS = ("One ", "two ", "three.")


class Used(NamedTuple):
    """Tokens, as a backend tells them. `cached` is a part of `prompt`."""

    prompt: int
    cached: int
    output: int


class Piece(NamedTuple):
    """Bytes of an answer. `used`: what has been told once they have come; None: no more than before."""

    data: bytes
    used: Used | None = None


def chat_whole(ask: Ask) -> Piece:
    message = {"role": "assistant", "content": "".join(TEXTS)}
    wire = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    if ask.conduct == "untold":
        return Piece(orjson.dumps(wire))
    return Piece(orjson.dumps({**wire, "usage": _chat_usage(ask)}), used(ask))


def embeddings(ask: Ask) -> Piece:
    wire = {
        "object": "list",
        "model": "m",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}],
        "usage": {"prompt_tokens": ask.prompt, "total_tokens": ask.prompt},
    }
    return Piece(orjson.dumps(wire), Used(ask.prompt, 0, 0))


def messages_whole(ask: Ask) -> Piece:
    wire = _message([{"type": "text", "text": "".join(TEXTS)}], "end_turn")
    if ask.conduct == "untold":
        return Piece(orjson.dumps(wire))
    return Piece(orjson.dumps({**wire, "usage": {**_messages_prompt(ask), "output_tokens": ask.output}}), used(ask))


def chat_stream(ask: Ask, *, wants_usage: bool) -> list[Piece]:
    pieces = [_chunk({"delta": {"role": "assistant", "content": ""}})]
    pieces += [_chunk({"delta": {"content": text}}) for text in TEXTS]
    pieces.append(_chunk({"delta": {}, "finish_reason": "stop"}))
    if wants_usage and ask.conduct != "untold":
        pieces.append(Piece(_chunk(None, usage=_chat_usage(ask)).data, used(ask)))
    return [*pieces, Piece(b"data: [DONE]\n\n")]


def messages_stream(ask: Ask) -> list[Piece]:
    """Messages tells of the prompt first and of the output last."""
    told = ask.conduct != "untold"
    start = {**_message([], None), **({"usage": {**_messages_prompt(ask), "output_tokens": 1}} if told else {})}
    end: dict[str, object] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    if told:
        end["usage"] = {"output_tokens": ask.output}
    texts = [
        _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        for text in TEXTS
    ]
    return [
        Piece(_event({"type": "message_start", "message": start}), used(ask)._replace(output=1) if told else None),
        Piece(_event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})),
        *map(Piece, texts),
        Piece(_event({"type": "content_block_stop", "index": 0})),
        Piece(_event(end), used(ask) if told else None),
        Piece(_event({"type": "message_stop"})),
    ]


def refusal(ask: Ask, protocol: str) -> bytes:
    """The error's body; its status is what the conduct is called."""
    kind = {"400": "invalid_request_error", "429": "rate_limit_error", "500": "api_error"}[ask.conduct]
    error: dict[str, object] = {"type": kind, "message": "No."}
    if protocol == "messages":
        return orjson.dumps({"type": "error", "error": error})
    return orjson.dumps({"error": {**error, "code": None, "param": None}})


def used(ask: Ask) -> Used:
    """All that will be told."""
    return Used(ask.prompt, ask.cached, ask.output)


def _chat_usage(ask: Ask) -> dict[str, object]:
    return {
        "prompt_tokens": ask.prompt,
        "completion_tokens": ask.output,
        "total_tokens": ask.prompt + ask.output,
        "prompt_tokens_details": {"cached_tokens": ask.cached},
    }


def _messages_prompt(ask: Ask) -> dict[str, object]:
    fresh = ask.prompt - ask.cached
    return {"input_tokens": fresh, "cache_read_input_tokens": ask.cached, "cache_creation_input_tokens": 0}


def _chunk(choice: dict[str, object] | None, **more: object) -> Piece:
    choices = [] if choice is None else [{"index": 0, "finish_reason": None, **choice}]
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return Piece(b"data: %b\n\n" % orjson.dumps({**base, "choices": choices, **more}))


def _event(wire: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(wire["type"]).encode(), orjson.dumps(wire))


def _message(content: list[dict[str, object]], stop_reason: str | None) -> dict[str, object]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }
