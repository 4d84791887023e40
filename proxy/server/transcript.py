"""What one client asked and was told, kept while its sampled exchange lasts.

Bytes alone: they are read when the exchange has ended and its spans are made. Without leave to record content no more
is kept than what names the answer.
"""

from collections.abc import Mapping

from aiohttp.web import StreamResponse

_MOST = 256 * 1024  # bytes of either side; of what is longer no content is recorded
_HEAD = 16 * 1024  # bytes of a stream, which names itself at its beginning


class Transcript:
    """`asked`: the body of the request, where content may be recorded. `streamed`: the answer is a stream."""

    __slots__ = ("_size", "_told", "asked", "content", "streamed")

    def __init__(self) -> None:
        self.content = False
        self.asked = b""
        self.streamed = False
        self._told: list[bytes] = []
        self._size = 0

    def record_content(self, body: bytes) -> None:
        """From now on all is kept. `body`: the client's request."""
        self.content = True
        if len(body) <= _MOST:
            self.asked = body

    def tell(self, part: bytes) -> None:
        """The next bytes of what the client is told."""
        room = _MOST if self.content or not self.streamed else _HEAD
        self._size += len(part)
        if self._size <= room or not self._told:
            self._told.append(part)

    @property
    def told(self) -> bytes:
        """All of it, as far as it was kept."""
        return b"".join(self._told)

    @property
    def complete(self) -> bool:
        """Whether `told` is all that the client was told."""
        return self._size <= _MOST


class RecordedResponse(StreamResponse):
    """A stream whose bytes are also kept."""

    def __init__(self, transcript: Transcript, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        transcript.streamed = headers["Content-Type"].startswith("text/event-stream")
        self._transcript = transcript

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """As StreamResponse."""
        self._transcript.tell(bytes(data))
        await super().write(data)

    async def write_eof(self, data: bytes = b"") -> None:
        """As StreamResponse."""
        self._transcript.tell(data)
        await super().write_eof(data)
