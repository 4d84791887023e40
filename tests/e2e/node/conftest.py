"""The vendors' Node SDKs, installed from npm into the project's cache once."""

import asyncio
import shutil
from pathlib import Path

import pytest_asyncio

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "node-sdks"
INSTALL_WITHIN_S = 300


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def programs() -> Path:
    """The folder with our programs beside the installed SDKs."""
    _copy_into_cache()
    if not (CACHE / "node_modules").exists():
        arguments = ("install", "--no-package-lock", "--no-audit", "--no-fund")
        npm = await asyncio.create_subprocess_exec("npm", *arguments, cwd=CACHE)
        assert await asyncio.wait_for(npm.wait(), INSTALL_WITHIN_S) == 0
    return CACHE


def _copy_into_cache() -> None:
    """Modules are looked for from where the program lies. A changed list of SDKs makes the installed ones stale."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE.parent / ".gitignore").write_text("*\n", "utf-8")
    wanted, installed = HERE / "package.json", CACHE / "package.json"
    if installed.exists() and installed.read_bytes() != wanted.read_bytes():
        shutil.rmtree(CACHE / "node_modules", ignore_errors=True)
    for file in (wanted, *HERE.glob("*.mjs")):
        shutil.copy(file, CACHE)
