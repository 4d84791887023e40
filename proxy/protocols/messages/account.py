"""What an answer that passes through unread tells of itself: usage, why it ended, and how much it says."""

from proxy.canonical.jsontext import dumps
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.messages.stops import read_stop
from proxy.protocols.messages.usage import merged, read_usage
from proxy.protocols.untold_usage import bytes_of

_TEXTS = ("text", "thinking", "partial_json")


class Account:
    """`hear` events, in their order, or a whole reply. `said`: bytes of what has been weighed."""

    __slots__ = ("_told", "said", "stop")

    def __init__(self) -> None:
        self._told: Wire = {}
        self.stop: Stop | None = None
        self.said = 0

    @property
    def usage(self) -> Usage | None:
        """What was told at the start, and cumulatively since."""
        return read_usage(self._told)

    def hear(self, wire: Wire) -> None:
        """Take note of what a `message_start` or `message_delta` tells."""
        if wire.get("type") == "message_delta":
            self._hear(wire.get("usage"), wire.get("delta"))
        else:
            message = wire.get("message")
            self._hear(message.get("usage") if is_object(message) else None, message)

    def _hear(self, usage: object, stop: object) -> None:
        self._told = merged(self._told, usage)
        if is_object(stop) and stop.get("stop_reason"):
            self.stop = read_stop(stop, calls=stop["stop_reason"] == "tool_use")

    text_key = b'"text":'
    text_mark = b""

    def weigh(self, wire: Wire) -> str | None:
        """Count what an event says; the text, if that is all that it tells."""
        grown = wire.get("delta") or wire.get("content_block")
        if not is_object(grown):
            return None
        self.said += _text_size(grown)
        text = grown.get("text")
        return text if grown.get("type") == "text_delta" and type(text) is str else None

    def hear_whole(self, wire: Wire) -> None:
        """Take note of a whole message."""
        self._hear(wire.get("usage"), wire)

    def weigh_whole(self, wire: Wire) -> None:
        """Count what a whole message says."""
        content = wire.get("content")
        for block in content if type(content) is list else ():
            if is_object(block):
                # Of results of tools that the backend ran, nothing is the model's.
                self.said += _text_size(block) + (len(dumps(block["input"])) if "input" in block else 0)


def _text_size(wire: Wire) -> int:
    return sum(bytes_of(text) for name in _TEXTS if type(text := wire.get(name)) is str)
