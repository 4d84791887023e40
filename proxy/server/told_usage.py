"""What the answer of an endpoint that nobody translates says of its usage, read while it passes."""

from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.usage import MOST_TOKENS, Usage

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
        told = self._read()
        prompt, output = (
            _count(told, "prompt_tokens", "input_tokens"),
            _count(told, "completion_tokens", "output_tokens"),
        )
        if prompt is None:
            return Usage(input_fresh=prompt_estimate, estimated=True)
        return Usage(input_fresh=prompt, output=output or 0)

    def _read(self) -> dict[str, object]:
        if self._size > _MOST:
            return {}
        try:
            wire = loads(b"".join(self._chunks))
        except NotJson:
            return {}
        usage = wire.get("usage") if type(wire) is dict else None
        return usage if type(usage) is dict else {}


def _count(told: dict[str, object], *names: str) -> int | None:
    """The first of these that is a number of tokens."""
    return next((value for name in names if type(value := told.get(name)) is int and 0 <= value <= MOST_TOKENS), None)
