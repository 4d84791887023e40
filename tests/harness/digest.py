"""What a whole reply says, in words that all three protocols share."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.assemble import arguments_of
from tests.harness.wire import Json, Protocol


@dataclass(frozen=True)
class Digest:
    """`stop` is in the protocol's own spelling, `incomplete:reason` for a Responses reply cut short."""

    text: str
    reasoning: str
    calls: list[Json]
    stop: str | None
    usage: Json


def digest(protocol: Protocol, reply: Json) -> Digest:
    """The answer text, reasoning text, function calls as name and arguments, stop reason and usage of a reply."""
    return READERS[protocol](reply)


def whole_characters(text: str) -> str:
    """Joins the halves of a surrogate pair that came in two deltas; a half that stays alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(pieces: list[str]) -> str:
    return whole_characters("".join(pieces))


def _call(name: str, arguments: Json) -> Json:
    return {"name": name, "arguments": arguments_of(arguments)}


def _of_chat(reply: Json) -> Digest:
    choice = (reply.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    functions = [call["function"] for call in message.get("tool_calls") or [] if "function" in call]
    return Digest(
        text=_joined([message.get("content") or ""]),
        reasoning=_joined([message.get("reasoning_content") or message.get("reasoning") or ""]),
        calls=[_call(function["name"], function["arguments"]) for function in functions],
        stop=choice.get("finish_reason"),
        usage=reply.get("usage"),
    )


def _of_messages(reply: Json) -> Digest:
    blocks = reply.get("content") or []
    return Digest(
        text=_joined([block["text"] for block in blocks if block["type"] == "text"]),
        reasoning=_joined([block["thinking"] for block in blocks if block["type"] == "thinking"]),
        calls=[_call(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        stop=reply.get("stop_reason"),
        usage=reply.get("usage"),
    )


def _of_responses(reply: Json) -> Digest:
    items = reply.get("output") or []
    said = [part for item in items if item["type"] == "message" for part in item["content"]]
    thought = [item for item in items if item["type"] == "reasoning"]
    stop = reply.get("status")
    if stop == "incomplete":
        stop = f"incomplete:{reply['incomplete_details']['reason']}"
    return Digest(
        text=_joined([part["text"] for part in said if part["type"] == "output_text"]),
        reasoning=_joined([p["text"] for item in thought for p in [*item["summary"], *(item.get("content") or [])]]),
        calls=[_call(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
        stop=stop,
        usage=reply.get("usage"),
    )


READERS: dict[Protocol, Callable[[Json], Digest]] = {
    "chat": _of_chat,
    "responses": _of_responses,
    "messages": _of_messages,
}
