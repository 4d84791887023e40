"""Compare a request with what was written of it, where some of it was told in the loss report.

What was told may have become anything, or nothing; all else must be the same.
"""

from collections.abc import Iterator

from proxy.canonical.loss import LossReport, Path, Rule
from tests.harness.wire import Json


class Told:
    """Stands for what a loss was recorded for."""

    def __repr__(self) -> str:
        return "<told>"


TOLD = Told()

# What else a loss changes: settings of the whole request, and what stands beside the place.
ELSEWHERE: dict[Rule, tuple[Path, ...]] = {
    Rule.TOOL_CHANGE: (("tools",),),
    Rule.TOOL_SEARCH: (("tools",),),
    Rule.CONFIGURATION_UPDATE: (("reasoning",), ("text",)),
    Rule.OUTPUT_CONFIG: (("output_config",),),
}
BESIDE: dict[Rule, Path] = {
    Rule.INPUT_EXAMPLES: ("description",),  # which they are appended to
    Rule.CLEAR_AT: (),  # the message goes once it has been read
}


class Telling(LossReport):
    """A report that keeps the places as steps."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Path] = []

    def approx(self, rule: Rule, path: Path) -> None:
        super().approx(rule, path)
        self._note(rule, path)

    def drop(self, rule: Rule, path: Path) -> None:
        super().drop(rule, path)
        self._note(rule, path)

    def _note(self, rule: Rule, path: Path) -> None:
        self.places += (path, *ELSEWHERE.get(rule, ()))
        if rule in BESIDE:
            self.places.append((*path[:-1], *BESIDE[rule]))


def hidden(request: Json, places: list[Path]) -> Json:
    """The request with what was told put out of sight."""
    for place in places:
        request = _hide(request, place)
    return request


def _hide(value: Json, path: Path) -> Json:
    if not path or value is TOLD:
        return TOLD
    step, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], _hide(value[step], rest), *value[step + 1 :]]
    return {**(value or {}), step: _hide((value or {}).get(step), rest)}


def is_told(value: Json) -> bool:
    """Whether all of a value was told."""
    if isinstance(value, dict | list) and value:
        return all(map(is_told, value.values() if isinstance(value, dict) else value))
    return value is TOLD


def untold(value: Json) -> Json:
    """An object without the fields that were told."""
    return {name: inner for name, inner in value.items() if inner is not TOLD} if isinstance(value, dict) else value


def differences(asked: Json, written: Json, place: str = "") -> Iterator[str]:
    """Where what was written is not what was asked, nor told."""
    if is_told(asked):
        return
    if isinstance(asked, dict) and isinstance(written, dict):
        for name in {**asked, **written}:
            at = f"{place}.{name}" if place else name
            if name in asked and name in written:
                yield from differences(asked[name], written[name], at)
            elif name in asked and not is_told(asked[name]):
                yield f"{at}: {asked[name]!r:.200} is gone"
            elif name in written:
                yield f"{at}: {written[name]!r:.200} has come"
    elif isinstance(asked, list) and isinstance(written, list):
        if len(asked) == len(written) and not any(map(is_told, asked)):
            for index, (entry, other) in enumerate(zip(asked, written, strict=True)):
                yield from differences(entry, other, f"{place}[{index}]")
        elif not _fits(asked, written):
            yield f"{place}: {asked!r:.400} became {written!r:.400}"
    elif asked != written or isinstance(asked, bool) is not isinstance(written, bool):
        yield f"{place}: {asked!r:.200} became {written!r:.200}"


def _fits(asked: list[Json], written: list[Json]) -> bool:
    """Whether a list is the one asked, with any number of entries in place of one that was told."""
    ends = {0}  # how many entries of `written` can be what was asked so far
    for entry in asked:
        if is_told(entry):
            ends = set(range(min(ends, default=len(written) + 1), len(written) + 1))
        else:
            ends = {end + 1 for end in ends if end < len(written) and not any(differences(entry, written[end]))}
    return len(written) in ends
