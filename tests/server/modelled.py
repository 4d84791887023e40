"""A proxy that keeps state before a backend that plays a model, as strict as the vendor's own API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from proxy.settings.snapshot import StateSettings
from tests.harness.model_backend import ModelBackend
from tests.harness.wire import Protocol
from tests.server.serving import Proxy, serving, upstream

KEY = "proxy-key-1"


@asynccontextmanager
async def modelled(
    protocol: Protocol, url: str = "memory:", *, state: str = "proxy", **more: object
) -> AsyncIterator[tuple[Proxy, ModelBackend]]:
    """`url`: of the store, or `none:`; `state`: of the upstream. `more`: of the settings."""
    backend = ModelBackend(protocol, KEY)
    await backend.start()
    try:
        keeps = None if url == "none:" else StateSettings(SecretStr(url), 3600.0)
        to = upstream(protocol, backend.url + "/v1", key=KEY, state=state)
        async with serving(to, state=keeps, **more) as proxy:  # type: ignore[arg-type]
            yield proxy, backend
    finally:
        await backend.stop()
