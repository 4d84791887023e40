"""Lines on stdout, in JSON or for people: access records, and messages of proxy and libraries (operations.md 5).

Nothing writes to stdout but these; the field `log` tells the two apart. Every message and traceback goes through the
scrubber; access records hold only fields that the exchange chose, so theirs go through it where text of others is in.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import BinaryIO, Final

import orjson

_FLUSH_AFTER: Final = 0.25  # seconds that a record may wait for others
_FLUSH_AT: Final = 64 * 1024  # bytes
_PIPE_BUF: Final = 4096  # bytes that Linux writes to a pipe at once


Line = Callable[[Mapping[str, object]], bytes]


def json_line(fields: Mapping[str, object]) -> bytes:
    """A record as JSON; `text_lines.py` has the other form."""
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


class AccessLog:
    """Collects records and writes many at a time."""

    def __init__(self, write: Callable[[bytes], object], line: Line = json_line) -> None:
        self._write = write
        self._line = line
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def record(self, fields: Mapping[str, object]) -> None:
        """Write one record, soon."""
        line = self._line(fields)
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _FLUSH_AT:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_AFTER, self.flush)

    def flush(self) -> None:
        """Write what there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            self._write(b"".join(self._lines))
            self._lines.clear()
            self._size = 0


def timestamp() -> str:
    """Now, as RFC 3339 in UTC with milliseconds."""
    second, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class _Lines(logging.Formatter):
    def __init__(self, scrub: Callable[[str], str], line: Line) -> None:
        super().__init__()
        self._scrub = scrub
        self._line = line

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": timestamp(),
            "level": record.levelname.lower(),
            "log": "app",
            "logger": record.name,
            "message": self._scrub(record.getMessage()),
        }
        if record.exc_info:
            fields["traceback"] = self._scrub(self.formatException(record.exc_info))
        return self._line(fields).decode().removesuffix("\n")


class _Stdout(logging.Handler):
    """Writes through the same door as the access records, so that lines never mix."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except (TypeError, ValueError):  # a message whose arguments don't fit it
            self.handleError(record)
            return
        self._write(line.encode(errors="replace") + b"\n")


def write_stdout(lines: bytes, stream: BinaryIO | None = None) -> None:
    """Write at once. A reader that has gone is no reason to stop serving."""
    stream = stream or sys.stdout.buffer
    try:
        stream.write(lines)
        stream.flush()
    except (BrokenPipeError, ValueError):
        return


def write_stdout_among_others(lines: bytes, stream: BinaryIO | None = None) -> None:
    """The same where other processes write to the same pipe: in pieces that the system never mixes with theirs, unless
    a line alone is longer."""
    piece: list[bytes] = []
    size = 0
    for line in lines.splitlines(keepends=True):
        if piece and size + len(line) > _PIPE_BUF:
            write_stdout(b"".join(piece), stream)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    write_stdout(b"".join(piece), stream)


def configure_messages(scrub: Callable[[str], str], level: int = logging.INFO, line: Line = json_line) -> None:
    """Send the messages of all libraries to stdout, scrubbed."""
    handler = _Stdout(write_stdout)
    handler.setFormatter(_Lines(scrub, line))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # aiohttp tells of every client that sends nonsense; the access record says so already.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
