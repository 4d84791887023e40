"""The admin listener: probes and metrics for anyone, and under `/admin/` what only the operator may see and do.

With `admin_token` it asks for that; without, it answers only what is on this machine, and no browser.
"""

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

import orjson
from aiohttp.web import BaseRequest, Response, StreamResponse

from proxy import __version__
from proxy.server import ids
from proxy.server.exchange import JSON, SERVER
from proxy.server.probes import PROBES, answer
from proxy.server.reloading import Reloading
from proxy.server.runtime import Runtime
from proxy.settings.tenants import Tenant
from proxy.tenancy.keys import Found, state_of
from proxy.tenancy.limits import Standing
from proxy.tenancy.terms import terms_of

Read = Callable[[BaseRequest], Awaitable[StreamResponse]]
Act = Callable[[BaseRequest, str], Awaitable[StreamResponse]]

_READS = frozenset({"GET", "HEAD"})
_OPEN_TO_ALL = frozenset({"/healthz", "/readyz", "/metrics"})
_PAGE, _MOST = 100, 1000  # tenants in one answer
_UNITS = {"tpm": "tokens", "tpd": "tokens", "budget": "usd"}


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
        self._reads: Mapping[str, Read] = {
            "/admin/version": self._version,
            "/admin/config": self._config,
            "/admin/tenants": self._tenants,
        }
        self._acts: Mapping[str, Act] = {"/admin/reload": self._reload, "/admin/drain": self._begin_drain}

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one request."""
        path, reads = request.path, request.method in _READS
        if path in _OPEN_TO_ALL:
            if not reads:
                return _refuse_method(request, "GET, HEAD")
            return await self._metrics(request) if path == "/metrics" else PROBES[path](self._runtime, request)
        request_id = ids.request_id()
        response = await self._operate(request, path, request_id, reads=reads)
        response.headers["x-request-id"] = request_id
        return response

    async def _operate(self, request: BaseRequest, path: str, request_id: str, *, reads: bool) -> StreamResponse:
        read, act = self._reads.get(path), self._acts.get(path)
        if path.startswith("/admin/tenants/"):
            read = self._tenant
        if read is None and act is None:
            return _refuse(404, f"There is no {_shown(path)} here.")
        if not self._may(request):
            self._runtime.audit.note(
                "admin.denied",
                actor=str(request.remote),
                target=f"{request.method} {_shown(path)}",
                result="denied",
                request_id=request_id,
            )
            return _refuse(*self._why_not())
        if act is not None:
            return await act(request, request_id) if request.method == "POST" else _refuse_method(request, "POST")
        return await read(request) if read is not None and reads else _refuse_method(request, "GET, HEAD")

    def _may(self, request: BaseRequest) -> bool:
        token = self._runtime.gateway.settings.admin_token
        local = is_local(request.remote) and not _from_browser(request)
        if token is None or (local and request.path == "/admin/drain"):
            return local
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        expected = token.get_secret_value().encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), expected)

    def _why_not(self) -> tuple[int, str]:
        if self._runtime.gateway.settings.admin_token is not None:
            return 401, "The admin token is needed, as a bearer token in Authorization."
        return 403, "Without an admin_token, only this machine is answered here, and no browser."

    async def _metrics(self, request: BaseRequest) -> StreamResponse:
        """Written in a thread: those of ten thousand tenants would keep all streams waiting."""
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(self._runtime.metrics.write, accept)
        return Response(body=body, headers={"Content-Type": content_type, "Server": SERVER})

    async def _version(self, _request: BaseRequest) -> StreamResponse:
        return answer(200, {"version": __version__})

    async def _begin_drain(self, request: BaseRequest, request_id: str) -> StreamResponse:
        actor = f"admin at {request.remote}"
        self._runtime.audit.note("drain.start", actor=actor, target="process", result="ok", request_id=request_id)
        self._drain()
        return answer(200, {"status": "draining", "in_flight": len(self._runtime.open)})

    async def _config(self, _request: BaseRequest) -> StreamResponse:
        return answer(200, {**self._reloading.status(), "keys": self._keys_used()})

    async def _reload(self, request: BaseRequest, request_id: str) -> StreamResponse:
        taken = await self._reloading.reload(f"admin at {request.remote}", request_id)
        return answer(200 if taken else 409, self._reloading.status())

    async def _tenants(self, request: BaseRequest) -> StreamResponse:
        """A page of all tenants, in the order of their names."""
        query = request.rel_url.query
        wanted = query.get("limit", str(_PAGE))
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 6 and 1 <= int(wanted) <= _MOST):
            return _refuse(400, f"limit: expected a number from 1 to {_MOST}.")
        tenants = self._runtime.gateway.settings.tenants or {}
        following = sorted(name for name in tenants if name > query.get("after", ""))
        page = following[: int(wanted)]
        in_flight = self._in_flight()
        return answer(
            200,
            {
                "tenants": [await self._told(tenants[name], in_flight[name]) for name in page],
                "total": len(tenants),
                "next": page[-1] if len(following) > len(page) else None,
            },
        )

    async def _tenant(self, request: BaseRequest) -> StreamResponse:
        name = request.path.removeprefix("/admin/tenants/")
        tenant = (self._runtime.gateway.settings.tenants or {}).get(name)
        if tenant is None:
            return _refuse(404, f"There is no tenant {_shown(name)!r}.")
        return answer(200, await self._told(tenant, self._in_flight()[name]))

    def _in_flight(self) -> Counter[str]:
        """Requests that are open, by tenant."""
        callers = (exchange.caller for exchange in self._runtime.open)
        return Counter(caller.tenant.name for caller in callers if caller is not None)

    async def _told(self, tenant: Tenant, in_flight: int) -> dict[str, object]:
        """Who the tenant is, how its keys and limits stand, and what it has used since the process began. `limits` is
        null while the shared store does not say."""
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
        standings, counted = await self._runtime.limiter.standings(tenant), terms_of(tenant.limits).counted
        return {
            "name": tenant.name,
            "disabled": tenant.disabled,
            "not_before": _moment(tenant.not_before),
            "expires_at": _moment(tenant.expires_at),
            "metadata": dict(tenant.metadata),
            "keys": keys,
            "in_flight": in_flight,
            "limits": [_standing(standing) for standing in standings] if standings or not counted else None,
            "since_start": self._runtime.metrics.tenants.told(tenant.name),
        }

    def _keys_used(self) -> dict[str, str | None]:
        tenants = self._runtime.gateway.settings.tenants or {}
        uses = self._runtime.key_uses
        return {key.kid: _moment(uses.get(key.kid)) for tenant in tenants.values() for key in tenant.keys}


def _from_browser(request: BaseRequest) -> bool:
    """A page may let its own name point at this machine, and then asks like any program, but by that name."""
    host = request.headers.get("Host", "")
    try:
        if (name := urlsplit(f"//{host}").hostname or "localhost") != "localhost":
            ip_address(name)
    except ValueError:
        return True
    return "Origin" in request.headers


def _standing(standing: Standing) -> dict[str, object]:
    unit = _UNITS.get(standing.dimension, "requests")
    limit, used = (standing.limit, standing.used) if unit != "usd" else (standing.limit / 1e6, standing.used / 1e6)
    return {
        "dimension": standing.dimension,
        "unit": unit,
        "limit": limit,
        "used": used,
        "reset_seconds": round(standing.reset, 3),
    }


def _shown(text: str) -> str:
    """Of what a client wrote: bounded, and without half surrogates, which JSON can't hold."""
    return text[:200].encode(errors="replace").decode()


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse_method(request: BaseRequest, allowed: str) -> Response:
    response = _refuse(405, f"{_shown(request.method)} is not allowed here.")
    response.headers["Allow"] = allowed
    return response


def _refuse(status: int, message: str) -> Response:
    return Response(
        status=status,
        body=orjson.dumps({"error": {"message": message}}),
        headers={"Content-Type": JSON, "Server": SERVER},
    )
