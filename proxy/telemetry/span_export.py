"""The way of spans out of the process: a queue of bounded length, and a thread that sends what is in it by OTLP. Events
that hold content take a way of their own beside it, as logs of OTLP.

A request only puts its spans into the queue. What does not fit, or what the receiver does not take, is dropped and
counted: a collector that hangs or is gone costs nobody anything but its spans. The SDK's own batch processor neither
tells what it dropped nor ends in the time that it is given.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from time import monotonic
from typing import Generic, Protocol, TypeVar

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from proxy import __version__

_MOST = 4096  # spans, or events, that wait
_BATCH = 512  # of them that are sent at once
_MOST_TEXT = 16 * 1024 * 1024  # characters of content that wait
_BATCH_TEXT = 1024 * 1024  # and that are sent at once, whose size receivers limit
_EVERY = 2.0  # seconds between batches that are not full
_TIMEOUT = 5.0  # seconds that one batch may take, retries included

RESOURCE = Resource.create({"service.name": "dragoman", "service.version": __version__})

for _name in (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.common._internal",  # it would show the value that it can't encode
    "opentelemetry.attributes",
    "urllib3.connectionpool",
):
    # One line for each batch that a receiver does not take; the count of what was dropped says it better.
    logging.getLogger(_name).setLevel(logging.CRITICAL)

log = logging.getLogger("dragoman")


Told = TypeVar("Told")
_Taken_contra = TypeVar("_Taken_contra", contravariant=True)


class _Exporter(Protocol[_Taken_contra]):
    """What both of the SDK's exporters do."""

    def export(self, batch: Sequence[_Taken_contra], /) -> Enum: ...

    def shutdown(self) -> None: ...


class SpanExport:
    """Make it where the process serves, `close()` it at the end. `endpoint`: where spans are posted to; events go to
    its neighbour for logs. `on_dropped`: counts what nobody will see, by its kind."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], on_dropped: Callable[[str, int], None]) -> None:
        self._endpoint, self._headers, self._on_dropped = endpoint, dict(headers), on_dropped
        spans = OTLPSpanExporter(endpoint, headers=self._headers, timeout=_TIMEOUT)
        self._spans = _Queue("spans", spans, on_dropped)
        self._events: _Queue[ReadableLogRecord] | None = None

    def offer(self, spans: Sequence[ReadableSpan], text: int = 0) -> None:
        """Send these some time, if there is room. Never waits. `text`: characters of content on the last of them."""
        self._spans.offer(spans, text)

    def offer_event(self, event: ReadableLogRecord, text: int = 0) -> None:
        """The same for an event."""
        if self._events is None:
            endpoint = self._endpoint.removesuffix("/traces") + "/logs"
            exporter = OTLPLogExporter(endpoint, headers=self._headers, timeout=_TIMEOUT)
            self._events = _Queue("logs", exporter, self._on_dropped)
        self._events.offer((event,), text)

    def close(self, within: float) -> None:
        """Send what is waiting, for at most `within` seconds; the rest is dropped."""
        until = monotonic() + within
        queues = [queue for queue in (self._spans, self._events) if queue is not None]
        for queue in queues:
            queue.end()
        for queue in queues:
            queue.close(max(0.0, until - monotonic()))


class _Queue(Generic[Told]):
    """`kind`: what is in it, for who counts and reads."""

    def __init__(self, kind: str, exporter: _Exporter[Told], on_dropped: Callable[[str, int], None]) -> None:
        self._kind = kind
        self._on_dropped = on_dropped
        self._counting = threading.Lock()
        self._exporter = exporter
        self._waiting: deque[tuple[Told, int]] = deque()
        self._text = 0
        self._wake = threading.Event()
        self._closing = False
        self._well = True
        self._thread = threading.Thread(target=self._send_all, name=kind, daemon=True)
        self._thread.start()

    def offer(self, told: Sequence[Told], text: int) -> None:
        if self._closing or len(self._waiting) + len(told) > _MOST or self._text + text > _MOST_TEXT:
            self._drop(len(told))
            return
        with self._counting:
            self._text += text
        last = len(told) - 1
        self._waiting.extend((each, text if place == last else 0) for place, each in enumerate(told))
        if len(self._waiting) >= _BATCH or self._text >= _BATCH_TEXT:
            self._wake.set()

    def end(self) -> None:
        """Take no more, and hurry."""
        self._closing = True
        self._wake.set()

    def close(self, within: float) -> None:
        """Wait for so long, after `end`."""
        self._thread.join(within)
        if self._thread.is_alive():
            # What is on its way may still arrive; it is not waited for.
            self._drop(len(self._waiting))
            self._waiting.clear()
        self._exporter.shutdown()

    def _drop(self, count: int) -> None:
        with self._counting:  # the loop and the thread both do
            self._on_dropped(self._kind, count)

    def _send_all(self) -> None:
        while not self._closing or self._waiting:
            if not self._closing:
                self._wake.wait(_EVERY)
                self._wake.clear()
            while self._waiting:
                self._send(self._batch())

    def _batch(self) -> list[Told]:
        batch: list[Told] = []
        text = 0
        while self._waiting and len(batch) < _BATCH and (not batch or text + self._waiting[0][1] <= _BATCH_TEXT):
            told, size = self._waiting.popleft()
            batch.append(told)
            text += size
        with self._counting:
            self._text -= text
        return batch

    def _send(self, batch: list[Told]) -> None:
        try:
            taken = self._exporter.export(batch).name == "SUCCESS"
        except Exception as error:  # noqa: BLE001  the thread must live on, whatever a receiver does
            log.debug("Sending %s failed: %s", self._kind, type(error).__name__)
            taken = False
        if not taken:
            self._drop(len(batch))
        if taken is not self._well:
            self._well = taken
            what = self._kind.capitalize()
            log.warning("%s are taken again" if taken else "%s can't be sent, and are dropped until they can", what)
