"""Labels are names of the configuration, whatever a client or a backend says."""

import pytest

from proxy.telemetry.series import NONE, OTHER
from proxy.telemetry.traffic import Traffic


@pytest.mark.parametrize(("said", "label"), [("m*", "m*"), ("mine", OTHER), ("", OTHER), (None, OTHER)])
def test_a_model_that_the_configuration_does_not_have_is_another(said: str | None, label: str) -> None:
    traffic = Traffic()
    traffic.models = frozenset({"m*"})
    assert traffic.model(said) == label


@pytest.mark.parametrize(("said", "label"), [("backend", "backend"), ("gone", OTHER), (None, NONE)])
def test_so_is_an_upstream(said: str | None, label: str) -> None:
    traffic = Traffic()
    traffic.upstreams = frozenset({"backend"})
    assert traffic.upstream(said) == label
