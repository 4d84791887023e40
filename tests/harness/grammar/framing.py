"""How events are written as bytes: `event:` and `data:` lines, blank lines, comments, and nothing else."""

import re

from tests.harness.grammar.findings import Findings
from tests.harness.wire import Protocol

COMMENT = rb":[^\r\n]*\n\n"
CHAT_FRAME = re.compile(rb"data: (?P<data>[^\r\n]+)\n\n|" + COMMENT)
TYPED_FRAME = re.compile(rb"event: (?P<name>[\w.]+)\ndata: (?P<data>[^\r\n]+)\n\n|" + COMMENT)
FRAMES: dict[Protocol, re.Pattern[bytes]] = {"chat": CHAT_FRAME, "responses": TYPED_FRAME, "messages": TYPED_FRAME}

KNOWN_FIELDS = {b"data", b"event", b"id", b"retry", b""}  # the empty one begins a comment
DONE = b"[DONE]"


def check_framing(protocol: Protocol, raw: bytes, findings: Findings) -> None:
    for line in re.split(rb"\r\n|\r|\n", raw.removeprefix(b"\xef\xbb\xbf")):
        findings.always(line.partition(b":")[0] in KNOWN_FIELDS, f"not a line of an event stream: {line[:80]!r}")
    findings.always(_is_utf8(raw), "the stream is not UTF-8")
    findings.always(re.search(rb"(\n\n|\r\n\r\n|\r\r)\Z", raw) is not None, "no blank line ends the stream")

    position = 0
    done_at = None
    while position < len(raw):
        frame = FRAMES[protocol].match(raw, position)
        if frame is None:
            findings.ours(False, f"not framed as {protocol} writes it: {raw[position : position + 80]!r}")
            break
        if frame["data"] == DONE:
            done_at = frame.end()
        position = frame.end()
    if protocol == "chat":
        findings.ours(done_at in (None, len(raw)), "something follows [DONE]")
    else:
        findings.ours(done_at is None, f"{protocol} has no [DONE]")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
