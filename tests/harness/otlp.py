"""A receiver of spans, and of events that come as logs, as a collector would be one."""

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
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


class Event(NamedTuple):
    """One event as it came. `span` is that which it belongs to."""

    name: str
    trace: str
    span: str
    attributes: dict[str, object]


class Receiver:
    """`spans` and `events` are those that came so far, `raw` their bytes, `headers` those of the last request. With
    `hangs` nobody is answered; `status` is the answer."""

    def __init__(self, *, hangs: bool = False, status: int = 200) -> None:
        self._status = status
        self.spans: list[Span] = []
        self.events: list[Event] = []
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

    async def trace(self, trace: str) -> list[Span]:
        """The spans of one trace, once there are any."""
        async with asyncio.timeout(15), self._came:
            await self._came.wait_for(lambda: any(span.trace == trace for span in self.spans))
        return [span for span in self.spans if span.trace == trace]

    async def wait_for_events(self, count: int) -> list[Event]:
        """So many events; fails if they do not come."""
        async with asyncio.timeout(15), self._came:
            await self._came.wait_for(lambda: len(self.events) >= count)
        return self.events

    async def _take(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if self._hangs:
            await self._ending.wait()
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        assert request.content_type == "application/x-protobuf"
        self.raw += body
        async with self._came:
            if request.path == "/v1/traces":
                self.spans += _spans(body)
            else:
                assert request.path == "/v1/logs"
                self.events += _events(body)
            self._came.notify_all()
        return web.Response(status=self._status, content_type="application/x-protobuf")


def _spans(body: bytes) -> list[Span]:
    return [
        _span(span)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _events(body: bytes) -> list[Event]:
    return [
        Event(record.event_name, record.trace_id.hex(), record.span_id.hex(), _values(record.attributes))
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


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
    if kind == "kvlist_value":
        return _values(wire.kvlist_value.values)
    if kind is None:
        return None
    return getattr(wire, kind)
