"""Build and run images without a daemon, by podman with a store of its own.

Containers run in the network of the machine, on loopback addresses that tests choose, since nothing here may depend on
bridges and firewalls.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/dragoman:tested"
_STORE = ROOT / "build" / "image"
# As strict as operations.md 7 wants a pod to be. podman's own default limits may be above what this machine allows.
RESTRICTED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--ulimit=nofile=4096:4096",
    "--ulimit=nproc=4096:4096",
    "--network=host",
)


def command(*arguments: str) -> list[str]:
    """podman, with `arguments`."""
    store = ["--root", str(_STORE / "store"), "--runroot", str(_STORE / "run"), "--cgroup-manager=cgroupfs"]
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    return ["podman", *store, *runtime, *arguments]


def podman(*arguments: str) -> str:
    """Its output. Raises CalledProcessError."""
    return subprocess.run(command(*arguments), check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def run_once(*arguments: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A container that ends by itself, and what it said."""
    line = command("run", "--rm", *RESTRICTED, *options, IMAGE, *arguments)
    return subprocess.run(line, check=False, text=True, capture_output=True)


class Container:
    """One that serves, until it is stopped."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(podman("inspect", self.name, "--format", "{{json .State}}"))
        return state

    @property
    def said(self) -> str:
        return subprocess.run(
            command("logs", self.name), check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ).stdout

    def terminate(self) -> None:
        podman("kill", "--signal", "TERM", self.name)

    def wait(self) -> int:
        """The exit code."""
        return int(podman("wait", self.name))


@contextmanager
def container(name: str, *arguments: str, options: Sequence[str] = ()) -> Iterator[Container]:
    """One in the background, gone at the end whatever happened."""
    podman("run", "--detach", "--replace", "--name", name, *RESTRICTED, *options, IMAGE, *arguments)
    try:
        yield Container(name)
    finally:
        podman("rm", "--force", "--time", "0", name)
