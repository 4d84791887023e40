"""The metrics of requests (operations.md 4.2): names, labels and buckets, and which of them a configuration has.

Every label is a name of the configuration or of a list in the code, so that nothing which a client or a backend may
call as it likes makes a series.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from proxy.telemetry.paths import Path
from proxy.telemetry.series import NONE, OTHER, Histogram, Sums

_DURATIONS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
_FIRST = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 90)
_GAPS = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5)
_OWN = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)
_SIZES = tuple(256 * 4**power for power in range(10))  # up to 64 MiB
_ERRORS_OF_ESTIMATES = (-0.9, -0.75, -0.5, -0.25, -0.1, 0, 0.1, 0.25, 0.5, 1, 2, 5)

ATTEMPT_RESULTS = ("ok", "retryable", "fatal", "timeout_connect", "timeout_first_event", "timeout_idle")
RETRY_REASONS = ("connection", "server_error", "rate_limit", "credential")
FALLBACK_RESULTS = ("ok", "failed")
TURNED_AWAY = ("full", "large_head", "slow_head")
USAGE_SOURCES = ("reported", "partial", "estimated", "none")
CLIENTS = ("chat", "responses", "messages", "completions")
# What `errors_total` calls the failures that alerts are about.
_ALERTING = (("proxy", "internal", NONE),)


class Traffic(Collector):
    """All of them. `models` and `upstreams`: what the configuration in force calls its own."""

    def __init__(self) -> None:
        self.models: frozenset[str] = frozenset()
        self.upstreams: frozenset[str] = frozenset()
        self._paths: dict[tuple[str, str, str | None, str | None, bool], Path] = {}
        pair, path = ("client", "backend"), ("client", "backend", "model")
        self.requests = Sums("dragoman_requests", "Finished requests.", (*path, "code", "outcome"))
        self.duration = Histogram(
            "dragoman_request_duration_seconds", "From accept to the last byte.", _DURATIONS, (*path, "stream")
        )
        self.first_token = Histogram(
            "dragoman_time_to_first_token_seconds",
            "From accept to the first content event written to the client; streams alone.",
            _FIRST,
            path,
        )
        self.first_event = Histogram(
            "dragoman_upstream_time_to_first_event_seconds",
            "From the request to the backend to the first event of its stream, of any kind.",
            _FIRST,
            ("upstream", "model"),
        )
        self.inter_token = Histogram(
            "dragoman_inter_token_seconds",
            "The mean gap between the events of one stream; one observation a stream.",
            _GAPS,
            ("backend", "model"),
        )
        self.stall = Histogram(
            "dragoman_stream_stall_seconds",
            "The longest gap in one stream; one observation a stream.",
            _FIRST,
            ("upstream",),
        )
        self.upstream_duration = Histogram(
            "dragoman_upstream_duration_seconds",
            "From the request to a backend to the end of its answer; one observation an attempt.",
            _DURATIONS,
            ("upstream", "model", "code"),
        )
        self.overhead = Histogram(
            "dragoman_overhead_seconds",
            "The proxy's own time: not spent waiting for the client or the backend. Without the accept queue, the "
            "kernel and TLS.",
            _OWN,
            pair,
        )
        self.translate = Histogram(
            "dragoman_translate_seconds",
            "The part of it that translates. stream is the sum over one stream, with what moving it takes.",
            _OWN,
            (*pair, "stage"),
        )
        self.request_bytes = Histogram("dragoman_request_bytes", "Sizes of requests' bodies.", _SIZES, ("client",))
        self.response_bytes = Histogram("dragoman_response_bytes", "Sizes of replies' bodies.", _SIZES, ("client",))
        self.tokens = Sums(
            "dragoman_tokens",
            "Tokens that were used. input leaves out what caches gave or took, output leaves out reasoning: the types "
            "can be summed.",
            ("model", "upstream", "type"),
        )
        self.cost = Sums("dragoman_cost_usd", "What requests cost, by the table of prices.", ("model", "upstream"))
        self.usage_source = Sums("dragoman_usage_source", "How the tokens of an answer were found.", ("source",))
        self.errors = Sums(
            "dragoman_errors",
            "Requests that ended in an error, and keys that a backend refused.",
            ("origin", "kind", "upstream"),
        )
        self.disconnects = Sums("dragoman_client_disconnects", "Clients that left.", ("client", "phase"))
        self.unknown_fields = Sums(
            "dragoman_unknown_fields",
            "Members that this version does not know, in what was translated.",
            ("protocol", "direction"),
        )
        self.attempts = Sums(
            "dragoman_upstream_attempts", "Requests to backends, by what came of them.", ("upstream", "result")
        )
        self.retries = Sums(
            "dragoman_retries", "Requests that were sent to a backend once more.", ("upstream", "reason")
        )
        self.fallbacks = Sums(
            "dragoman_fallbacks",
            "Requests that went to another target than they would have, by what came of it.",
            ("from", "to", "result"),
        )
        self.ratelimit_remaining = Sums(
            "dragoman_upstream_ratelimit_remaining",
            "What a backend last said is left of its limits.",
            ("upstream", "kind"),
            kind="gauge",
        )
        self.heartbeats = Sums("dragoman_heartbeats", "Heartbeats written to clients that wait.", ("client",))
        self.utilization = Sums(
            "dragoman_limit_utilization_ratio",
            "How full a tenant's limits are.",
            ("tenant", "dimension"),
            kind="gauge",
        )
        self.settlement_error = Histogram(
            "dragoman_settlement_error_ratio",
            "(actual - reserved) / reserved, of the tokens of one request.",
            _ERRORS_OF_ESTIMATES,
        )
        self.turned_away = Sums(
            "dragoman_connections_turned_away", "Connections that were closed before a request had come.", ("reason",)
        )
        self.loop_lag = Histogram(
            "dragoman_event_loop_lag_seconds", "How late the event loop was, sampled every 0.5 s.", _OWN
        )
        self.dropped = Sums("dragoman_telemetry_dropped", "What could not be told.", ("kind",))
        self._families = [each for each in vars(self).values() if isinstance(each, Sums | Histogram)]
        self._begin()

    def _begin(self) -> None:
        """What is there from the start, so that rates have a zero to begin with."""
        for labels in _ALERTING:
            self.errors.add(*labels, value=0)
        for source in USAGE_SOURCES:
            self.usage_source.add(source, value=0)
        for kind in ("spans", "logs", "audit"):
            self.dropped.add(kind, value=0)
        for why in TURNED_AWAY:
            self.turned_away.add(why, value=0)
        for client in CLIENTS:
            self.heartbeats.add(client, value=0)
            for phase in ("before_first_event", "streaming"):
                self.disconnects.add(client, phase, value=0)
        for protocol in CLIENTS[:3]:
            for direction in ("request", "response"):
                self.unknown_fields.add(protocol, direction, value=0)
        self.loop_lag.of()
        self.settlement_error.of()

    def configure(
        self, models: Iterable[str], upstreams: Iterable[str], fallbacks: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Another configuration is in force: what it has no more of is not shown any more. `fallbacks`: from which
        upstream to which other requests may go."""
        self.models, self.upstreams = frozenset(models), frozenset(upstreams)
        self._paths.clear()
        shown_models, shown_upstreams = self.models | {OTHER}, self.upstreams | {NONE, OTHER}
        for family in (
            self.requests,
            self.duration,
            self.first_token,
            self.first_event,
            self.inter_token,
            self.upstream_duration,
            self.tokens,
            self.cost,
        ):
            family.keep("model", shown_models)
        for family in (
            self.first_event,
            self.stall,
            self.upstream_duration,
            self.tokens,
            self.cost,
            self.errors,
            self.attempts,
            self.retries,
            self.ratelimit_remaining,
        ):
            family.keep("upstream", shown_upstreams)
        for label in ("from", "to"):
            self.fallbacks.keep(label, shown_upstreams)
        for upstream in self.upstreams:
            for result in ATTEMPT_RESULTS:
                self.attempts.add(upstream, result, value=0)
            for reason in RETRY_REASONS:
                self.retries.add(upstream, reason, value=0)
            self.errors.add("upstream", "upstream_auth", upstream, value=0)
        for one, other in fallbacks:
            for result in FALLBACK_RESULTS:
                self.fallbacks.add(one, other, result, value=0)

    def path(self, client: str, backend: str, upstream: str | None, alias: str | None, *, stream: bool) -> Path:
        """What a request adds to. `client` and `backend` are protocols; `upstream` and `alias` as for `upstream` and
        `model`."""
        key = (client, backend, upstream, alias, stream)
        found = self._paths.get(key)
        if found is None:
            labels = (client, backend, self.upstream(upstream), self.model(alias))
            found = self._paths[key] = Path(self, *labels, stream=stream)
        return found

    def model(self, alias: str | None) -> str:
        """What a model is called here: the pattern that matched, as long as the configuration has it."""
        return alias if alias in self.models else OTHER

    def upstream(self, name: str | None) -> str:
        """The same of an upstream."""
        if name is None:
            return NONE
        return name if name in self.upstreams else OTHER

    def collect(self) -> Iterator[Metric]:
        """As Prometheus's client wants it."""
        for family in self._families:
            yield family.collect()
