"""What backends have refused, for an hour: the next request then leaves it out at once (mapping.md 17.3)."""

import time

REMEMBERED = 3600.0  # seconds
_MOST = 1000  # pairs of backend and model
_NOTHING: frozenset[str] = frozenset()


class RefusedFields:
    """Fields of requests by backend and model."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, float]] = {}

    def fields(self, backend: str, model: str) -> frozenset[str]:
        """What to leave out of a request now."""
        if not self._known or (known := self._known.get((backend, model))) is None:
            return _NOTHING
        now = time.monotonic()
        return frozenset(field for field, until in known.items() if until > now)

    def note(self, backend: str, model: str, field: str) -> None:
        """The backend refused `field`, and took the request without it."""
        known = self._known.pop((backend, model), {})
        while len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        known[field] = time.monotonic() + REMEMBERED
        self._known[backend, model] = known
