"""Pods of the chart's gateway, each at a loopback address of its own, and the Service in front of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.helm.chart import Manifest, configuration, pods
from tests.image.podman import Container, container

_PROBED_EVERY = 0.05  # seconds; a kubelet's 5 s, in less time
_READY_WITHIN = 15.0


async def ready(address: str) -> None:
    """Until its probe says so."""
    deadline = time.monotonic() + _READY_WITHIN
    while not await is_ready(address):
        assert time.monotonic() < deadline, f"{address} is not ready"
        await asyncio.sleep(_PROBED_EVERY)


async def is_ready(address: str) -> bool:
    """What the readiness probe finds."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}:9090/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


@asynccontextmanager
async def pod(manifests: Sequence[Manifest], name: str, folder: Path) -> AsyncIterator[Container]:
    """One of the Deployment, or the sidecar of the Job, as its template says, at the address `name`; ready."""
    one, options = _as_podman_takes_it(list(manifests), name, folder)
    with container(f"pod-{name}", *one["args"], options=options) as started:
        await ready(name)
        yield started


def _as_podman_takes_it(manifests: list[Manifest], name: str, folder: Path) -> tuple[Manifest, list[str]]:
    """The container and what of it are options of podman. ConfigMap and Secret become folders in `folder`."""
    (spec,) = [spec for spec in pods(manifests) if spec.get("volumes")]
    (one,) = spec.get("initContainers") or spec["containers"]
    user = spec["securityContext"]
    options = [f"--user={user['runAsUser']}:{user['runAsGroup']}"]
    options.append(f"--memory={one['resources']['limits']['memory'].removesuffix('i').lower()}")
    mounts = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
    files = {"dragoman": {"dragoman.yaml": configuration(manifests)}}
    for secret in [manifest for manifest in manifests if manifest["kind"] == "Secret"]:
        files["dragoman-secrets"] = secret["stringData"]
    assert mounts.keys() == files.keys()
    for volume, texts in files.items():
        folder.joinpath(volume).mkdir(parents=True)
        for file, text in texts.items():
            folder.joinpath(volume, file).write_text(text, "utf-8")
        options.append(f"--volume={folder / volume}:{mounts[volume]}:ro")
    # In place of addresses of their own, which pods would have.
    environ = {"DRAGOMAN_LISTEN": f"{name}:8080", "DRAGOMAN_ADMIN_LISTEN": f"{name}:9090", "REPLICA": name}
    return one, [*options, *(f"--env={key}={value}" for key, value in environ.items())]


class Service:
    """Sends each new connection to the next pod whose probe succeeds, and knows of pods by their probes only.

    `sent`: where connections went, in order.
    """

    def __init__(self, pods: Sequence[str]) -> None:
        self.pods = list(pods)
        self.ready: set[str] = set()
        self.sent: list[str] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Service":
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        for name in self.pods:
            await ready(name)
            self._start(self._probe(name))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, name: str) -> None:
        while True:
            (self.ready.add if await is_ready(name) else self.ready.discard)(name)
            await asyncio.sleep(_PROBED_EVERY)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._start(self._forward(reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = [name for name in self.pods if name in self.ready][len(self.sent) % len(self.ready)]
        self.sent.append(name)
        try:
            to_reader, to_writer = await asyncio.open_connection(name, 8080)
        except ConnectionError:  # which the client sees
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer), return_exceptions=True)
        to_writer.close()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
