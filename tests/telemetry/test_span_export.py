"""The queue of spans has a bound, and what does not fit or arrive is counted."""

import asyncio

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from proxy.telemetry.span_export import SpanExport
from tests.harness.otlp import Receiver

SPAN = ReadableSpan("x", SpanContext(1, 1, False), start_time=1, end_time=2)


async def test_what_does_not_fit_is_dropped_and_nobody_waits() -> None:
    async with Receiver(hangs=True) as receiver:
        dropped: list[int] = []
        export = SpanExport(f"{receiver.url}/v1/traces", {}, lambda _kind, count: dropped.append(count))
        for _ in range(100):
            export.offer([SPAN] * 100)
        refused = sum(dropped)
        export.close(0.1)
    assert refused > 5000
    assert sum(dropped) > refused


async def test_what_a_receiver_does_not_take_is_counted() -> None:
    async with Receiver(status=400) as receiver:
        dropped: list[int] = []
        export = SpanExport(f"{receiver.url}/v1/traces", {}, lambda _kind, count: dropped.append(count))
        export.offer([SPAN, SPAN])
        await asyncio.to_thread(export.close, 5.0)
        export.offer([SPAN])
        assert (len(receiver.spans), sum(dropped)) == (2, 3)
