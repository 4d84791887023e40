"""Reasoning of running tool loops, for Chat clients that don't send it back (`state.reasoning_cache`, mapping.md 8.9).

In one process and for an hour. What is kept are envelopes, so it is bound to the backend and no more open than what
other clients carry.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence

from proxy.canonical.jsontext import dumps
from proxy.protocols.fields import Wire
from proxy.translation.recall import Remembered

KEPT_FOR = 3600.0  # seconds
MOST_BYTES = 64 * 1024 * 1024


class ReasoningCache:
    """Entries by (backend, call id); the oldest go first when there are too many bytes of them."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Sequence[Wire], int, float]] = OrderedDict()
        self._bytes = 0

    def keep(self, origin: str, reply: Remembered) -> None:
        """Remember what a reply of this backend left."""
        if not reply.entries or not reply.calls:
            return
        size = len(dumps(reply.entries))
        until = time.monotonic() + KEPT_FOR
        for call_id in reply.calls:
            self._forget((origin, call_id))
            self._kept[origin, call_id] = (reply.entries, size, until)
            self._bytes += size
        while self._bytes > MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def find(self, origin: str, call_id: str) -> Sequence[Wire] | None:
        """The entries of the reply that made this call, within the hour."""
        entries, _, until = self._kept.get((origin, call_id), (None, 0, 0.0))
        return entries if until > time.monotonic() else None

    def _forget(self, key: tuple[str, str]) -> None:
        known = self._kept.pop(key, None)
        if known is not None:
            self._bytes -= known[1]
