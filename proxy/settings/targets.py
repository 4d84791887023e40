"""The targets of a model's entry, in all the ways in which they may be written."""

from collections.abc import Mapping
from typing import NamedTuple

from proxy.settings.document import Path, Value


class Written(NamedTuple):
    """`at`: where its upstream is named. `model`: the backend's name for it, by the target or by the entry."""

    at: Path
    upstream: str
    model: Value


def targets_of(entry: Mapping[str, Value], at: Path = ()) -> list[Written]:
    """Those that are well formed. `at`: where the entry stands."""
    listed = entry.get("upstream")
    places: list[tuple[Path, Value]] = [((*at, "upstream"), listed)]
    if isinstance(listed, list):
        places = [((*at, "upstream", index), each) for index, each in enumerate(listed)]
    places.append(((*at, "on_context_length"), entry.get("on_context_length")))
    return [target for place, written in places if (target := _target(written, entry, place)) is not None]


def _target(written: Value, entry: Mapping[str, Value], at: Path) -> Written | None:
    model = entry.get("model")
    if isinstance(written, dict):
        model, written, at = written.get("model", model), written.get("upstream"), (*at, "upstream")
    return Written(at, written, model) if isinstance(written, str) else None
