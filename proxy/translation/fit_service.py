"""Compaction, fast answers and where they are made, as the target has it (mapping.md 11)."""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.request import Request
from proxy.canonical.target import Target

LEAST_TRIGGER = 50_000  # tokens (messages.md 13.2)


def fit_service(request: Request, target: Target, losses: LossReport) -> None:
    """Make what the client asked of the service what the target takes, in place."""
    _fit_compaction(request, target, losses)
    _fit_speed(request, target, losses)
    _fit_place(request, target, losses)


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


_FAST_TIERS = ("fast", "ultrafast")


def _fit_speed(request: Request, target: Target, losses: LossReport) -> None:
    """Fast answers cost more and few models give them, so the operator has to allow them (mapping.md 11.3)."""
    service = request.service
    if target.protocol == "messages":
        if service.tier in _FAST_TIERS and target.fast_mode:
            if service.tier != "fast":
                losses.approx(Rule.SERVICE_TIER, ("service_tier",))
            service.tier, service.speed = None, "fast"
    elif service.speed == "fast" and not (target.fast_mode and "service_tier" in target.dialect.fields):
        losses.drop(Rule.SPEED, ("speed",))
        service.speed = None


def _fit_place(request: Request, target: Target, losses: LossReport) -> None:
    """Where a request may be served: another vendor gives no such promise (mapping.md 11.1)."""
    if request.service.geo is None or target.protocol == "messages":
        return
    if target.inference_geo == "refuse":
        losses.refuse(Rule.INFERENCE_GEO, ("inference_geo",), "another vendor gives no such promise.")
    losses.drop(Rule.INFERENCE_GEO, ("inference_geo",))
    request.service.geo = None
