"""What tenants have used of days and budgets, in a file that outlasts the process (operations.md 9.3).

Names and numbers, no secrets. A reader finds the old file or the new one whole, never a part. A file that makes no
sense is set aside, since it may be mended by hand. One process at a time has it: the lock is on a file beside it,
because the file itself is replaced by each write.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, ValidationError

from proxy.settings.durable import sync_folder
from proxy.tenancy.limits import Dimension, Spent

VERSION = 1
Kept = Mapping[str, Mapping[Dimension, Spent]]  # by tenant


class LimitsFileTaken(OSError):
    """Another process has the file."""


class LimitsFileDamaged(Exception):
    """What is in it can't be known; it is out of the way unless that failed, too."""


class LimitsFile:
    """`path`: of a file that need not exist yet; where it is a link, what it points at is replaced.

    Raises LimitsFileTaken, and OSError where there can be no lock.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path.resolve()
        self._now = now
        self._spoilt = False
        self._written: bytes | None = None
        self._lock = _lock(self.path.with_name(f"{self.path.name}.lock"), self.path)

    def read(self) -> Kept:
        """What was written last; nothing if there is no file yet. Raises LimitsFileDamaged."""
        try:
            found = _Content.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValidationError as error:
            fault = _first(error)
        except OSError as error:
            fault = f"it can't be read: {error.strerror}"
        else:
            return {
                name: {dimension: Spent(window.used, window.end) for dimension, window in windows.items()}
                for name, windows in found.tenants.items()
            }
        self._spoilt = True
        try:
            fault = f"{fault}; it is kept as {self._set_aside().name}"
        except OSError as error:
            fault = f"{fault}; it can't be set aside: {error.strerror}"
        raise LimitsFileDamaged(fault)

    def write(self, kept: Kept) -> None:
        """Put this in the place of what there was, if it is something else; it is on the disk then. Raises OSError, and
        what there was stays."""
        content = _written(kept)
        if content == self._written:
            return
        if self._spoilt:
            self._set_aside()
        self._replace(content)
        self._written = content

    def close(self) -> None:
        """Let another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _set_aside(self) -> Path:
        """Where it is then."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{int(self._now())}")
        with suppress(FileNotFoundError):  # somebody has done it by hand
            self.path.rename(aside)
        self._spoilt = False
        return aside

    def _replace(self, content: bytes) -> None:
        # Always the same name, so that what a process leaves that was killed here is no second file for ever.
        temporary = self.path.with_name(f".{self.path.name}.new")
        temporary.unlink(missing_ok=True)
        try:
            # Not through a link that somebody put there in the meantime.
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(self.path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(self.path.parent)


class _Window(BaseModel):
    model_config = ConfigDict(strict=True)

    used: NonNegativeInt
    end: FiniteFloat


class _Content(BaseModel):
    model_config = ConfigDict(strict=True)

    version: Literal[1]
    tenants: dict[str, dict[Dimension, _Window]]


def _written(kept: Kept) -> bytes:
    """One tenant a line; and one at a time, since nothing else runs in the process while orjson does."""
    lines = (b"%b: %b" % (orjson.dumps(name), orjson.dumps(spent)) for name, spent in kept.items())
    return b'{"version": %d, "tenants": {\n%b\n}}\n' % (VERSION, b",\n".join(lines))


def _first(error: ValidationError) -> str:
    """The first of what is wrong, without the text that is."""
    first, *_ = error.errors(include_url=False, include_input=False)
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _lock(file: Path, path: Path) -> int | None:
    """The descriptor that holds the lock for as long as it is open; None on systems without such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LimitsFileTaken(
            f"another process keeps its limits in {path}: give each its own state.limits_file"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
