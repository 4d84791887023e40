"""What each event of a stream of Responses does to its reader (responses.md 12 and 13): one function an event, and the
table of them all."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.canonical.loss import Rule
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.responses.logprobs import read_logprobs
from proxy.protocols.responses.tables import PROGRESS_EVENTS, REPEATED_EVENTS

if TYPE_CHECKING:
    from proxy.protocols.responses.stream_reader import StreamReader


def _response(wire: Wire) -> Wire:
    response = wire.get("response")
    return response if is_object(response) else {}


def number(value: object) -> int:
    """An index, of an event that may lack it."""
    return value if type(value) is int else 0


# --- text and refusals ---


def _on_text_delta(reader: "StreamReader", wire: Wire) -> None:
    text = wire.get("delta")
    if type(text) is str and text:
        logprobs = wire.get("logprobs")
        reader.grow_text(wire, text, read_logprobs(logprobs) if logprobs else None)


def _on_text_done(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("content_index"))
    reader.items.settle_text(reader.find(wire, "message"), index, wire.get("text"), wire.get("logprobs"))


def _on_refusal_delta(reader: "StreamReader", wire: Wire) -> None:
    text = wire.get("delta")
    if type(text) is str and text:
        growing = reader.items.refusal_part(reader.find(wire, "message"), number(wire.get("content_index")))
        reader.items.grow(growing, text)


def _on_refusal_done(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("content_index"))
    reader.items.settle_refusal(reader.find(wire, "message"), index, wire.get("refusal"))


def _on_annotation(reader: "StreamReader", wire: Wire) -> None:
    annotation = wire.get("annotation")
    if is_object(annotation):
        growing = reader.items.text_part(reader.find(wire, "message"), number(wire.get("content_index")))
        reader.items.cite(growing, annotation, wire.get("annotation_index"))


def _on_part_done(reader: "StreamReader", wire: Wire) -> None:
    part, index = wire.get("part"), number(wire.get("content_index"))
    if not is_object(part):
        return
    if part.get("type") in ("output_text", "refusal"):
        reader.items.finish_content(reader.find(wire, "message"), index, part)
    elif part.get("type") == "reasoning_text":
        reader.items.settle_reasoning(reader.find(wire, "reasoning"), index, part.get("text"), raw=True)


# --- reasoning ---


def _on_summary_delta(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("summary_index"))
    reader.items.grow_reasoning(reader.find(wire, "reasoning"), index, wire.get("delta"), raw=False)


def _on_summary_done(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("summary_index"))
    reader.items.settle_reasoning(reader.find(wire, "reasoning"), index, wire.get("text"), raw=False)


def _on_summary_part_done(reader: "StreamReader", wire: Wire) -> None:
    part, index = wire.get("part"), number(wire.get("summary_index"))
    if is_object(part):
        reader.items.settle_reasoning(reader.find(wire, "reasoning"), index, part.get("text"), raw=False)


def _on_raw_delta(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("content_index"))
    reader.items.grow_reasoning(reader.find(wire, "reasoning"), index, wire.get("delta"), raw=True)


def _on_raw_done(reader: "StreamReader", wire: Wire) -> None:
    index = number(wire.get("content_index"))
    reader.items.settle_reasoning(reader.find(wire, "reasoning"), index, wire.get("text"), raw=True)


# --- calls ---


def _on_arguments_delta(reader: "StreamReader", wire: Wire) -> None:
    reader.items.grow_call(reader.find(wire, "function_call"), wire.get("delta"))


def _on_arguments_done(reader: "StreamReader", wire: Wire) -> None:
    reader.items.settle_call(reader.find(wire, "function_call"), wire.get("arguments"))


def _on_input_delta(reader: "StreamReader", wire: Wire) -> None:
    reader.items.grow_call(reader.find(wire, "custom_tool_call"), wire.get("delta"))


def _on_input_done(reader: "StreamReader", wire: Wire) -> None:
    reader.items.settle_call(reader.find(wire, "custom_tool_call"), wire.get("input"))


# --- items and the whole response ---


def _on_created(reader: "StreamReader", wire: Wire) -> None:
    reader.items.start(_response(wire))


def _on_progress(reader: "StreamReader", wire: Wire) -> None:
    reader.ping(_response(wire))


def _on_repeated(_reader: "StreamReader", _wire: Wire) -> None:
    pass


def _on_audio(reader: "StreamReader", _wire: Wire) -> None:
    reader.lose(Rule.AUDIO, "audio")


def _on_item_added(reader: "StreamReader", wire: Wire) -> None:
    item = wire.get("item")
    if is_object(item):
        reader.announce(item, wire.get("output_index"))


def _on_item_done(reader: "StreamReader", wire: Wire) -> None:
    item = wire.get("item")
    if is_object(item):
        reader.complete(item, wire.get("output_index"))


def _on_completed(reader: "StreamReader", wire: Wire) -> None:
    reader.terminate(_response(wire), "completed")


def _on_incomplete(reader: "StreamReader", wire: Wire) -> None:
    reader.terminate(_response(wire), "incomplete")


def _on_failed(reader: "StreamReader", wire: Wire) -> None:
    reader.fail_with(_response(wire), "The backend's response failed.")


def _on_cancelled(reader: "StreamReader", wire: Wire) -> None:
    reader.fail_with(_response(wire), "The backend's response was cancelled.")


def _on_error(reader: "StreamReader", wire: Wire) -> None:
    """On the wire the error is nested, in the types it is flat."""
    nested = wire.get("error")
    flat = {name: wire[name] for name in ("message", "code", "param") if name in wire}
    reader.fail(nested if nested is not None else flat, "The backend reported an error and gave no message.")


ON: dict[str, Callable[["StreamReader", Wire], None]] = {
    "response.output_text.delta": _on_text_delta,
    "response.output_text.done": _on_text_done,
    "response.refusal.delta": _on_refusal_delta,
    "response.refusal.done": _on_refusal_done,
    "response.output_text.annotation.added": _on_annotation,
    "response.content_part.done": _on_part_done,
    "response.reasoning_summary_text.delta": _on_summary_delta,
    "response.reasoning_summary_text.done": _on_summary_done,
    "response.reasoning_summary_part.done": _on_summary_part_done,
    "response.reasoning_text.delta": _on_raw_delta,
    "response.reasoning_text.done": _on_raw_done,
    "response.reasoning.delta": _on_raw_delta,  # Open Responses (responses.md 19)
    "response.reasoning.done": _on_raw_done,
    "response.function_call_arguments.delta": _on_arguments_delta,
    "response.function_call_arguments.done": _on_arguments_done,
    "response.custom_tool_call_input.delta": _on_input_delta,
    "response.custom_tool_call_input.done": _on_input_done,
    "response.audio.delta": _on_audio,
    "response.audio.transcript.delta": _on_audio,
    "response.output_item.added": _on_item_added,
    "response.output_item.done": _on_item_done,
    "response.created": _on_created,
    "response.queued": _on_progress,
    "response.in_progress": _on_progress,
    "keepalive": _on_progress,
    "response.completed": _on_completed,
    "response.incomplete": _on_incomplete,
    "response.failed": _on_failed,
    "response.cancelled": _on_cancelled,
    "error": _on_error,
    **dict.fromkeys(PROGRESS_EVENTS, _on_progress),
    **dict.fromkeys(REPEATED_EVENTS, _on_repeated),
}
