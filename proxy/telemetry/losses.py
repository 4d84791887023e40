"""A line in the log the first time that a model loses something, so that operators see it without a flood.

Access records name the rules of every request; this tells what they mean, once for each rule and model.
"""

import logging
from collections.abc import Iterable

from proxy.canonical.loss import Loss
from proxy.canonical.loss_rules import ABOUT

log = logging.getLogger("dragoman.loss")

_MOST = 10_000  # pairs that are remembered; clients may make up names of models


class LossLog:
    """Remembers what was told."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def note(self, losses: Iterable[Loss], client: str, backend: str, model: str) -> None:
        """Log those losses that are new for the model. `client` and `backend` are protocols."""
        for loss in losses:
            pair = (loss.rule.value, model)
            if pair in self._told:
                continue
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told.add(pair)
            log.info(
                "Loss %s;%s from %s to %s, model %s: %s",
                loss.rule.value,
                loss.level,
                client,
                backend,
                model,
                ABOUT[loss.rule].text,
            )
