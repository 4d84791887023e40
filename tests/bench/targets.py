"""The processes of a run: the backends, the floors and the proxy, started alike and ended by their id."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.bench.wires import WIRES

REPOSITORY = Path(__file__).parents[2]
START_TIMEOUT_S = 60  # under an instrument everything takes its time
STOP_TIMEOUT_S = 5

# Left alone, glibc gives memory back after each stream and faults it in again: 2 µs an event, by chance.
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}


class StartError(Exception):
    """A process ended or stayed silent before it was ready; the message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process that is measured. `backend` is the protocol it was told to speak to its upstream, for a floor None."""

    name: str
    port: int
    pid: int
    backend: str | None = None

    @property
    def uses_uvloop(self) -> bool:
        return "uvloop" in Path(f"/proc/{self.pid}/maps").read_text()


@dataclass(frozen=True, slots=True)
class Targets:
    floor: Target
    events_floor: Target
    proxies: dict[str, Target]


@contextmanager
def started(proxied: list[str], under: Sequence[str] = ()) -> Iterator[Targets]:
    """The backends, both floors and, for each protocol of `proxied`, the proxy before the backend that speaks it.

    `under`: the command, such as an instrument, that floors and proxies are run by.
    """
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))

        def backend(protocol: str) -> str:
            port = free_port()
            command = ["tests.bench.backend", "--protocol", protocol, "--port", str(port)]
            running.enter_context(process(f"backend-{protocol}", command, port, scratch))
            return f"http://127.0.0.1:{port}"

        upstreams = {protocol: backend(protocol) for protocol in WIRES}

        def floor(name: str, *options: str) -> Target:
            port = free_port()
            command = ["tests.bench.floor", "--port", str(port), "--backends", *upstreams.values(), *options]
            return Target(name, port, running.enter_context(process(name, command, port, scratch, under)))

        def proxy(protocol: str) -> Target:
            name, port = f"proxy-{protocol}", free_port()
            config = scratch / f"{name}.yaml"
            config.write_bytes(proxy_config(port, protocol, upstreams[protocol]))
            command = ["proxy", "serve", "--config", str(config)]
            return Target(name, port, running.enter_context(process(name, command, port, scratch, under)), protocol)

        yield Targets(
            floor=floor("floor"),
            events_floor=floor("events-floor", "--events"),
            proxies={protocol: proxy(protocol) for protocol in proxied},
        )


def proxy_config(port: int, protocol: str, upstream: str) -> bytes:
    """Defaults everywhere, so that what a user gets is what is measured. JSON is YAML."""
    return orjson.dumps(
        {
            "listen": f"127.0.0.1:{port}",
            "admin_listen": f"127.0.0.1:{free_port()}",
            "upstreams": [{"name": "bench", "protocol": protocol, "base_url": upstream, "api_key": "bench"}],
            "models": [{"match": "*", "upstream": "bench"}],
        }
    )


@contextmanager
def process(name: str, module: list[str], port: int, scratch: Path, under: Sequence[str] = ()) -> Iterator[int]:
    """Run a module, yield its process id once GET /readyz on `port` answers 200, and end it whatever happens."""
    log = scratch / f"{name}.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [*under, sys.executable, "-m", *module],
            cwd=REPOSITORY,
            env=os.environ | MALLOC,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await_ready(name, running, port, log)
        yield running.pid
    finally:
        end(running)


def await_ready(name: str, running: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers(f"http://127.0.0.1:{port}/readyz"):
        if running.poll() is not None or time.monotonic() > deadline:
            ended = "is not ready" if running.returncode is None else f"ended with status {running.returncode}"
            raise StartError(f"{name} {ended}:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.02)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def end(running: subprocess.Popen[bytes]) -> None:
    """The process was started as the leader of its own group, so its workers end with it."""
    running.terminate()
    try:
        running.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    try:
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
