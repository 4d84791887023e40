"""A receiver of spans, as a collector would be one."""

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


class Span(NamedTuple):
    """One span as it came. Ids are hexadecimal; `parent` is empty for none."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, object]
    events: list[tuple[str, dict[str, object]]]
    failed: bool
    lasted: float
    state: str


class Receiver:
    """`spans` are those that came so far, `raw` their bytes, `headers` those of the last request. With `hangs` nobody
    is answered; `status` is the answer."""

    def __init__(self, *, hangs: bool = False, status: int = 200) -> None:
        self._status = status
        self.spans: list[Span] = []
        self.raw = b""
        self.headers: dict[str, str] = {}
        self.url = ""
        self._hangs = hangs
        self._came = asyncio.Condition()
        self._ending = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._take), shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        await self._runner.cleanup()

    async def wait_for(self, count: int) -> list[Span]:
        """So many spans, by the time they began; fails if they do not come."""
        async with asyncio.timeout(15), self._came:
            await self._came.wait_for(lambda: len(self.spans) >= count)
        return self.spans

    async def _take(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if self._hangs:
            await self._ending.wait()
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        assert (request.path, request.content_type) == ("/v1/traces", "application/x-protobuf")
        self.raw += body
        read = [
            _span(span)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        async with self._came:
            self.spans += read
            self._came.notify_all()
        return web.Response(status=self._status, content_type="application/x-protobuf")


def _span(wire) -> Span:  # type: ignore[no-untyped-def]
    return Span(
        wire.name,
        wire.kind,
        wire.trace_id.hex(),
        wire.span_id.hex(),
        wire.parent_span_id.hex(),
        _values(wire.attributes),
        [(event.name, _values(event.attributes)) for event in wire.events],
        wire.status.code == 2,
        (wire.end_time_unix_nano - wire.start_time_unix_nano) / 1e9,
        wire.trace_state,
    )


def _values(wire) -> dict[str, object]:  # type: ignore[no-untyped-def]
    return {pair.key: _value(pair.value) for pair in wire}


def _value(wire: AnyValue) -> object:
    kind = wire.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in wire.array_value.values]
    return getattr(wire, kind or "string_value")
