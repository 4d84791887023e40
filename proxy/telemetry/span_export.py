"""The way of spans out of the process: a queue of bounded length, and a thread that sends what is in it by OTLP.

A request only puts its spans into the queue. What does not fit, or what the receiver does not take, is dropped and
counted: a collector that hangs or is gone costs nobody anything but its spans. The SDK's own batch processor neither
tells what it dropped nor ends in the time that it is given.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from proxy import __version__

_MOST = 4096  # spans that wait
_BATCH = 512  # spans that are sent at once
_EVERY = 2.0  # seconds between batches that are not full
_TIMEOUT = 5.0  # seconds that one batch may take, retries included

RESOURCE = Resource.create({"service.name": "dragoman", "service.version": __version__})

for _name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "urllib3.connectionpool"):
    # One line for each batch that a receiver does not take; the count of what was dropped says it better.
    logging.getLogger(_name).setLevel(logging.CRITICAL)

log = logging.getLogger("dragoman")


class SpanExport:
    """Make it where the process serves, `close()` it at the end. `on_dropped`: counts spans that nobody will see."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], on_dropped: Callable[[int], None]) -> None:
        self._on_dropped = on_dropped
        self._counting = threading.Lock()
        self._exporter = OTLPSpanExporter(endpoint, headers=dict(headers), timeout=_TIMEOUT)
        self._waiting: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._well = True
        self._thread = threading.Thread(target=self._send_all, name="spans", daemon=True)
        self._thread.start()

    def offer(self, spans: Sequence[ReadableSpan]) -> None:
        """Send these some time, if there is room. Never waits."""
        if self._closing or len(self._waiting) + len(spans) > _MOST:
            self._drop(len(spans))
            return
        self._waiting.extend(spans)
        if len(self._waiting) >= _BATCH:
            self._wake.set()

    def close(self, within: float) -> None:
        """Send what is waiting, for at most `within` seconds; the rest is dropped."""
        self._closing = True
        self._wake.set()
        self._thread.join(within)
        if self._thread.is_alive():
            # What is on its way may still arrive; it is not waited for.
            self._drop(len(self._waiting))
            self._waiting.clear()
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _drop(self, count: int) -> None:
        with self._counting:  # the loop and the thread both do
            self._on_dropped(count)

    def _send_all(self) -> None:
        while not self._closing or self._waiting:
            if not self._closing:
                self._wake.wait(_EVERY)
                self._wake.clear()
            while self._waiting:
                self._send([self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))])

    def _send(self, batch: list[ReadableSpan]) -> None:
        try:
            taken = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001  the thread must live on, whatever a receiver does
            log.debug("Sending spans failed: %s", type(error).__name__)
            taken = False
        if not taken:
            self._drop(len(batch))
        if taken is not self._well:
            self._well = taken
            log.warning("Spans are taken again" if taken else "Spans can't be sent, and are dropped until they can")
