"""What the chart makes runs: its own test, and the example of a sidecar."""

import asyncio
import time
from pathlib import Path

from tests.helm.chart import Manifest, only, render
from tests.image.backend import HeldBackend
from tests.image.podman import run_once
from tests.image.pods import pod

ADDRESS = "127.0.0.5"


def run_command(container: Manifest, here: str) -> tuple[int, str]:
    """The exit code of a container that ends by itself, and what it said. `here`: where it thinks the proxy is."""
    program, *arguments = [part.replace(here, f"{ADDRESS}:8080") for part in container["command"]]
    done = run_once(*arguments, options=["--entrypoint", program])
    return done.returncode, done.stdout + done.stderr


async def test_the_charts_own_test_passes_while_it_serves(tmp_path: Path) -> None:
    manifests = render({})
    (test,) = only(manifests, "Pod")["spec"]["containers"]
    async with pod(manifests, ADDRESS, tmp_path):
        assert await asyncio.to_thread(run_command, test, "dragoman:8080") == (0, "")
    code, said = await asyncio.to_thread(run_command, test, "dragoman:8080")
    assert code == 1
    assert "Connection refused" in said


async def test_the_example_of_a_sidecar_completes(tmp_path: Path) -> None:
    """The application is done, then the sidecar gets SIGTERM: nobody is left to wait for."""
    async with HeldBackend() as backend:
        upstream = {"name": "held", "protocol": "chat", "base_url": backend.url}
        manifests = render({"mode": "sidecar-example", "config": {"upstreams": [upstream]}})
        (application,) = only(manifests, "Job")["spec"]["template"]["spec"]["containers"]
        async with pod(manifests, ADDRESS, tmp_path) as sidecar:
            code, said = await asyncio.to_thread(run_command, application, "127.0.0.1:8080")
            began = time.monotonic()
            sidecar.terminate()
            assert sidecar.wait() == 0
            took = time.monotonic() - began
    assert (code, "held-1" in said) == (0, True), said
    assert took < 3
