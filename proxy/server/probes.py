"""Whether the process lives and whether it should get requests (operations.md 6.1); and the admin listener.

Readiness says nothing of backends: when a vendor is down, replies that say so are better than no connection.
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address

import orjson
from aiohttp.web import BaseRequest, Response, StreamResponse

from proxy import __version__
from proxy.server.exchange import JSON, SERVER
from proxy.server.gateway import Gateway

Probe = Callable[[Gateway, BaseRequest], StreamResponse]


def _answer(status: int, wire: object) -> Response:
    return Response(status=status, body=orjson.dumps(wire), headers={"Content-Type": JSON, "Server": SERVER})


def _healthz(_gateway: Gateway, _request: BaseRequest) -> StreamResponse:
    return _answer(200, {"status": "ok"})


def _readyz(gateway: Gateway, _request: BaseRequest) -> StreamResponse:
    failed = [*gateway.failed_checks, "draining"] if gateway.draining else gateway.failed_checks
    if failed:
        return _answer(503, {"status": "not ready", "failed": failed})
    return _answer(200, {"status": "ready"})


def _hello(_gateway: Gateway, _request: BaseRequest) -> StreamResponse:
    """Clients ask here whether anybody is at home; Claude Code sends `HEAD /api/hello` before all else."""
    return _answer(200, {"service": "dragoman"})


PROBES: Mapping[str, Probe] = {
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/": _hello,
    "/api/hello": _hello,
}


def _metrics(gateway: Gateway, request: BaseRequest) -> StreamResponse:
    body, content_type = gateway.metrics.write(request.headers.get("Accept", ""))
    return Response(body=body, headers={"Content-Type": content_type, "Server": SERVER})


def is_local(remote: str | None) -> bool:
    """Whether a peer is on this machine; `admin_listen` may be reached by others, to be probed."""
    try:
        address = ip_address(remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


class Admin:
    """The handler of the admin listener. `drain` starts the end of the process."""

    def __init__(self, gateway: Gateway, drain: Callable[[], None]) -> None:
        self._gateway = gateway
        self._drain = drain

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one request."""
        match request.method, request.path:
            case "GET" | "HEAD", "/healthz" | "/readyz":
                return PROBES[request.path](self._gateway, request)
            case "GET" | "HEAD", "/metrics":
                return _metrics(self._gateway, request)
            case "GET" | "HEAD", "/admin/version":
                return _answer(200, {"version": __version__})
            case "POST", "/admin/drain":
                if not is_local(request.remote) or "Origin" in request.headers:
                    return _answer(403, {"error": {"message": "Draining is begun from this machine, by no browser."}})
                self._drain()
                return _answer(200, {"status": "draining", "in_flight": len(self._gateway.open)})
            case _, "/healthz" | "/readyz" | "/metrics" | "/admin/version" | "/admin/drain":
                return _answer(405, {"error": {"message": f"{request.method} is not allowed here."}})
            case _:
                return _answer(404, {"error": {"message": f"There is no {request.path[:200]} here."}})
