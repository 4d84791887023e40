"""`${NAME}`, `${NAME:-default}`, `${file:/path}` and `$$` in string values (operations.md 13).

A value that names a variable that isn't set is a mistake and never an empty string: an empty key would turn
into a confusing 401 much later.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path as FilePath

from proxy.settings.document import Document, Path, Value
from proxy.settings.watching import stamp

_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)(\})?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def interpolate(document: Document, environ: Mapping[str, str], folder: FilePath = FilePath()) -> None:
    """Replace every reference in the document; what was filled in becomes a secret of the document. Paths start at
    `folder`."""
    look_up = partial(_look_up, document, environ, folder)
    document.root = {key: _fill(document, look_up, value, (key,)) for key, value in document.root.items()}


def _fill(document: Document, look_up: Callable[[str], str], value: Value, path: Path) -> Value:
    if isinstance(value, dict):
        return {key: _fill(document, look_up, inner, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(document, look_up, inner, (*path, index)) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "$" not in value:
        return value

    def replace(reference: re.Match[str]) -> str:
        if reference[0] == "$$":
            return "$"
        if reference[2] is None:
            raise ValueError("'${' without its '}'")
        return look_up(reference[1])

    try:
        return _REFERENCE.sub(replace, value)
    except ValueError as error:
        document.note_broken(path, str(error))
        return value


def _look_up(document: Document, environ: Mapping[str, str], folder: FilePath, reference: str) -> str:
    if reference.startswith("file:"):
        file = folder / reference.removeprefix("file:")
        document.named[file] = stamp(file)
        found = read_secret_file(file)
        document.secrets.add(found)
        return found
    name, has_default, default = reference.partition(":-")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"'${{{reference}}}' is neither ${{NAME}}, ${{NAME:-default}} nor ${{file:/path}}; write $$ for $"
        )
    if has_default and not environ.get(name):
        return default
    if name not in environ:
        raise ValueError(f"the environment variable {name} is not set")
    document.secrets.add(environ[name])
    return environ[name]


def read_secret_file(file: FilePath) -> str:
    """The text of a file without its trailing newline. Raises ValueError that says why it can't be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"the file {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the file {file} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
