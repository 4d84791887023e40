"""The usage of a Chat stream that passes through: the backend tells it only if asked, and the proxy needs it where the
client does not (mapping.md 13.4). So the proxy asks in the client's place, and takes out the chunk that comes of it.
"""

import re

from proxy.canonical.errors import Error
from proxy.canonical.jsontext import Fragment
from proxy.canonical.target import Dialect
from proxy.protocols.fields import Wire, is_object
from proxy.translation.codecs import is_usage_alone
from proxy.translation.passed_body import member_of, with_members
from proxy.translation.reading import parse_event
from proxy.translation.sse import SseReader

_ASKED: Wire = {"include_usage": True}
_ADDED = re.compile(rb'^(\s*\{)"stream_options":\{"include_usage":true\},')  # where `with_members` puts it
# An event with its blank line, whatever the line ends are.
_BLOCK = re.compile(rb".*?(?:(?>\r\n|\r|\n)){2}", re.DOTALL)


def asking_for_usage(raw: bytes, wire: Wire, dialect: Dialect) -> bytes:
    """The body of a stream's request with usage asked for; as it is if it can't be, or if the client has asked.

    `wire` is what it decodes to. What is malformed is left for the backend to refuse.
    """
    options = wire.get("stream_options")
    if dialect.no_stream_options:
        return raw
    if options is None:
        return with_members(raw, {"stream_options": _ASKED}, wire)
    if not is_object(options) or options.get("include_usage") not in (None, False):
        return raw
    changed = with_members(member_of(raw, "stream_options"), _ASKED, options)
    return with_members(raw, {"stream_options": Fragment(changed)})


def unasked(body: bytes) -> bytes:
    """What `asking_for_usage` made its body of, where the client had no `stream_options`; else the body as it is."""
    return _ADDED.sub(rb"\1", body, count=1)


def tells_usage_alone(payload: bytes) -> bool:
    """Whether the event is the chunk that tells usage to those who asked for it."""
    wire = parse_event(payload)
    return not isinstance(wire, Error) and is_usage_alone(wire)


def without_usage(events: bytes) -> tuple[bytes, int]:
    """Whole events without the chunks that only tell usage, and how many of these there were."""
    pieces: list[bytes] = []
    done = found = 0
    for block in _BLOCK.finditer(events):
        if any(tells_usage_alone(payload) for _, payload in SseReader().feed(block[0])):
            pieces.append(events[done : block.start()])
            done = block.end()
            found += 1
    return b"".join(pieces) + events[done:], found
