"""Which names a list of globs allows.

`allow` means what it says, letter by letter. `deny` also holds for a name that differs in case only, since many
backends take names in any case.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable

from proxy.settings.tenants import NameRules

_LONGEST = 256  # characters; no vendor's name comes near
_KEPT = 1024  # names that are remembered


def is_plain(name: str) -> bool:
    """Whether a name can only be read in one way: no space, nothing that can't be seen, no letter that is another's
    double (full-width, ligature)."""
    return (
        0 < len(name) <= _LONGEST and name.isprintable() and " " not in name and unicodedata.is_normalized("NFKC", name)
    )


class Names:
    """`NameRules`, compiled. A thing that goes by several names is allowed when `allow` has one of them and `deny`
    has none."""

    __slots__ = ("_allow", "_deny", "_known", "open")

    def __init__(self, rules: NameRules) -> None:
        self.open = not rules.deny and (rules.allow is None or "*" in rules.allow)
        self._allow = None if rules.allow is None else tuple(map(_compiled, rules.allow))
        self._deny = tuple(re.compile(fnmatch.translate(glob), re.IGNORECASE) for glob in rules.deny)
        self._known: dict[tuple[str, ...], bool] = {}

    def allow(self, *names: str) -> bool:
        """Whether what goes by these names is allowed."""
        if self.open:
            return True
        known = self._known.get(names)
        if known is None:
            known = self.listed(*names) and not self.denied(*names)
            if sum(map(len, names)) <= _LONGEST:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[names] = known
        return known

    def listed(self, *names: str) -> bool:
        """Whether `allow` has one of them, or is absent."""
        return self._allow is None or _matches(self._allow, names)

    def denied(self, *names: str) -> bool:
        """Whether `deny` has one of them."""
        return _matches(self._deny, names)


def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


def _matches(patterns: Iterable[re.Pattern[str]], names: tuple[str, ...]) -> bool:
    return any(pattern.match(name) for pattern in patterns for name in names)
