"""The conversation of a sampled exchange, for its span or its event, where a policy lets it be recorded
(operations.md 3.1)."""

from proxy.server.exchange import Exchange
from proxy.server.spans import Spans
from proxy.telemetry import semconv
from proxy.telemetry.conversation import (
    input_messages,
    output_messages,
    system_instructions,
    tool_definitions,
    written,
)
from proxy.translation.overheard import reply_of, request_of


def content_of(exchange: Exchange, spans: Spans) -> dict[str, str]:
    """JSON texts by their names, without secrets. Empty if nothing may be recorded."""
    transcript = spans.transcript
    if not transcript.content:
        return {}
    told: dict[str, str] = {}
    request = request_of(exchange.client, transcript.asked) if transcript.asked else None
    if request is not None:
        told[semconv.INPUT_MESSAGES] = written(input_messages(request))
        if request.instructions:
            told[semconv.SYSTEM_INSTRUCTIONS] = written(system_instructions(request))
        if request.tools:
            told[semconv.TOOL_DEFINITIONS] = written(tool_definitions(request.tools))
    if exchange.outcome == "ok" and transcript.complete:
        reply = reply_of(exchange.client, transcript.told, streamed=transcript.streamed)
        if reply is not None:
            told[semconv.OUTPUT_MESSAGES] = written(output_messages(reply))
    return {name: exchange.scrub_all(text) for name, text in told.items()}
