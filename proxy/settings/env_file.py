"""A file of `NAME=value` lines, as containers are given them, to check a configuration with another environment."""

import re
from pathlib import Path

from proxy.settings.mistakes import Mistake, SettingsError, UnreadableFile

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_QUOTED = re.compile(r"([\"'])(.*)\1")


def read_env_file(file: Path) -> dict[str, str]:
    """By name. Values are taken as they are, but for quotes around them. Raises SettingsError, without quoting any."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UnreadableFile([Mistake(str(file), None, "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise UnreadableFile([Mistake(str(file), None, "", "is not UTF-8 text")]) from None
    values: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if found := _LINE.fullmatch(line):
            quoted = _QUOTED.fullmatch(found[2])
            values[found[1]] = quoted[2] if quoted else found[2]
        else:
            mistakes.append(Mistake(str(file), number, "", "is not NAME=value"))
    if mistakes:
        raise SettingsError(mistakes)
    return values
