"""Write a stream of text completions: each chunk is a whole `text_completion` with a piece of the text.

There is no opening chunk: what comes first is text.
"""

from collections.abc import Iterable
from typing import assert_never

from proxy.canonical import jsontext
from proxy.canonical.events import (
    Cite,
    Close,
    Delta,
    End,
    Event,
    Fail,
    Finish,
    Open,
    Ping,
    Start,
    UsageUpdate,
)
from proxy.canonical.parts import Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.usage import Usage
from proxy.protocols.completions.reply_writer import write_common, write_reason
from proxy.protocols.openai_completions import PARAGRAPH, Paragraphs, write_usage
from proxy.protocols.openai_errors import write_error
from proxy.protocols.untold_usage import believed, bytes_of

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"


class StreamWriter:
    """Events in, bytes out. `write` may be called with any number of events at a time."""

    __slots__ = (
        "_base",
        "_context",
        "_end",
        "_failed",
        "_guesses",
        "_head",
        "_paragraphs",
        "_place",
        "_said",
        "_speaks",
        "_usage",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._guesses = False  # nobody has told of any usage yet, and the client wants to know
        self._said = 0  # bytes, as long as one has to guess
        self._base = b""
        self._head = b""
        self._place = b""  # what stands between a text and its finish reason
        self._end = b"}]" + (b',"usage":null' if context.include_usage else b"") + b"}\n\n"
        self._paragraphs = Paragraphs()
        self._speaks: list[bool | None] = []  # by part: whether a text has begun; None for a part that is no text
        self._usage: Usage | None = None
        self._failed = False

    def write(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events."""
        out: list[bytes] = []
        for event in events:
            match event:
                case Delta():
                    self._delta(event.k, event.text, out)
                case Open():
                    self._paragraphs.open(event.part)
                    self._speaks.append(False if isinstance(event.part, Text) else None)
                    if isinstance(event.part, Text):
                        self._delta(event.k, event.part.text, out)
                case Start():
                    self._begin(event)
                case UsageUpdate():
                    self._usage = event.usage
                case Finish():
                    self._finish(event, out)
                case Fail():
                    self._failed = True
                    out += (b"data: ", jsontext.dumps(write_error(event.error, "")[1]), b"\n\n")
                case Ping():
                    out.append(PING)
                case End():
                    if not self._failed:
                        out.append(DONE)
                case Close() | Cite():
                    pass
                case _:
                    assert_never(event)
        return b"".join(out)

    def _begin(self, start: Start) -> None:
        self._usage = start.usage
        self._guesses = start.usage is None and self._context.include_usage and self._context.choices == 1
        common = write_common(start.id, start.created, start.model, start.fingerprint, self._context)
        self._base = b"data: " + jsontext.dumps(common)[:-1] + b',"choices":['
        self._head = self._base + b'{"text":'
        self._place = b',"index":%d,"logprobs":null,"finish_reason":' % self._context.choice

    def _delta(self, k: int, text: str, out: list[bytes]) -> None:
        if self._guesses:
            self._said += bytes_of(text)
        speaks = self._speaks[k]
        if speaks is None or not text:
            return
        if not speaks:
            self._speaks[k] = True
            if self._paragraphs.begin(k):
                text = PARAGRAPH + text
        out += (self._head, jsontext.dumps(text), self._place, b"null", self._end)

    def _finish(self, finish: Finish, out: list[bytes]) -> None:
        reason = jsontext.dumps(write_reason(finish.stop))
        out += (self._head, b'""', self._place, reason, self._end)
        usage = self._usage
        if self._guesses:
            usage = believed(usage, self._context, self._said)
        if self._context.include_usage and usage is not None:
            out += (self._base, b'],"usage":', jsontext.dumps(write_usage(usage)), b"}\n\n")
