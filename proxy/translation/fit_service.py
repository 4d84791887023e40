"""Compaction as the target has it (mapping.md 11)."""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Request
from proxy.canonical.target import Target

LEAST_TRIGGER = 50_000  # tokens (messages.md 13.2)


def fit_service(request: Request, target: Target, losses: LossReport) -> None:
    """Make what the client asked of the service what the target takes, in place."""
    _fit_compaction(request, target, losses)


def _fit_compaction(request: Request, target: Target, losses: LossReport) -> None:
    """Whether the backend sums a long conversation up by itself; its summary then travels in a carrier."""
    asked = request.compaction
    if asked is None:
        return
    if "context_management" not in target.dialect.fields or asked.pauses:
        losses.drop(Rule.COMPACTION, asked.at)
        request.compaction = None
        return
    losses.approx(Rule.COMPACTION, asked.at)
    if asked.instructions is not None:
        losses.drop(Rule.COMPACTION, (*asked.at, "instructions"))
    if target.protocol == "messages" and asked.threshold is not None:
        asked.threshold = max(LEAST_TRIGGER, asked.threshold)
