"""Server-sent events out of bytes that may be cut anywhere (mapping.md 13.1).

Works on bytes: a character cut in two by the network is whole again before anything decodes it. The usual case, LF
line ends and one `data:` line an event, perhaps with its name before it, is a find and a slice; everything else takes
the slow road of one event.
"""

_LINES_OF_MOST = 2  # an event's name and its data
MAX_EVENT = 32 * 1024 * 1024  # bytes; images and carriers travel in one event
MAX_LINES = 2**17  # of one event: millions of them hold up everybody else, and come compressed in a few KiB


# (the `event:` field, "" when absent; the joined `data:` lines): a plain tuple, since streams are made of these.
SseEvent = tuple[str, bytes]


class EventTooLarge(ValueError):
    """An event grew beyond `MAX_EVENT` bytes without an end, or has more than `MAX_LINES` lines."""


class SseReader:
    """`feed` chunks, take events; `end` gives a last event that lacks its blank line."""

    __slots__ = ("_begun", "_carriage", "_heading", "_name", "_pending", "_rest", "_size", "_unended")

    def __init__(self) -> None:
        self._rest = b""
        # Pieces of an event that comes in many reads, and their size: joined once, at its end.
        self._unended: list[bytes] = []
        self._size = 0
        self._begun = False
        # Most events begin as the one before them: the line of their name, if they have any, and the name it tells.
        self._heading: bytes | None = None
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
        events = self._events_of(text)
        if len(self._rest) > MAX_EVENT:
            raise EventTooLarge(f"an event of more than {MAX_EVENT} bytes")
        return events

    def _events_of(self, text: bytes) -> list[SseEvent]:
        """The whole events of a text; what follows on them is the rest. An event that begins as the one before it, and
        has one line of data, is not taken apart any further.
        """
        lines = text.split(b"\n")
        heading, name = self._heading, self._name
        lines_of_one = 1 if heading is None else 2
        at, end = 0, len(lines) - 1  # the last line has no end yet
        events: list[SseEvent] = []
        if heading is None and not any(lines[1 : end - end % 2 : 2]):  # each event is one line, as in all of Chat
            at = end - end % 2
            events = [(name, data) for line in lines[:at:2] if line.startswith(b"data:") and (data := line[5:].strip())]
        while at < end:
            stop = at + lines_of_one
            if stop < end and not lines[stop] and (heading is None or lines[at] == heading):
                line = lines[stop - 1]
                if line.startswith(b"data:"):
                    if payload := line[5:].strip():
                        events.append((name, payload))
                    at = stop + 1
                    continue
            try:
                stop = lines.index(b"", at, end)
            except ValueError:
                break
            if (event := _parse(lines[at:stop])) is not None:
                events.append(event)
                if stop - at <= _LINES_OF_MOST:
                    heading, name = _heading_of(lines[at:stop]), event[0]
                    lines_of_one = 1 if heading is None else 2
            at = stop + 1
        self._heading, self._name = heading, name
        self._rest = b"\n".join(lines[at:])
        return events

    def end(self) -> list[SseEvent]:
        """The last event, if the stream ended without its blank line; the caller decides whether it is whole. Raises
        `EventTooLarge`."""
        block, self._rest = self._joined() + self._rest, b""
        event = _parse(block.split(b"\n"))
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


def _heading_of(lines: list[bytes]) -> bytes | None:
    """The line of an event's name, where that comes before its data; None for an event without a name."""
    return lines[0] if lines[0].startswith(b"event:") else None


def _parse(block: list[bytes]) -> SseEvent | None:
    """One event of the lines between two blank ones; None when there is no data (comments, names alone). Raises
    `EventTooLarge`."""
    if len(block) > MAX_LINES:
        raise EventTooLarge(f"an event of more than {MAX_LINES} lines")
    name = ""
    lines: list[bytes] = []
    for line in block:
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.strip().decode("utf-8", "replace")
    if not lines:
        return None
    payload = b"\n".join(lines).strip()
    return (name, payload) if payload else None
