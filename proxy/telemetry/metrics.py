"""Counters for Prometheus, each with labels from closed sets (operations.md 4).

Nothing that a client or a backend may call as it likes is a label, so the number of series has a bound.
"""

import os
import platform
from collections import Counter as Tally
from collections.abc import Iterable
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from proxy import __version__
from proxy.canonical.loss import Loss
from proxy.telemetry.now import Now
from proxy.telemetry.tenant_use import TenantUses
from proxy.telemetry.traffic import Traffic

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody asks for


class Metrics:
    """Those of one server, apart from any other in the process."""

    __slots__ = (
        "_config",
        "_leases_expired",
        "_limiter_errors",
        "_losses",
        "_registry",
        "_reloaded_at",
        "_reloads",
        "_requests_with_loss",
        "tenants",
        "traffic",
    )

    def __init__(self, now: Now | None = None) -> None:
        """`now`: tells, at a scrape, how things stand."""
        self._registry = CollectorRegistry()
        self._losses = Counter(
            "dragoman_translation_loss_total",
            "What could not be carried between the client's protocol and the backend's, by what was done about it.",
            ("rule", "client", "backend", "level"),
            registry=self._registry,
        )
        self._requests_with_loss = Counter(
            "dragoman_translation_requests_with_loss_total",
            "Requests with at least one loss.",
            ("client", "backend"),
            registry=self._registry,
        )

        self.tenants = TenantUses()
        self._registry.register(self.tenants)
        self.traffic = Traffic()
        self._registry.register(self.traffic)
        if now is not None:
            self._registry.register(now)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._gauge("dragoman_build_info", "1 for the version that runs.", "version", "revision", "python").labels(
            __version__, os.environ.get("DRAGOMAN_REVISION", "unknown"), platform.python_version()
        ).set(1)
        self._leases_expired = self._counter(
            "dragoman_lease_expired_total", "Reservations that were never settled: should stay 0."
        )
        self._limiter_errors = self._counter(
            "dragoman_limiter_backend_errors_total", "Checks for which the shared store could not be asked.", "action"
        )
        self._reloads = self._counter("dragoman_config_reload_total", "Attempts to change the configuration.", "result")
        self._reloaded_at = self._gauge(
            "dragoman_config_last_reload_success_timestamp_seconds", "When the configuration in force was taken."
        )
        self._config = self._gauge("dragoman_config_info", "1 for the configuration in force.", "hash")
        for result in ("ok", "rejected"):
            self._reloads.labels(result)
        for action in ("failed_open", "failed_closed"):
            self._limiter_errors.labels(action)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self._registry)

    def count_expired_leases(self, count: int) -> None:
        """Count reservations whose time was over."""
        self._leases_expired.inc(count)

    def count_limiter_error(self, action: Literal["failed_open", "failed_closed"]) -> None:
        """Count a check that could not be made."""
        self._limiter_errors.labels(action).inc()

    def count_reload(self, *, ok: bool) -> None:
        """Count an attempt to change the configuration."""
        self._reloads.labels("ok" if ok else "rejected").inc()

    def note_config(self, digest: str) -> None:
        """Show which configuration is in force, from now on."""
        self._config.clear()
        self._config.labels(digest[:12]).set(1)
        self._reloaded_at.set_to_current_time()

    def count_losses(self, losses: Iterable[Loss], client: str, backend: str) -> None:
        """Count the losses of one request. `client` and `backend` are protocols."""
        self._requests_with_loss.labels(client, backend).inc()
        for (rule, level), count in Tally((loss.rule.value, loss.level) for loss in losses).items():
            self._losses.labels(rule, client, backend, level).inc(count)

    def write(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) in the format that a scraper's `Accept` asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
