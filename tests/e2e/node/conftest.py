"""The vendors' Node SDKs, as the matrix of clients installs them, with our programs beside them."""

import shutil
from pathlib import Path

import pytest_asyncio

from tests.e2e.matrix.environments import NODE_SDK
from tests.e2e.matrix.install import NODE_ENVIRONMENT, install

HERE = Path(__file__).parent
INSTALL_WITHIN_S = 300


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def programs() -> Path:
    """The folder of the installed SDKs: modules are looked for from where a program lies."""
    await install(NODE_ENVIRONMENT)
    await install(NODE_SDK)
    for file in HERE.glob("*.mjs"):
        shutil.copy(file, NODE_SDK.folder)
    return NODE_SDK.folder
