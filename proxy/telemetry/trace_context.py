"""W3C trace context: which trace a request belongs to, and what a backend of ours is told of it (operations.md 2.2).

A caller may write what it likes in these headers. Its trace is continued only where the settings trust it; whether it
is sampled, which costs, is believed of trusted proxies alone.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED, _RANDOM = 1, 2  # the flags that are known; others are sent as zero

_KEY = r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"(?P<key>{_KEY})=(?P<value>[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e])")
_MOST_MEMBERS = 32
_MOST_STATE = 512  # characters that are carried
_LONG_MEMBER = 128  # characters; the first to go
_LONGEST_STATE = 8192  # characters that are looked at


class TraceContext(NamedTuple):
    """Ids are hexadecimal: 32 digits and 16. `parent`: the caller's span, None where the trace begins here. `sampled`:
    whether the caller records it, None where it does not say or is not believed. `random`: the trace id is known to be
    random. `state`: members for `tracestate`."""

    trace: str
    parent: str | None = None
    sampled: bool | None = None
    random: bool = True
    state: tuple[tuple[str, str], ...] = ()

    def headers(self, span: str | None, *, sampled: bool) -> dict[str, str]:
        """What a backend is told. `span`: ours, that asks it; None where there is none, then the caller's stands for
        it."""
        parent = span or self.parent or os.urandom(8).hex()
        flags = _SAMPLED * sampled | _RANDOM * self.random
        told = {"traceparent": f"00-{self.trace}-{parent}-{flags:02x}"}
        if self.state:
            told["tracestate"] = ",".join(f"{key}={value}" for key, value in self.state)
        return told


def begin() -> TraceContext:
    """A new trace."""
    return TraceContext(os.urandom(16).hex())


def continued(traceparent: str, tracestate: Iterable[str], *, believed: bool) -> TraceContext:
    """The caller's trace, or a new one if its header is invalid; then its state is not looked at. `believed`: its word
    on sampling holds."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return begin()
    version, trace, parent, written, rest = match.groups()
    well_formed = version != "ff" and not (version == "00" and rest)
    if not (well_formed and trace.strip("0") and parent.strip("0")):
        return begin()
    flags = int(written, 16)
    sampled = bool(flags & _SAMPLED) if believed else None
    return TraceContext(trace, parent, sampled, bool(flags & _RANDOM), read_state(tracestate))


def read_state(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The members of `tracestate`, at most 32 and some 512 characters; none if any of them is malformed or given twice.
    Long members go first, then those at the right."""
    joined = ",".join(lines)
    if len(joined) > _LONGEST_STATE:
        return ()
    members: dict[str, str] = {}
    for written in joined.split(","):
        if not (written := written.strip(" \t")):
            continue
        match = _MEMBER.fullmatch(written)
        if match is None or match["key"] in members:
            return ()
        members[match["key"]] = match["value"]
    if len(members) > _MOST_MEMBERS:
        return ()
    return _trimmed(members)


def _trimmed(members: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    kept = list(members.items())
    if _length(kept) > _MOST_STATE:
        kept = [(key, value) for key, value in kept if len(key) + 1 + len(value) <= _LONG_MEMBER]
    while _length(kept) > _MOST_STATE:
        kept.pop()
    return tuple(kept)


def _length(members: list[tuple[str, str]]) -> int:
    return sum(len(key) + len(value) + 2 for key, value in members) - 1
