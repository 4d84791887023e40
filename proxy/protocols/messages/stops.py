"""Stop reasons, both ways (mapping.md 12).

The vendor's tool runners look at `stop_reason` alone: a call that waits is only run when it says `tool_use`.
"""

from proxy.canonical.stop import Stop, StopKind
from proxy.protocols.fields import Wire, is_object

STOP_OF_REASON: dict[str, StopKind] = {
    "end_turn": "end",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool",
    "pause_turn": "pause",
    "compaction": "compaction",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}

REASON_OF_STOP: dict[StopKind, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "tool": "tool_use",
    "stop_sequence": "stop_sequence",
    "filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
    "context": "model_context_window_exceeded",
    "compaction": "compaction",
    "max_messages": "max_tokens",
    "steered": "end_turn",
}


def read_stop(wire: Wire, calls: bool) -> Stop:
    """The stop in a message or in the delta of `message_delta`. `calls`: a client-side call was made."""
    reason = wire.get("stop_reason")
    native = reason if type(reason) is str else None
    kind = STOP_OF_REASON.get(native, "end") if native else "end"
    if kind in ("end", "tool"):
        # A server tool's use leaves the client nothing to answer, and some servers say `end_turn` beside calls.
        kind = "tool" if calls else "end"
    sequence = wire.get("stop_sequence")
    matched = sequence if kind == "stop_sequence" and type(sequence) is str else None
    stop = Stop(kind, matched, native=native, unknown=bool(native) and native not in STOP_OF_REASON)
    if kind == "refusal":
        stop.classifier = True
        details = wire.get("stop_details")
        if is_object(details):
            category, explanation = details.get("category"), details.get("explanation")
            stop.category = category if type(category) is str else None
            stop.explanation = explanation if type(explanation) is str else None
    return stop


def write_stop(stop: Stop, calls: bool, refused: bool) -> Wire:
    """`stop_reason`, `stop_sequence`, `stop_details`. `refused`: the model declined in words of its own."""
    kind: StopKind = stop.kind
    if kind in ("end", "tool", "steered"):
        kind = "tool" if calls else "refusal" if refused else "end"
    reason = REASON_OF_STOP[kind]
    if kind == "stop_sequence" and stop.sequence is None:
        reason = REASON_OF_STOP["end"]  # which one matched isn't known (mapping.md 7.3)
    details: Wire | None = None
    if reason == "refusal":
        details = {"type": "refusal", "category": stop.category, "explanation": stop.explanation}
    sequence = stop.sequence if reason == "stop_sequence" else None
    return {"stop_reason": reason, "stop_sequence": sequence, "stop_details": details}
