"""A tenant's policy as plain values, laid over the defaults for all tenants, for checks across entries.

What is of a wrong type is left out here: that is told elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from proxy.settings.document import Document, Path, Value

# Mappings whose keys the operator chooses: given as a whole or not at all.
_WHOLE = ("metadata", "map")

_MOST_DIGITS = 400  # of a number; Python reads no more than ten times as many

Section = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Policy:
    """`own`: what stands at `at`; `all`: the same over the defaults. `of_tenant`: not the defaults themselves."""

    at: Path
    own: Section
    all: Section
    of_tenant: bool = True

    def says(self, *path: str) -> bool:
        """Whether it is said here, and not only by the defaults."""
        section = section_at(self.own, *path[:-1])
        return path[-1] in section

    def section(self, *path: str) -> Section:
        return section_at(self.all, *path)


def policies(document: Document) -> Iterator[Policy]:
    """The defaults if there are any, then each tenant."""
    defaults = document.root.get("tenant_defaults")
    if not isinstance(defaults, dict):
        defaults = {}
    if defaults:
        yield Policy(("tenant_defaults",), defaults, defaults, of_tenant=False)
    for index, entry in document.entries("tenants"):
        yield Policy(("tenants", index), entry, _over(entry, defaults) if defaults else entry)


def section_at(section: Section, *path: str) -> Section:
    """A section inside; an empty one where there is none."""
    for step in path:
        inner = section.get(step)
        section = inner if isinstance(inner, dict) else {}
    return section


def texts(value: Value) -> list[str]:
    """The texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def number(value: Value) -> int | None:
    """A whole number, which may have come from the environment as a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def holds(value: Value) -> bool:
    """A truth value, which may have come from the environment as a text."""
    return str(value).lower() in ("true", "1", "yes", "on", "t", "y")


def _over(own: Section, defaults: Section) -> dict[str, Value]:
    merged: dict[str, Value] = {**defaults, **own}
    for key, value in own.items():
        default = defaults.get(key)
        if isinstance(default, dict) and key not in _WHOLE:
            if isinstance(value, dict):
                merged[key] = _over(value, default)
            elif value is None and key != "budget":  # an empty section says nothing; `budget: null` lifts it
                merged[key] = default
    return merged
