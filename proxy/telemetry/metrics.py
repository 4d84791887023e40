"""Counters for Prometheus, each with labels from closed sets (operations.md 4).

Nothing that a client or a backend may call as it likes is a label, so the number of series has a bound.
"""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from proxy.canonical.loss import Loss

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody asks for


class Metrics:
    """Those of one server, apart from any other in the process."""

    __slots__ = ("_losses", "_registry", "_requests_with_loss")

    def __init__(self) -> None:
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

    def count_losses(self, losses: Iterable[Loss], client: str, backend: str) -> None:
        """Count the losses of one request. `client` and `backend` are protocols."""
        self._requests_with_loss.labels(client, backend).inc()
        for (rule, level), count in Tally((loss.rule.value, loss.level) for loss in losses).items():
            self._losses.labels(rule, client, backend, level).inc(count)

    def write(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) in the format that a scraper's `Accept` asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
