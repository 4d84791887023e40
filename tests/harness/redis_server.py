"""A real Redis (or Valkey) for tests: nothing is kept on disk, and a restart forgets all."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

COMMANDS = ("redis-server", "valkey-server")
READY_WITHIN_S = 10.0
POLL_S = 0.005


class RedisFailed(Exception):
    """The server did not start; the message says what to do."""


class RedisServer:
    """On a socket of its own, since a port that is free now may not be after a restart. To be used as a context, or
    started and stopped. `password`: what it asks for."""

    def __init__(self, password: str | None = None) -> None:
        self.password = password
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-redis-")
        self._socket = str(Path(self._folder.name, "socket"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{'' if self.password is None else f':{self.password}@'}{self._socket}"

    def __enter__(self) -> "RedisServer":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once it answers. Raises RedisFailed if it does not."""
        asked = () if self.password is None else ("--requirepass", self.password)
        with Path(self._folder.name, "output").open("ab") as output:
            self._process = subprocess.Popen(
                (_command(), "--port", "0", "--unixsocket", self._socket, "--save", "", "--appendonly", "no", *asked),
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        until = time.monotonic() + READY_WITHIN_S
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RedisFailed(Path(self._folder.name, "output").read_text("utf-8", "replace"))
            time.sleep(POLL_S)

    def kill(self) -> None:
        """It is gone at once, with all that it knew."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It takes connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(READY_WITHIN_S)
                connection.connect(self._socket)
                connection.sendall(b"PING\r\n")
                return connection.recv(7) in (b"+PONG\r\n", b"-NOAUTH")
        except OSError:
            return False


def _command() -> str:
    found = next((path for name in COMMANDS if (path := shutil.which(name))), None)
    if found is None:
        raise RedisFailed(
            f"Tests of shared limits need {' or '.join(COMMANDS)} on PATH, version 7 or newer: "
            "`apt-get install redis-server` on Debian, `brew install redis` on a Mac."
        )
    return found
