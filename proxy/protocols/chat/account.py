"""What an answer that passes through unread tells of itself: usage, why it ended, and how much it says."""

from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.chat.tables import FAILURES, STOPS
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import read_usage
from proxy.protocols.untold_usage import bytes_of

_TEXTS = ("content", "refusal", "reasoning_content")


class Account:
    """`hear` chunks, in their order, or a whole reply. `said`: bytes of what has been weighed."""

    __slots__ = ("said", "stop", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None  # the last told, not a sum (mapping.md 13.2)
        self.stop: Stop | None = None
        self.said = 0

    def hear(self, wire: Wire) -> None:
        """Take note of a chunk's usage and finish reason."""
        told = read_usage(wire.get("usage"))
        for choice in _choices(wire):
            told = read_usage(choice.get("usage")) or told  # Moonshot
            if self.stop is None and not choice.get("index"):
                self.stop = _read_stop(choice.get("finish_reason"))
        groq = wire.get("x_groq")
        if is_object(groq):
            told = read_usage(groq.get("usage")) or told
        self.usage = told or self.usage

    text_key = b'"content":'
    text_mark = b""

    def weigh(self, wire: Wire) -> str | None:
        """Count what a chunk says, in all its choices; the text, if that is all that it tells."""
        choices = _choices(wire)
        for choice in choices:
            delta = choice.get("delta") or choice.get("message")
            if not is_object(delta):
                continue
            content = delta.get("content")
            if type(content) is not str or len(delta) > 1:
                self.said += _size(delta)
                continue
            self.said += bytes_of(content)
            if len(choices) == 1 and not (choice.get("finish_reason") or wire.get("usage") or wire.get("error")):
                return content
        return None

    hear_whole = hear  # a whole reply is as a chunk
    weigh_whole = weigh


def is_usage_alone(wire: Wire) -> bool:
    """Whether a chunk is the one that a client gets only if it has asked for usage."""
    return wire.get("choices") == [] and is_object(wire.get("usage"))


def _choices(wire: Wire) -> list[Wire]:
    choices = wire.get("choices")
    return [choice for choice in choices if is_object(choice)] if type(choices) is list else []


def _read_stop(reason: object) -> Stop | None:
    if type(reason) is not str or not reason or reason.lower() in FAILURES:
        return None
    word = reason.lower()
    return Stop(STOPS.get(word, "end"), native=reason, unknown=word not in STOPS)


def _size(delta: Wire) -> int:
    size = sum(_text_size(delta.get(name)) for name in _TEXTS)
    if (reasoning := delta.get("reasoning")) and reasoning != delta.get("reasoning_content"):
        size += _text_size(reasoning)
    calls = delta.get("tool_calls")
    for call in calls if type(calls) is list else ():
        if is_object(call):
            size += _call_size(call.get("function")) + _call_size(call.get("custom"))
    return size + _call_size(delta.get("function_call"))


def _text_size(text: object) -> int:
    if type(text) is str:
        return bytes_of(text)
    if type(text) is list:  # Mistral has parts, and parts of these
        return sum(map(_text_size, text))
    if is_object(text):
        return _text_size(text.get("text")) + _text_size(text.get("thinking"))
    return 0


def _call_size(call: object) -> int:
    return _text_size(call.get("arguments")) + _text_size(call.get("input")) if is_object(call) else 0
