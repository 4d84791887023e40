"""What the answer of an endpoint that nobody translates says of its usage, read while it passes."""

from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.usage import Usage
from proxy.protocols import openai_completions as chat
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses import usage as responses
from proxy.translation.spent import Round

_MOST = 32 * 2**20  # bytes; embeddings of many texts are large


class Told:
    """Let it `hear` the answer's bytes."""

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def hear(self, chunk: bytes) -> None:
        """The next bytes of the answer."""
        self._size += len(chunk)
        if self._size <= _MOST:
            self._chunks.append(chunk)

    def usage(self, prompt_estimate: int) -> Usage:
        """As it was told, or the estimate of the prompt alone."""
        wire = self._read()
        return Round(responses.read_usage(wire) or chat.read_usage(wire.get("usage")), over=True).used(prompt_estimate)

    def _read(self) -> Wire:
        if self._size > _MOST:
            return {}
        try:
            wire = loads(b"".join(self._chunks))
        except NotJson:
            return {}
        return wire if is_object(wire) else {}
