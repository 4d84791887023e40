"""Server-sent events out of bytes that may be cut anywhere (mapping.md 13.1).

Works on bytes: a character cut in two by the network is whole again before anything decodes it. The usual case, LF
line ends and one `data:` line an event, perhaps with its name before it, is a find and a slice; everything else takes
the slow road of one event.
"""

MAX_EVENT = 32 * 1024 * 1024  # bytes; images and carriers travel in one event
MAX_LINES = 2**17  # of one event: millions of them hold up everybody else, and come compressed in a few KiB


# (the `event:` field, "" when absent; the joined `data:` lines): a plain tuple, since streams are made of these.
SseEvent = tuple[str, bytes]


class EventTooLarge(ValueError):
    """An event grew beyond `MAX_EVENT` bytes without an end, or has more than `MAX_LINES` lines."""


class SseReader:
    """`feed` chunks, take events; `end` gives a last event that lacks its blank line."""

    __slots__ = ("_begun", "_carriage", "_lead", "_name", "_pending", "_rest", "_size", "_unended")

    def __init__(self) -> None:
        self._rest = b""
        # Pieces of an event that comes in many reads, and their size: joined once, at its end.
        self._unended: list[bytes] = []
        self._size = 0
        self._begun = False
        # Most events begin as the one before them: the bytes up to their data, and the name that these tell.
        self._lead = b"data:"
        self._name = ""
        self._carriage = False  # line ends are CR or CRLF somewhere in this stream
        self._pending = False  # the last chunk ended with CR, whose LF may still come

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """All events that are complete now. Raises `EventTooLarge`."""
        if not self._begun and chunk:
            chunk = self._skip_mark(chunk)
        if self._carriage or b"\r" in chunk:
            chunk = self._line_feeds(chunk)
        if self._rest and b"\n\n" not in self._rest[-1:] + chunk:
            return self._wait_for_more(chunk)
        text = self._rest + chunk if self._rest else chunk
        if self._unended:
            text = self._joined() + text
        alike = self._alike(text)
        if alike is not None:
            return alike
        blocks = text.split(b"\n\n")
        self._rest = blocks.pop()
        if len(self._rest) > MAX_EVENT:
            raise EventTooLarge(f"an event of more than {MAX_EVENT} bytes")
        events: list[SseEvent] = []
        for block in blocks:
            if block.startswith(self._lead) and b"\n" not in (line := block[len(self._lead) :]):
                payload = line.strip()
                if payload:
                    events.append((self._name, payload))
            elif (event := _parse(block)) is not None:
                self._remember_lead(block, event[0])
                events.append(event)
        return events

    def _alike(self, text: bytes) -> list[SseEvent] | None:
        """The events of a text where each begins as the last one did and has one line of data: most reads in the
        middle of a stream are cut by one split. None where that is not so.
        """
        lead, name = self._lead, self._name
        if not text.startswith(lead) or not text.endswith(b"\n\n"):
            return None
        between = b"\n\n" + lead
        lines = text[len(lead) : -2].split(between)
        if text.count(b"\n") != len(lines) * between.count(b"\n"):
            return None
        self._rest = b""
        return [(name, payload) for line in lines if (payload := line.strip())]

    def _remember_lead(self, block: bytes, name: str) -> None:
        """Take note of how an event begins, if that is with its data or with its name alone before them."""
        start = block.find(b"data:")
        lead = block[:start]
        if not lead or (lead.startswith(b"event:") and lead.find(b"\n") == start - 1):
            self._lead, self._name = block[: start + 5], name

    def end(self) -> list[SseEvent]:
        """The last event, if the stream ended without its blank line; the caller decides whether it is whole. Raises
        `EventTooLarge`."""
        block, self._rest = self._joined() + self._rest, b""
        event = _parse(block)
        return [] if event is None else [event]

    def _wait_for_more(self, chunk: bytes) -> list[SseEvent]:
        """Keep a piece of an event that does not end in it."""
        if chunk:
            self._unended.append(self._rest)
            self._size += len(self._rest)
            self._rest = chunk
        if self._size + len(chunk) > MAX_EVENT:
            raise EventTooLarge(f"an event of more than {MAX_EVENT} bytes")
        return []

    def _joined(self) -> bytes:
        whole = b"".join(self._unended)
        self._unended.clear()
        self._size = 0
        return whole

    def _skip_mark(self, chunk: bytes) -> bytes:
        """Drop a byte-order mark at the very start; it may arrive in pieces."""
        start = self._rest + chunk
        self._rest = b""
        mark = b"\xef\xbb\xbf"
        if len(start) < len(mark) and mark.startswith(start):
            self._rest = start
            return b""
        self._begun = True
        return start.removeprefix(mark)

    def _line_feeds(self, chunk: bytes) -> bytes:
        """CRLF and CR as LF. A CR at the end counts at once; a LF that opens the next chunk then belongs to it."""
        self._carriage = True
        if self._pending and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._pending = False
        if chunk:
            self._pending = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> SseEvent | None:
    """One event of the lines between two blank ones; None when there is no data (comments, names alone). Raises
    `EventTooLarge`."""
    if len(block) > MAX_LINES and block.count(b"\n") > MAX_LINES:
        raise EventTooLarge(f"an event of more than {MAX_LINES} lines")
    name = ""
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.strip().decode("utf-8", "replace")
    if not lines:
        return None
    payload = b"\n".join(lines).strip()
    return (name, payload) if payload else None
