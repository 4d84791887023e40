"""A proxy that keeps state before a backend that plays a model, as strict as the vendor's own API."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from pydantic import SecretBytes, SecretStr

from proxy.settings.snapshot import MAX_STORED, StateSettings
from tests.harness.model_backend import ModelBackend
from tests.harness.wire import Protocol
from tests.server.serving import Proxy, route, serving, upstream

KEY = "proxy-key-1"


@asynccontextmanager
async def modelled(
    protocol: Protocol,
    url: str = "memory:",
    *,
    state: str = "proxy",
    keys: Sequence[bytes] = (),
    most: int = MAX_STORED,
    responses_done: bool = False,
    **more: object,
) -> AsyncIterator[tuple[Proxy, ModelBackend]]:
    """`url`: of the store; `state`: of the upstream; `keys` and `most`: of the store's settings. `more`: of
    the settings."""
    backend = ModelBackend(protocol, KEY)
    await backend.start()
    try:
        keeps = StateSettings(SecretStr(url), 3600.0, tuple(map(SecretBytes, keys)), most)
        to = upstream(protocol, backend.url + "/v1", key=KEY, state=state)
        models = [replace(route("*", to), responses_done=responses_done)]
        async with serving(to, models=models, state=keeps, **more) as proxy:  # type: ignore[arg-type]
            yield proxy, backend
    finally:
        await backend.stop()
