"""Collect `reasoning_details`, OpenRouter's list of thinking with signatures (mapping.md 8.8).

Entries with one `index` are pieces of one entry: texts are joined, the last signature holds. They must come back
verbatim, so an entry is kept whole beside the text that is shown.
"""

from proxy.protocols.fields import Wire

_JOINED = ("text", "summary", "data")


class ReasoningDetails:
    """Entries by index; the one whose text is in the open part is `current`."""

    __slots__ = ("_current", "_entries", "_pieces")

    def __init__(self) -> None:
        self._entries: dict[object, Wire] = {}
        self._pieces: dict[object, dict[str, list[str]]] = {}
        self._current: object = None

    def take(self, entry: Wire) -> tuple[str, bool]:
        """Keep a piece; its text, and whether that text is of another entry than the open part's."""
        key = _key(entry)
        known = self._entries.setdefault(key, {})
        pieces = self._pieces.setdefault(key, {})
        shown = ""
        for name, value in entry.items():
            if name in _JOINED and type(value) is str:
                pieces.setdefault(name, []).append(value)
                if name != "data":
                    shown += value
                known.setdefault(name, "")
            elif value is not None or name not in known:
                known[name] = value
        return shown, key != self._current

    def begin(self, entry: Wire) -> None:
        """The next reasoning part shows this entry."""
        self._current = _key(entry)

    def complete(self) -> Wire | None:
        """The entry that the closing part showed, whole."""
        key, self._current = self._current, None
        return self._take(key) if key in self._entries else None

    def rest(self) -> list[Wire]:
        """Entries that no part has shown, in order."""
        return [self._take(key) for key in list(self._entries)]

    def _take(self, key: object) -> Wire:
        entry = self._entries.pop(key)
        for name, texts in self._pieces.pop(key).items():
            entry[name] = "".join(texts)
        return entry


def _key(entry: Wire) -> object:
    index = entry.get("index")
    return index if type(index) is int else str(entry.get("type"))
