"""The product as a process of its own, in front of one backend."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from tests.harness.client import get_status
from tests.harness.wire import Json, Protocol

SERVE = (sys.executable, "-m", "proxy", "serve", "--config")
READY_WITHIN_S = 40.0  # of a machine that is busy with other tests
ENDED_WITHIN_S = 10.0
POLL_S = 0.02
PORTS = (10_240, 32_000)  # systems give connections higher ones


class ProxyFailed(Exception):
    """The process ended, or did not get ready in time; the message has its output."""


class ProxyProcess:
    """key: the proxy's own for the backend; with None it passes on the client's. more: of the configuration, in place
    of what would be there otherwise."""

    def __init__(
        self,
        protocol: Protocol,
        backend_url: str,
        *,
        key: str | None = "upstream-key",
        command: tuple[str, ...] = SERVE,
        more: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        upstream = {"name": "backend", "protocol": protocol, "base_url": backend_url}
        self.port, self.admin_port = _free_ports(2)
        self.config: dict[str, Json] = {
            "listen": f"127.0.0.1:{self.port}",
            "admin_listen": f"127.0.0.1:{self.admin_port}",
            "upstreams": [upstream if key is None else {**upstream, "api_key": key}],
            "models": [{"match": "*", "upstream": "backend"}],
            **more,
        }
        self._command = command
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-test-")
        self._config_file = Path(self._folder.name, "dragoman.yaml")
        self._config_file.write_text(yaml.safe_dump(self.config), "utf-8")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """What the process has written so far, both streams."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    @property
    def _log(self) -> Path:
        return Path(self._folder.name, "output")

    async def start(self) -> None:
        """Returns once the proxy is ready. Raises ProxyFailed if it does not get so."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                str(self._config_file),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_without_proxies_of_the_machine(),
            )
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                while await get_status(self.port, "/readyz") != 200:
                    self.check_alive()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ProxyFailed(f"not ready after {READY_WITHIN_S} s:\n{self.output}") from None

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        self.check_alive()
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def check_alive(self) -> None:
        if not self.alive:
            raise ProxyFailed(f"the process is not running:\n{self.output}")

    async def end(self, by: signal.Signals) -> int:
        """Send the signal; the exit code, once the process has ended. It can be started again."""
        self.check_alive()
        assert self._process is not None
        self._process.send_signal(by)
        try:
            return await asyncio.wait_for(self._process.wait(), ENDED_WITHIN_S)
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    async def stop(self) -> None:
        if self.alive:
            await self.end(signal.SIGINT)  # as from a terminal: no load balancer needs time
        self._folder.cleanup()


def _free_ports(count: int) -> list[int]:
    """Of those that no connection gets by chance, so that a process can be started again at the same ones."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] * (port not in found)
    return found


def _without_proxies_of_the_machine() -> dict[str, str]:
    """The backend is on loopback, whatever the machine says about the way out."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
