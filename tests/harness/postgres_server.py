"""A real PostgreSQL for tests, on a socket of its own, without waiting for the disk."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

READY_WITHIN_S = 20.0
POLL_S = 0.02
_DEBIAN = Path("/usr/lib/postgresql")
_UNPRIVILEGED = "nobody"  # the server refuses to run as root


class PostgresFailed(Exception):
    """The server did not start; the message says what to do."""


class PostgresServer:
    """To be used as a context, or started and stopped. `durable`: what was committed survives `kill`."""

    def __init__(self, *, durable: bool = False) -> None:
        self._bin = _programs()
        self._durable = durable
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-pg-")
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._base = Path(self._folder.name)
        if self._user is not None:
            os.chown(self._base, pwd.getpwnam(self._user).pw_uid, -1)

    @property
    def url(self) -> str:
        return f"postgresql://dragoman@/postgres?host={quote(str(self._base), safe='/')}"

    def __enter__(self) -> "PostgresServer":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once it answers. Raises PostgresFailed if it does not."""
        data = self._base / "data"
        if not data.exists():
            self._run("initdb", "-D", str(data), "-U", "dragoman", "-A", "trust", "-E", "UTF8", "--no-sync")
        sync = "on" if self._durable else "off"
        options = ["-c", "listen_addresses=", "-c", f"fsync={sync}", "-c", f"unix_socket_directories={self._base}"]
        with (self._base / "output").open("ab") as output:
            self._process = subprocess.Popen(
                (self._bin / "postgres", "-D", str(data), *options),
                cwd=self._base,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        until = time.monotonic() + READY_WITHIN_S
        while self._run("pg_isready", "-q", "-h", str(self._base), check=False) != 0:
            if time.monotonic() > until or self._process.poll() is not None:
                raise PostgresFailed((self._base / "output").read_text("utf-8", "replace"))
            time.sleep(POLL_S)

    def kill(self) -> None:
        """It goes down at once, breaking what is open; what was committed is there after another start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        done = subprocess.run(
            (self._bin / program, *arguments),
            cwd=self._base,
            user=self._user,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise PostgresFailed(done.stderr)
        return done.returncode


def _programs() -> Path:
    versions = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("postgres")
    if found is None:
        raise PostgresFailed(
            "Tests of stored state need PostgreSQL 15 or newer: `apt-get install postgresql` on Debian, "
            "`brew install postgresql` on a Mac."
        )
    return Path(found).resolve().parent
