"""Each store that there is, empty: two of them on real servers, one of each for the tests of a process."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from proxy.state import Store, open_store
from tests.harness.postgres_server import PostgresServer
from tests.harness.redis_server import RedisServer

STORES = ("memory", "sqlite", "redis", "postgresql", "sealed")
KEYS = (b"k" * 32,)
_numbers = itertools.count()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with PostgresServer() as server:
        yield server.url


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is."""
    match request.param:
        case "memory":
            return "memory:"
        case "redis":
            return str(request.getfixturevalue("redis_url"))
        case "postgresql":
            return str(request.getfixturevalue("postgres_url"))
        case _:
            return f"sqlite://{tmp_path}/state.db"


@pytest.fixture
async def store(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Store]:
    sealed = request.node.callspec.params["url"] == "sealed"
    opened = open_store(url, KEYS if sealed else ())
    assert opened is not None
    yield opened
    await opened.close()


@pytest.fixture
def tenant() -> str:
    """One that no other test has: servers are shared."""
    return f"tenant-{next(_numbers)}"
