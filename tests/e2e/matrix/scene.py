"""A strict backend of each protocol and a proxy before each, with a tenant that has a good key and an expired one."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from proxy.tenancy.keys import new_key
from tests.harness.model_backend import ModelBackend
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Json, Protocol

UPSTREAM_KEY = "the-key-of-the-backend"
PEPPER = b"a pepper of the matrix"
# The backend's model for names that are at home elsewhere. A server of Chat is not one of OpenAI's here, whose models
# take no tools while they reason.
FOREIGN: dict[Protocol, str] = {"chat": "local-model", "responses": "gpt-5.5", "messages": "claude-sonnet-4-6"}
AT_HOME: dict[Protocol, str] = {"chat": "local-*", "responses": "gpt-*", "messages": "claude-*"}


@dataclass(frozen=True)
class Stage:
    """One pair of proxy and backend."""

    backend: ModelBackend
    proxy: ProxyProcess
    keys: dict[str, str]

    def records(self, since: int) -> list[Json]:
        """What the proxy's access log tells, from this place of its output."""
        lines = [line for line in self.proxy.output[since:].splitlines() if line.startswith("{")]
        records = [json.loads(line) for line in lines]
        return [record for record in records if record.get("log") == "access"]


@asynccontextmanager
async def stages() -> AsyncIterator[dict[Protocol, Stage]]:
    """By the protocol of their backend."""
    keys, entries = _keys()
    async with AsyncExitStack() as stack:
        made: dict[Protocol, Stage] = {}
        for protocol in PROTOCOLS:
            backend = ModelBackend(protocol, UPSTREAM_KEY)
            await backend.start()
            stack.push_async_callback(backend.stop)
            proxy = ProxyProcess(protocol, backend.url, key=UPSTREAM_KEY, more=_configuration(protocol, entries))
            stack.push_async_callback(proxy.stop)
            await proxy.start()
            made[protocol] = Stage(backend, proxy, keys)
        yield made


def _keys() -> tuple[dict[str, str], list[Json]]:
    """Two keys as their owner has them, and as the configuration does."""
    keys: dict[str, str] = {}
    entries: list[Json] = []
    for name, dates in (("good", {}), ("expired", {"expires_at": "2020-01-01T00:00:00Z"})):
        made = new_key(PEPPER)
        keys[name] = made.text
        entries.append({"kid": made.kid, "hash": made.hash, **dates})
    return keys, entries


def _configuration(protocol: Protocol, entries: list[Json]) -> dict[str, Json]:
    others = [pattern for home, pattern in AT_HOME.items() if home != protocol]
    return {
        "models": [
            {"match": AT_HOME[protocol], "upstream": "backend"},
            *({"match": pattern, "upstream": "backend", "model": FOREIGN[protocol]} for pattern in others),
        ],
        "key_pepper": PEPPER.decode(),
        "tenants": [
            {"name": "e2e", "keys": entries, "endpoints": ["generate", "count_tokens", "models", "stored", "other"]}
        ],
        "state": {"carrier_keys": ["0f" * 32]},
    }
