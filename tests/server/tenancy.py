"""Tenants of tests, and a proxy that has them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pydantic import SecretBytes

from proxy.settings import ProtocolName
from proxy.settings.tenants import Tenant, TenantKey
from proxy.tenancy.keys import digest, new_key, parse
from tests.server.serving import Proxy, serving, upstream
from tests.upstream.scripted import Scripted, Step

PEPPER = b"a pepper of the tests"


def a_key(pepper: bytes = PEPPER, **dates: float | None) -> tuple[str, TenantKey]:
    """A new key, as its owner has it and as the configuration does."""
    made = new_key(pepper)
    parsed = parse(made.text)
    assert parsed is not None
    return made.text, TenantKey(made.kid, "hmac-sha256", digest("hmac-sha256", parsed.secret, pepper), **dates)


KEY, ENTRY = a_key()
OTHER_KEY, OTHER_ENTRY = a_key()


def bearer(key: str = KEY) -> dict[str, str]:
    """The header that brings a key."""
    return {"authorization": f"Bearer {key}"}


def tenant(name: str = "team-a", **fields: object) -> Tenant:
    """A tenant with the key `KEY`, and what else is said."""
    return Tenant(name, **{"keys": (ENTRY,), **fields})  # type: ignore[arg-type]


@asynccontextmanager
async def let_in(
    protocol: ProtocolName, *scripts: Sequence[Step] | bytes, tenants: Sequence[Tenant] = (), **more: object
) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """A proxy with tenants before one backend that says this."""
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url)
        async with serving(to, tenants=tenants, key_pepper=SecretBytes(PEPPER), **more) as proxy:  # type: ignore[arg-type]
            yield proxy, backend
