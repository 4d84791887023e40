"""Several files as one configuration: tenants in one, backends in another.

Lists of objects go one behind the other in the order of the files' names; sections are merged key by key. Nothing
replaces anything: what two files say of the same thing is a mistake of one of them.
"""

from collections.abc import Sequence
from pathlib import Path as FilePath

from proxy.settings.document import Document, Path, Value, format_path

# The lists whose entries may stand in several files.
_LISTS = ("upstreams", "models", "model_profiles", "tenants", "prices")


def merge(documents: Sequence[Document]) -> Document:
    """One document with the mistakes of all. A single one is given back as it is."""
    merged, *others = documents
    if others:
        merged.several = True
        # What no file says is missing in all of them.
        merged.file = str(FilePath(merged.file).parent)
        merged.places.pop((), None)
        merged.broken.discard(())
    for other in others:
        _add(merged, other)
    return merged


def _add(merged: Document, other: Document) -> None:
    offsets: dict[str, int] = {}
    for name in _LISTS:
        first, second = merged.root.get(name), other.root.get(name)
        if isinstance(first, list) and isinstance(second, list):
            offsets[name] = len(first)
            first += second
            del other.root[name]
    _merge(merged, other, merged.root, other.root, ())
    for path, place in other.places.items():
        if path:
            merged.places.setdefault(_moved(path, offsets), place)
    for name, offset in offsets.items():
        listed = merged.root[name]
        for index in range(offset, len(listed) if isinstance(listed, list) else 0):
            merged.numbers[name, index] = index - offset
    merged.broken |= {_moved(path, offsets) for path in other.broken if path}
    merged.mistakes += other.mistakes


def _moved(path: Path, offsets: dict[str, int]) -> Path:
    """Where a value of the second document is in the merged one."""
    match path:
        case (str(name), int(index), *rest) if name in offsets:
            return (name, index + offsets[name], *rest)
    return path


def _merge(merged: Document, other: Document, into: dict[str, Value], values: dict[str, Value], at: Path) -> None:
    for key, value in values.items():
        path = (*at, key)
        known = into.get(key)
        if key not in into:
            into[key] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            _merge(merged, other, known, value, path)
        elif path not in merged.broken:
            other.note(path, f"given twice, first at {merged.place_of(path) or format_path(path)}")
