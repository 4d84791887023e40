"""Losses are logged once for each rule and model (mapping.md P6)."""

import logging

import pytest

from proxy.canonical.loss import Loss, Rule
from proxy.telemetry.losses import LossLog, loss_events


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


def test_a_span_gets_the_first_ones_and_a_count_of_the_rest() -> None:
    losses = [Loss(Rule.SEED, "drop", f"seed{number}") for number in range(34)]
    assert loss_events(losses, str) == [
        *({"rule": "seed", "level": "drop", "path": f"seed{number}"} for number in range(32)),
        {"remaining": 2},
    ]
