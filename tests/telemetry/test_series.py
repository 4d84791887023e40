"""Series as plain sums, and how many there can be."""

import math

from prometheus_client.parser import text_string_to_metric_families as read_text

from proxy.canonical.usage import Usage
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.traffic import ATTEMPT_RESULTS, Traffic

MODELS = [f"model-{number}" for number in range(20)]
TENANTS = [f"tenant-{number}" for number in range(50)]
TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


def test_a_value_on_a_bound_belongs_below_it() -> None:
    traffic = Traffic()
    series = traffic.first_event.of("up", "m")
    for value in (0.05, 0.06, 1000.0):
        series.observe(value)
    (family,) = [each for each in traffic.collect() if "time_to_first_event" in each.name]
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if sample.name.endswith("_bucket")}
    assert (buckets["0.05"], buckets["0.1"], buckets["90.0"], buckets["+Inf"]) == (1, 2, 2, 3)
    (total,) = [sample.value for sample in family.samples if sample.name.endswith("_sum")]
    assert math.isclose(total, 1000.11)


def test_fifty_tenants_and_twenty_models_make_fewer_than_ten_thousand_series() -> None:
    metrics = Metrics()
    traffic = metrics.traffic
    traffic.configure(MODELS, ["openai", "anthropic"])
    for number, model in enumerate(MODELS):
        upstream, backend = (("openai", "responses"), ("anthropic", "messages"))[number % 2]
        for client in ("chat", "responses", "messages"):
            for code, outcome in (("200", "ok"), ("499", "cancelled"), ("429", "policy"), ("502", "upstream_error")):
                traffic.requests.add(client, backend, model, code, outcome)
            for stream in ("true", "false"):
                traffic.duration.of(client, backend, model, stream).observe(1)
            traffic.first_token.of(client, backend, model).observe(1)
            traffic.overhead.of(client, backend).observe(1)
            for stage in ("request", "response", "stream"):
                traffic.translate.of(client, backend, stage).observe(1)
        traffic.first_event.of(upstream, model).observe(1)
        traffic.inter_token.of(backend, model).observe(1)
        traffic.stall.of(upstream).observe(1)
        for code in ("200", "429", "503"):
            traffic.upstream_duration.of(upstream, model, code).observe(1)
        traffic.cost.add(model, upstream)
        for kind in TOKENS:
            traffic.tokens.add(model, upstream, kind)
    for tenant in TENANTS:
        for outcome in ("ok", "policy", "cancelled", "client_error", "upstream_error"):
            metrics.tenants.of(tenant).add(outcome, Usage(), 0)
        for dimension in ("rpm", "tpm", "concurrency", "budget"):
            metrics.tenants.of(tenant).limited[dimension] += 1
            traffic.utilization.put(tenant, dimension, value=0.5)
    body, _ = metrics.write("text/plain")
    assert sum(len(family.samples) for family in read_text(body.decode())) < 10_000


def test_what_alerts_ask_for_is_there_from_the_start() -> None:
    metrics = Metrics()
    metrics.traffic.configure(["m"], ["up"])
    body, _ = metrics.write("text/plain")
    found = {
        (each.name, frozenset(each.labels.values())) for family in read_text(body.decode()) for each in family.samples
    }
    attempts = {("dragoman_upstream_attempts_total", frozenset({"up", result})) for result in ATTEMPT_RESULTS}
    assert attempts <= found
    assert ("dragoman_errors_total", frozenset({"proxy", "internal", "none"})) in found
    assert ("dragoman_errors_total", frozenset({"upstream", "upstream_auth", "up"})) in found
