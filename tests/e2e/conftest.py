"""Three strict backends, and a proxy in front of each, for all tests with real clients."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest_asyncio

from tests.harness.model_backend import ModelBackend
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol

KEY = "the-right-key"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def proxies() -> AsyncIterator[dict[Protocol, ProxyProcess]]:
    """By the protocol of their backend. They hold no key, so that the backend judges the client's own."""
    async with AsyncExitStack() as stack:
        running: dict[Protocol, ProxyProcess] = {}
        for protocol in PROTOCOLS:
            backend = ModelBackend(protocol, KEY)
            await backend.start()
            stack.push_async_callback(backend.stop)
            proxy = ProxyProcess(protocol, backend.url, key=None)
            stack.push_async_callback(proxy.stop)
            await proxy.start()
            running[protocol] = proxy
        yield running
