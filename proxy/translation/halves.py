"""Characters that a backend cut in half between two deltas (mapping.md 0.3).

Servers that count text in UTF-16 cut emoji into two surrogates, each escaped in an event of its own. Neither is a
character, so the first waits for the second.
"""

from collections.abc import Iterable

from proxy.canonical.events import Close, Delta, Event
from proxy.canonical.jsontext import well_formed

_REPLACEMENT = "\ufffd"


def may_hold_half(payload: bytes) -> bool:
    """Whether an event has an escape of a surrogate at all."""
    return b"\\ud" in payload or b"\\uD" in payload


class Halves:
    """A stage behind the backend's reader: the deltas that leave it hold whole characters only."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, str] = {}

    def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with halves held back until their other half comes."""
        out: list[Event] = []
        for event in events:
            match event:
                case Delta():
                    text = self._held.pop(event.k, "") + event.text
                    if "\ud800" <= text[-1:] <= "\udbff":
                        self._held[event.k] = text[-1]
                        text = text[:-1]
                    if text:
                        out.append(Delta(event.k, well_formed(text), event.logprobs))
                case Close() if event.k in self._held:
                    del self._held[event.k]
                    out += (Delta(event.k, _REPLACEMENT), event)
                case _:
                    out.append(event)
        return out
