"""What a request lost, told to those who operate the proxy: in the log and on the span.

Access records name the rules of every request; the log tells what they mean, once for each rule and model, so that
there is no flood.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from proxy.canonical.loss import Loss
from proxy.canonical.loss_rules import ABOUT

log = logging.getLogger("dragoman.loss")

_EVENTS = 32  # of one span
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


def loss_events(losses: Sequence[Loss], show: Callable[[str], str]) -> list[dict[str, str | int]]:
    """The attributes of a span's events, one for each loss up to a bound, then one for the rest (operations.md 3.1).
    `show`: takes out of a path what must not be shown, since the names of members in it are the client's."""
    told: list[dict[str, str | int]] = [
        {"rule": loss.rule.value, "level": loss.level, "path": show(loss.path)} for loss in losses[:_EVENTS]
    ]
    if (more := len(losses) - _EVENTS) > 0:
        told.append({"remaining": more})
    return told
