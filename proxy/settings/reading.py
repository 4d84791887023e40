"""The texts of a configuration: of one file, or of all files in a folder, as they were at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from proxy.settings.mistakes import Mistake, UnreadableFile
from proxy.settings.watching import Sources, Stamp, files_in, stamps

_DIGEST_LENGTH = 16
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Texts:
    """`of`: by file, in the order of their names. `folder`: where the paths that they name start. `seen`: what the
    files, and the folder if it was asked for, looked like."""

    of: Mapping[Path, str]
    folder: Path
    seen: Mapping[Path, Stamp]

    @property
    def digest(self) -> str:
        """Tells one configuration from another. References to secrets stand in it as they are written."""
        digest = sha256()
        for file, text in self.of.items():
            for part in (file.name, text):
                content = part.encode()
                digest.update(b"%d:%b" % (len(content), content))
        return digest.hexdigest()[:_DIGEST_LENGTH]


def read_texts(path: Path) -> Texts:
    """Raises UnreadableFile. Files that change meanwhile are read again, since half of an old configuration and half
    of a new one may be valid together, and mean what nobody wrote."""
    for _ in range(_ATTEMPTS):
        seen = stamps([path])
        try:
            folder = path if path.is_dir() else None
            files = [path] if folder is None else _files_in(folder)
            seen |= stamps(files)
            texts = {file: _read(file) for file in files}
        except UnreadableFile as error:
            error.sources = Sources(tuple(seen), (), seen)
            raise
        if stamps(seen) == seen:
            return Texts(texts, folder or path.parent, seen)
    raise _unreadable(path, "changes while it is read")


def _files_in(folder: Path) -> list[Path]:
    try:
        files = files_in(folder)
    except OSError as error:
        raise _unreadable(folder, f"can't be read: {error.strerror}") from None
    if not files:
        raise _unreadable(folder, "holds no *.yaml and no *.yml")
    return files


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(file, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _unreadable(file, "is not UTF-8 text") from None


def _unreadable(path: Path, message: str) -> UnreadableFile:
    return UnreadableFile([Mistake(str(path), None, "", message)])
