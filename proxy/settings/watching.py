"""Which files a configuration came from, and whether they have changed since.

Names and stats are looked at, never contents, and always through links: Kubernetes swaps what a link points at, and
editors put a new file in the place of the old one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Inode, time of change in nanoseconds and size of a file; the configuration files of a folder; None where nothing is.
Stamp = tuple[int, int, int] | tuple[str, ...] | None

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Sources:
    """What was read: the configuration's file, or its folder and the files in it; and the files that these name, such
    as keys and certificates. `seen` has what each looked like just before it was read."""

    configuration: tuple[Path, ...] = ()
    secrets: tuple[Path, ...] = ()
    seen: Mapping[Path, Stamp] = field(default_factory=dict)


class Watcher:
    """Tells of each change once, so that a configuration that is wrong is not read again until it has been mended.
    A file that is gone has changed. To be asked now and then; each question costs one stat a file."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._seen = dict(sources.seen)

    def changed(self) -> bool:
        """Whether the configuration itself has changed since it was read, or since this was last asked."""
        return self._changed(self._sources.configuration)

    def secrets_changed(self) -> bool:
        """The same of the files that the configuration names."""
        return self._changed(self._sources.secrets)

    def _changed(self, paths: Iterable[Path]) -> bool:
        now = stamps(paths)
        changed = any(self._seen.get(path) != stamp for path, stamp in now.items())
        self._seen |= now
        return changed


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """What each looks like now."""
    return {path: stamp(path) for path in paths}


def stamp(path: Path) -> Stamp:
    """What a file or a folder looks like now."""
    try:
        if path.is_dir():
            return tuple(file.name for file in files_in(path))
        stat = path.stat()
    except (OSError, ValueError):  # of a name that no file can have
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def files_in(folder: Path) -> list[Path]:
    """The configuration files of a folder, in the order of their names. Hidden ones are not meant: Kubernetes keeps
    the real files of a ConfigMap in hidden folders, beside links to them. Raises OSError."""
    visible = (file for file in folder.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))
    return sorted(file for file in visible if not file.is_dir())
