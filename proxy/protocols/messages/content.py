"""The content of a message out of its stream, block by block as the vendor wrote it, to be sent back unchanged.

The canonical parts won't do for that: they leave out what has no meaning elsewhere.
"""

from proxy.canonical.jsontext import NotJson, loads_exact
from proxy.protocols.fields import Wire, is_object


class MessageContent:
    """Feed it the wire events of one message; `blocks` and `container` hold what came."""

    __slots__ = ("_input", "_open", "blocks", "container")

    def __init__(self) -> None:
        self.blocks: list[Wire] = []
        self.container: str | None = None  # id of the one that the vendor's tools ran in
        self._open: Wire = {}
        self._input: list[str] = []

    def feed(self, wire: Wire) -> None:
        """Take one event; what makes no sense is passed over."""
        match wire.get("type"):
            case "message_start":
                self._note_container(wire.get("message"))
            case "content_block_start":
                block = wire.get("content_block")
                self._open = dict(block) if is_object(block) else {}
                self._input.clear()
                if self._open:
                    self.blocks.append(self._open)
            case "content_block_delta":
                delta = wire.get("delta")
                if is_object(delta):
                    self._grow(delta)
            case "content_block_stop":
                self._end_input()
                self._open = {}
            case "message_delta":
                self._note_container(wire.get("delta"))
            case _:
                pass

    def _grow(self, delta: Wire) -> None:
        match delta.get("type"):
            case "input_json_delta":
                self._input.append(str(delta.get("partial_json") or ""))
            case "citations_delta":
                known = self._open.get("citations")
                self._open["citations"] = [*(known if isinstance(known, list) else ()), delta.get("citation")]
            case "text_delta":
                self._append("text", delta)
            case "thinking_delta":
                self._append("thinking", delta)
            case "signature_delta":
                self._append("signature", delta)
            case _:
                self._open |= {name: value for name, value in delta.items() if name != "type"}

    def _append(self, name: str, delta: Wire) -> None:
        known, more = str(self._open.get(name) or ""), str(delta.get(name) or "")
        self._open[name] = more if name == "signature" and more.startswith(known) else known + more

    def _end_input(self) -> None:
        text = "".join(self._input)
        self._input.clear()
        if text:
            try:
                self._open["input"] = loads_exact(text)
            except NotJson:
                self._open["input"] = {}

    def _note_container(self, holder: object) -> None:
        self.container = container_of(holder) or self.container


def container_of(holder: object) -> str | None:
    """The id of the container that a message or a delta names."""
    container = holder.get("container") if is_object(holder) else None
    found = container.get("id") if is_object(container) else None
    return found if isinstance(found, str) else None


def continued(body: Wire, blocks: list[Wire], container: str | None) -> Wire:
    """The request that makes the vendor go on after these blocks of a turn that it paused (messages.md 14.2)."""
    messages = body.get("messages")
    turns: list[Wire] = [*messages] if isinstance(messages, list) else []
    last = turns[-1] if turns else {}
    before = last.get("content")
    if last.get("role") == "assistant" and isinstance(before, list):
        turns[-1] = {**last, "content": [*before, *blocks]}
    else:
        turns.append({"role": "assistant", "content": blocks})
    kept: Wire = {**body, "messages": turns}
    return {**kept, "container": container} if container is not None else kept
