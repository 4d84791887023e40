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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
    """A process that is measured. `backend` is the protocol it was told to speak to its upstream, for a floor None.

    `slowness`: of so many requests it gets one, so that its rows take about as long as others'.
    """

    name: str
    port: int
    pid: int
    backend: str | None = None
    slowness: int = 1
    is_peer: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def uses_uvloop(self) -> bool:
        return "uvloop" in Path(f"/proc/{self.pid}/maps").read_text()


# Starts a peer before a backend: its protocol, its address, and where to put files.
Peers = Callable[[str, str, Path], AbstractContextManager[Target]]

FLOORS = {"plain": "plain", "bodies": "floor", "events": "events-floor"}  # what is loaded and dumped -> the row's name


@dataclass(frozen=True, slots=True)
class Targets:
    """`floors` by their depth, the others by the protocol of the backend; `backends` are for who asks them directly."""

    floors: dict[str, Target]
    backends: dict[str, Target]
    proxies: dict[str, Target]
    peers: dict[str, Target]
    scratch: Path

    @contextmanager
    def another_proxy(self, protocol: str) -> Iterator[Target]:
        """A fresh one before the same backend."""
        with proxy(f"fresh-{protocol}", protocol, self.backends[protocol].url, self.scratch) as target:
            yield target


@contextmanager
def started(proxied: list[str], peers: Peers | None = None, under: Sequence[str] = ()) -> Iterator[Targets]:
    """The backends, the floors and, for each protocol of `proxied`, the proxy before the backend that speaks it.

    `under`: the command, such as an instrument, that floors and proxies are run by.
    """
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))

        def backend(protocol: str) -> Target:
            port = free_port()
            command = ["tests.bench.backend", "--protocol", protocol, "--port", str(port)]
            name = f"backend-{protocol}"
            return Target(name, port, running.enter_context(process(name, command, port, scratch)))

        backends = {protocol: backend(protocol) for protocol in WIRES}

        def floor(depth: str) -> Target:
            port, name = free_port(), FLOORS[depth]
            urls = [each.url for each in backends.values()]
            command = ["tests.bench.floor", "--port", str(port), "--backends", *urls, "--depth", depth]
            return Target(name, port, running.enter_context(process(name, command, port, scratch, under)))

        yield Targets(
            floors={FLOORS[depth]: floor(depth) for depth in FLOORS},
            backends=backends,
            proxies={
                protocol: running.enter_context(
                    proxy(f"proxy-{protocol}", protocol, backends[protocol].url, scratch, under)
                )
                for protocol in proxied
            },
            peers={
                protocol: running.enter_context(peers(protocol, backends[protocol].url, scratch))
                for protocol in proxied
            }
            if peers
            else {},
            scratch=scratch,
        )


@contextmanager
def proxy(name: str, protocol: str, upstream: str, scratch: Path, under: Sequence[str] = ()) -> Iterator[Target]:
    port = free_port()
    config = scratch / f"{name}.yaml"
    config.write_bytes(proxy_config(port, protocol, upstream))
    with process(name, ["proxy", "serve", "--config", str(config)], port, scratch, under) as pid:
        yield Target(name, port, pid, protocol)


def proxy_config(port: int, protocol: str, upstream: str) -> bytes:
    """Defaults everywhere, so that what a user gets is what is measured. JSON is YAML.

    Carriers are sealed, which costs more than the default; and no load balancer has to turn away at the end.
    """
    return orjson.dumps(
        {
            "listen": f"127.0.0.1:{port}",
            "admin_listen": f"127.0.0.1:{free_port()}",
            "upstreams": [{"name": "bench", "protocol": protocol, "base_url": upstream, "api_key": "bench"}],
            "models": [{"match": "*", "upstream": "bench"}],
            "state": {"carrier_keys": ["00" * 32]},
            "drain": {"lame_duck": "0s"},
        }
    )


@contextmanager
def process(name: str, module: list[str], port: int, scratch: Path, under: Sequence[str] = ()) -> Iterator[int]:
    """Run a module, yield its process id once GET /readyz on `port` answers 200, and end it whatever happens."""
    ready = f"http://127.0.0.1:{port}/readyz"
    with command(name, [*under, sys.executable, "-m", *module], os.environ | MALLOC, ready, scratch) as pid:
        yield pid


@contextmanager
def command(name: str, arguments: list[str], env: dict[str, str], ready: str, scratch: Path) -> Iterator[int]:
    """The same for any program; `ready`: the address that answers 200 when it is."""
    log = scratch / f"{name}.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            arguments,
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await_ready(name, running, ready, log)
        yield running.pid
    finally:
        end(running)


def await_ready(name: str, running: subprocess.Popen[bytes], ready: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers(ready):
        if running.poll() is not None or time.monotonic() > deadline:
            ended = "is not ready" if running.returncode is None else f"ended with status {running.returncode}"
            raise StartError(f"{name} {ended}:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.005)


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
