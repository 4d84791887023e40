"""Whether the process lives and whether it should get requests (operations.md 6.1).

Readiness says nothing of backends: when a vendor is down, replies that say so are better than no connection.
"""

from collections.abc import Callable, Mapping

import orjson
from aiohttp.web import BaseRequest, Response, StreamResponse

from proxy.server.exchange import JSON, SERVER
from proxy.server.runtime import Runtime

Probe = Callable[[Runtime, BaseRequest], StreamResponse]


def answer(status: int, wire: object) -> Response:
    """JSON, as our own endpoints answer."""
    return Response(status=status, body=orjson.dumps(wire), headers={"Content-Type": JSON, "Server": SERVER})


def _healthz(_runtime: Runtime, _request: BaseRequest) -> StreamResponse:
    return answer(200, {"status": "ok"})


def _readyz(runtime: Runtime, _request: BaseRequest) -> StreamResponse:
    if failed := runtime.failed():
        return answer(503, {"status": "not ready", "failed": failed})
    return answer(200, {"status": "ready"})


def _hello(_runtime: Runtime, _request: BaseRequest) -> StreamResponse:
    """Clients ask here whether anybody is at home; Claude Code sends `HEAD /api/hello` before all else."""
    return answer(200, {"service": "dragoman"})


PROBES: Mapping[str, Probe] = {
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/": _hello,
    "/api/hello": _hello,
}
