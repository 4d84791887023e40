"""What backends have refused, for an hour: the next request then leaves it out at once (mapping.md 17.3)."""

import time

REMEMBERED = 3600.0  # seconds
_MOST = 1000  # of backends, their accounts and models
_NOTHING: frozenset[str] = frozenset()


class RefusedFields:
    """Fields of requests by backend, the account that it was asked with (its origin in envelopes), and model."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], dict[str, float]] = {}

    def fields(self, backend: str, origin: str, model: str) -> frozenset[str]:
        """What to leave out of a request now."""
        if not self._known or (known := self._known.get((backend, origin, model))) is None:
            return _NOTHING
        now = time.monotonic()
        return frozenset(field for field, until in known.items() if until > now)

    def note(self, backend: str, origin: str, model: str, field: str) -> None:
        """The backend refused `field`, and took the request without it."""
        known = self._known.pop((backend, origin, model), {})
        while len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        known[field] = time.monotonic() + REMEMBERED
        self._known[backend, origin, model] = known
