"""One Redis for the tests of a process; those that break it start their own."""

from collections.abc import Iterator

import pytest

from tests.harness.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url
