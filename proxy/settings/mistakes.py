"""What is wrong with a configuration, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.settings.watching import Sources


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing to mend.

    `file` is a path, or `environment` or `command line`; `line` counts from 1 and is None where there are no
    lines; `field` is a path such as `upstreams[0].base_url`, or the variable's or option's own name.
    """

    file: str
    line: int | None
    field: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


class SettingsError(Exception):
    """The configuration can't be used; `mistakes` has all that was found, in the order of the files; `sources` says
    which these are."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = sorted(
            mistakes, key=lambda mistake: (mistake.line is not None, mistake.file, mistake.line or 0)
        )
        self.sources = Sources()
        super().__init__("\n".join(map(str, self.mistakes)))


class UnreadableFile(SettingsError):
    """There is no text to look for mistakes in."""
