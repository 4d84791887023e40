"""The admin listener: probes and metrics for anyone, and under `/admin/` what only the operator may see and do.

With `admin_token` it asks for that; without, it answers only what is on this machine, and no browser.
"""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address

import orjson
from aiohttp.web import BaseRequest, Response, StreamResponse

from proxy import __version__
from proxy.server.exchange import JSON, SERVER, Exchange
from proxy.server.probes import PROBES, answer
from proxy.server.reloading import Reloading
from proxy.server.runtime import Runtime
from proxy.settings.tenants import Tenant
from proxy.tenancy.keys import Found, state_of

_READS = frozenset({"GET", "HEAD"})


def is_local(remote: str | None) -> bool:
    """Whether a peer is on this machine; `admin_listen` may be reached by others, to be probed."""
    try:
        address = ip_address(remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


class Admin:
    """The handler. `drain` starts the end of the process."""

    def __init__(self, runtime: Runtime, reloading: Reloading, drain: Callable[[], None]) -> None:
        self._runtime = runtime
        self._reloading = reloading
        self._drain = drain
        self._endpoints: Mapping[tuple[str, str], Callable[[BaseRequest], Awaitable[StreamResponse]]] = {
            ("GET", "/admin/version"): self._version,
            ("GET", "/admin/config"): self._config,
            ("GET", "/admin/tenants"): self._tenants,
            ("POST", "/admin/reload"): self._reload,
            ("POST", "/admin/drain"): self._begin_drain,
        }

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one request."""
        path, method = request.path, "GET" if request.method in _READS else request.method
        if path in ("/healthz", "/readyz", "/metrics"):
            if method != "GET":
                return _refuse(405, f"{request.method} is not allowed here.")
            return self._metrics(request) if path == "/metrics" else PROBES[path](self._runtime, request)
        handle = self._endpoints.get((method, path))
        if handle is None and method == "GET" and path.startswith("/admin/tenants/"):
            handle = self._tenant
        if handle is None:
            if any(known == path for _, known in self._endpoints):
                return _refuse(405, f"{request.method} is not allowed here.")
            return _refuse(404, f"There is no {path[:200]} here.")
        if not self._may(request):
            self._runtime.audit.note("admin.denied", actor=str(request.remote), target=path[:200], result="denied")
            return _refuse(*self._why_not())
        return await handle(request)

    def _may(self, request: BaseRequest) -> bool:
        token = self._runtime.gateway.settings.admin_token
        local = is_local(request.remote) and "Origin" not in request.headers
        if token is None or (local and request.path == "/admin/drain"):
            return local
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        expected = token.get_secret_value().encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), expected)

    def _why_not(self) -> tuple[int, str]:
        if self._runtime.gateway.settings.admin_token is not None:
            return 401, "The admin token is needed, as a bearer token in Authorization."
        return 403, "Without an admin_token, only this machine is answered here, and no browser."

    def _metrics(self, request: BaseRequest) -> StreamResponse:
        body, content_type = self._runtime.metrics.write(request.headers.get("Accept", ""))
        return Response(body=body, headers={"Content-Type": content_type, "Server": SERVER})

    async def _version(self, _request: BaseRequest) -> StreamResponse:
        return answer(200, {"version": __version__})

    async def _begin_drain(self, request: BaseRequest) -> StreamResponse:
        self._runtime.audit.note("drain.start", actor=f"admin at {request.remote}", target="process", result="ok")
        self._drain()
        return answer(200, {"status": "draining", "in_flight": len(self._runtime.open)})

    async def _config(self, _request: BaseRequest) -> StreamResponse:
        return answer(200, {**self._reloading.status(), "keys": self._keys_used()})

    async def _reload(self, request: BaseRequest) -> StreamResponse:
        taken = await self._reloading.reload(f"admin at {request.remote}")
        return answer(200 if taken else 409, self._reloading.status())

    async def _tenants(self, _request: BaseRequest) -> StreamResponse:
        tenants = self._runtime.gateway.settings.tenants or {}
        return answer(200, {"tenants": [self._summary(tenant) for tenant in tenants.values()]})

    async def _tenant(self, request: BaseRequest) -> StreamResponse:
        name = request.path.removeprefix("/admin/tenants/")
        tenant = (self._runtime.gateway.settings.tenants or {}).get(name)
        if tenant is None:
            return _refuse(404, f"There is no tenant {name[:200]!r}.")
        standings = await self._runtime.limiter.standings(tenant)
        limits = [
            {"dimension": dimension, "limit": limit, "used": used, "reset_seconds": round(reset, 3)}
            for dimension, limit, used, reset in standings
        ]
        return answer(200, {**self._summary(tenant), "limits": limits})

    def _summary(self, tenant: Tenant) -> dict[str, object]:
        """Who the tenant is, and what it has used since the process began."""
        now, uses = time.time(), self._runtime.key_uses
        keys = [
            {
                "kid": key.kid,
                "state": state_of(Found(tenant, key), now),
                "not_before": _moment(key.not_before),
                "expires_at": _moment(key.expires_at),
                "last_used": _moment(uses.get(key.kid)),
            }
            for key in tenant.keys
        ]
        use = self._runtime.metrics.tenants.of(tenant.name)
        return {
            "name": tenant.name,
            "disabled": tenant.disabled,
            "metadata": dict(tenant.metadata),
            "keys": keys,
            "in_flight": sum(_is_of(exchange, tenant) for exchange in self._runtime.open),
            "since_start": use.told(),
        }

    def _keys_used(self) -> dict[str, str | None]:
        tenants = self._runtime.gateway.settings.tenants or {}
        uses = self._runtime.key_uses
        return {key.kid: _moment(uses.get(key.kid)) for tenant in tenants.values() for key in tenant.keys}


def _is_of(exchange: Exchange, tenant: Tenant) -> bool:
    return exchange.caller is not None and exchange.caller.tenant.name == tenant.name


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse(status: int, message: str) -> Response:
    return Response(
        status=status,
        body=orjson.dumps({"error": {"message": message}}),
        headers={"Content-Type": JSON, "Server": SERVER},
    )
