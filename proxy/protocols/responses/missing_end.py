"""The terminal event that some local servers leave out, for a stream that passes through (mapping.md 13.6).

Clients wait for it: Codex takes a stream without it for a broken one. A stream that is translated gets one anyway.
"""

from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire, is_object


class MissingEnd:
    """Feed it the events as they pass; `write` then tells what they came to, if they came to anything."""

    __slots__ = ("_done", "_open", "_response")

    def __init__(self) -> None:
        self._response: Wire = {}
        self._open: set[object] = set()
        self._done: list[tuple[int, Wire]] = []

    def feed(self, wire: Wire) -> None:
        """Take one event of the stream."""
        response, item, index = wire.get("response"), wire.get("item"), wire.get("output_index")
        if is_object(response):
            self._response = response
        elif is_object(item):
            item_id = item.get("id")
            key: object = item_id if type(item_id) is str else index if type(index) is int else None
            if wire.get("type") == "response.output_item.added":
                self._open.add(key)
            elif wire.get("type") == "response.output_item.done":
                self._open.discard(key)
                self._done.append((index if type(index) is int else len(self._done), item))

    def write(self, sequence: int, now: int, model: str | None) -> bytes:
        """`response.completed` when there are items and all are done, else nothing. `now` is in Unix seconds; `model`
        stands for the backend's.
        """
        if self._open or not self._done:
            return b""
        output = [item for _, item in sorted(self._done, key=lambda done: done[0])]
        response = {**self._response, "status": "completed", "completed_at": now, "output": output}
        if model is not None:
            response["model"] = model
        wire = {"type": "response.completed", "sequence_number": sequence, "response": response}
        return b"event: response.completed\ndata: %b\n\n" % dumps(wire)
