"""Losses are logged once for each rule and model (mapping.md P6)."""

import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from proxy.canonical.loss import Loss, Rule
from proxy.telemetry.losses import LossLog, note_on_span


def test_each_rule_once_a_model(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.loss")
    log = LossLog()
    for model in ("a", "b", "a"):
        log.note([Loss(Rule.SEED, "drop", "seed"), Loss(Rule.SEED, "drop", "seed")], "chat", "messages", model)
    assert [record.getMessage() for record in caplog.records] == [
        f"Loss seed;drop from chat to messages, model {model}: The backend's protocol has no seed." for model in "ab"
    ]


def test_made_up_names_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    log = LossLog()
    for number in range(20_001):
        log.note([Loss(Rule.SEED, "drop", "seed")], "chat", "messages", str(number))
    assert len(log._told) <= 10_000


def test_the_span_that_is_current_gets_them() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    losses = [Loss(Rule.SEED, "drop", f"seed{number}") for number in range(34)]
    with provider.get_tracer("test").start_as_current_span("request"):
        note_on_span(losses)
    [span] = exporter.get_finished_spans()
    assert dict(span.attributes or {}) == {"dragoman.loss.count": 34}
    assert {event.name for event in span.events} == {"dragoman.translation.loss"}
    told = [dict(event.attributes or {}) for event in span.events]
    assert told == [
        *({"rule": "seed", "level": "drop", "path": f"seed{number}"} for number in range(32)),
        {"remaining": 2},
    ]


def test_nobody_who_traces_costs_nothing() -> None:
    note_on_span([Loss(Rule.SEED, "drop", "seed")])
    assert not trace.get_current_span().is_recording()
