"""What an answer that passes through unread tells of itself: usage, why it ended, and how much it says."""

from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.tables import STOP_OF_REASON
from proxy.protocols.responses.usage import read_usage
from proxy.protocols.untold_usage import bytes_of

_CALLS = ("function_call", "custom_tool_call")  # a set could not be asked for what some backend writes there
_NO_TEXT = frozenset({"response.audio.delta", "response.output_audio.delta"})  # base64
_LISTS = ("content", "summary")
_TEXTS = ("text", "refusal", "arguments", "input")


class Account:
    """`hear` events, in their order, or a whole response. `said`: bytes of what has been weighed."""

    __slots__ = ("said", "stop", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self.said = 0

    def hear(self, wire: Wire) -> None:
        """Take note of what a terminal event tells."""
        response = wire.get("response")
        if is_object(response):
            self.hear_whole(response)

    text_key = b'"delta":'
    text_mark = b"output_text"

    def weigh(self, wire: Wire) -> str | None:
        """Count what a delta says; the text, if that is all that it tells. The events of an end say it once more."""
        text, event_type = wire.get("delta"), wire.get("type")
        if type(text) is not str or event_type in _NO_TEXT:
            return None
        self.said += bytes_of(text)
        return text if event_type == "response.output_text.delta" else None

    def hear_whole(self, wire: Wire) -> None:
        """Take note of a whole response."""
        self.usage = read_usage(wire) or self.usage
        self.stop = _read_stop(wire) or self.stop

    def weigh_whole(self, wire: Wire) -> None:
        """Count what a whole response says."""
        for item in _items(wire.get("output")):
            self.said += _text_size(item)
            for name in _LISTS:
                self.said += sum(map(_text_size, _items(item.get(name))))


def _read_stop(response: Wire) -> Stop | None:
    status = response.get("status")
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if is_object(details) else None
        if type(reason) is not str:
            return Stop("length", native="incomplete")
        return Stop(STOP_OF_REASON.get(reason, "length"), native=reason, unknown=reason not in STOP_OF_REASON)
    if status != "completed":
        return None
    called = any(item.get("type") in _CALLS for item in _items(response.get("output")))
    return Stop("tool" if called else "end", native="completed")


def _items(wires: object) -> list[Wire]:
    return [wire for wire in wires if is_object(wire)] if type(wires) is list else []


def _text_size(wire: Wire) -> int:
    return sum(bytes_of(text) for name in _TEXTS if type(text := wire.get(name)) is str)
