"""The operations of a case's assertions that look at a whole request or a whole reply.

Each returns None if it holds, and otherwise what was found instead.
"""

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.harness.capture import Capture
from tests.harness.grammar import check_stream
from tests.harness.grammar.chat import FINISH_REASONS
from tests.harness.grammar.messages import STOP_REASONS
from tests.harness.json_values import same, shown
from tests.harness.wire import Json

Problem: TypeAlias = str | None
OnWhole: TypeAlias = Callable[[Capture, Json], Problem]


def _told(found: Json, wanted: Json) -> Problem:
    return None if same(found, wanted) else f"is {shown(found)}"


# ---- what a reply says


def _concat_text(seen: Capture, wanted: Json) -> Problem:
    return _told(seen.digest.text, wanted)


def _concat_reasoning(seen: Capture, wanted: Json) -> Problem:
    return _told(seen.digest.reasoning, wanted)


def _tool_calls(seen: Capture, wanted: Json) -> Problem:
    return _told(seen.digest.calls, wanted)


def _stop(seen: Capture, wanted: Json) -> Problem:
    return _told(seen.digest.stop, wanted)


def _usage(seen: Capture, wanted: Json) -> Problem:
    found = {dotted: _field(seen.digest.usage, dotted) for dotted in wanted}
    return _told(found, wanted)


def _field(node: Json, dotted: str) -> Json:
    for name in dotted.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


# ---- event streams


def _valid_stream(seen: Capture, wanted: Json) -> Problem:
    found = check_stream(seen.protocol, seen.body, passed_through=seen.passed_through)
    if seen.broken:
        found.append("the connection broke off")
    return "; ".join(found) or None


def _event_order(seen: Capture, wanted: Json) -> Problem:
    names = [event.name for event in seen.stream.events]
    left = iter(names)
    return None if all(name in left for name in wanted) else f"is {shown(names)}"


def _joined_deltas(seen: Capture, wanted: Json) -> Problem:
    deltas = [event.data["delta"] for event in seen.stream.events if event.name == wanted["event"]]
    return _told("".join(deltas), wanted["value"])


def _no_empty_choices(seen: Capture, wanted: Json) -> Problem:
    empty = [event.text for event in seen.stream.events if not (event.data or {}).get("choices")]
    return f"has {shown(empty[0])}" if empty else None


def _all_data_json(seen: Capture, wanted: Json) -> Problem:
    return next((f"has {shown(event.text)}" for event in seen.stream.events if event.data is None), None)


# ---- errors

# What tells a client that its answer is whole, or as whole as it will get.
STOPS: dict[str, set[str]] = {
    "chat": FINISH_REASONS,
    "responses": {"completed", "incomplete:max_output_tokens", "incomplete:content_filter"},
    "messages": STOP_REASONS,
}
ERROR_EVENTS: dict[str, frozenset[str | None]] = {
    "responses": frozenset({"error", "response.failed"}),
    "messages": frozenset({"error"}),
}


def error_of(protocol: str, body: Json) -> Json:
    """The error that a body or an event's data tells in its protocol's own way, or None."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if protocol == "responses" and body.get("type") == "response.failed":
        error = (body.get("response") or {}).get("error")
    elif protocol == "responses" and body.get("type") == "error" and error is None:
        error = body
    texts = ("message", "type") if protocol == "messages" else ("message",)
    right = isinstance(error, dict) and all(isinstance(error.get(name), str) for name in texts)
    if protocol == "messages":
        right = right and body.get("type") == "error"
    return error if right else None


def error_event(seen: Capture) -> Json:
    """The error that a stream tells, or None."""
    for event in seen.stream.events:
        if seen.protocol == "chat" or event.name in ERROR_EVENTS[seen.protocol]:
            error = error_of(seen.protocol, event.data)
            if error is not None:
                return error
    return None


def _error(seen: Capture, wanted: Json) -> Problem:
    return _failure(seen, wanted or {}, broken_will_do=False)


def _stream_error(seen: Capture, wanted: Json) -> Problem:
    return _failure(seen, wanted or {}, broken_will_do=True)


def _failure(seen: Capture, wanted: dict[str, Json], *, broken_will_do: bool) -> Problem:
    refused = seen.status is not None and seen.status >= 400
    error = error_of(seen.protocol, seen.json) if refused else error_event(seen)
    if error is None and not (broken_will_do and seen.broken and not refused):
        return f"no error is told: status {seen.status}, {shown(seen.text[-300:])}"
    if "status" in wanted and seen.status not in wanted["status"]:
        return f"status {seen.status}"
    if wanted.get("message_contains", "") not in _message(error):
        return f"is {shown(error)}"
    if wanted.get("forbid_stop") and seen.digest.stop in STOPS[seen.protocol]:
        return f"the reply also says that it ended with {seen.digest.stop}"
    return None


def _message(error: Json) -> str:
    return "" if error is None else str(error["message"])


def _rejected(seen: Capture, wanted: Json) -> Problem:
    if seen.status is None or not 400 <= seen.status < 500:
        return f"status {seen.status}"
    return None if error_of(seen.protocol, seen.json) else f"no error body: {shown(seen.text)}"


def _upstream_cancelled(seen: Capture, wanted: Json) -> Problem:
    if seen.cancelled_ms is None:
        return "the connection to the backend was not closed early"
    return None if seen.cancelled_ms <= wanted else f"only after {seen.cancelled_ms:.0f} ms"


# ---- requests


def _blocks(seen: Capture) -> Iterator[dict[str, Json]]:
    for message in seen.json["messages"]:
        if isinstance(message["content"], list):
            yield from message["content"]


def _no_empty_text(seen: Capture, wanted: Json) -> Problem:
    empty = [block for block in _blocks(seen) if block["type"] == "text" and not block["text"].strip()]
    return f"has {shown(empty)}" if empty else None


def _roles_valid(seen: Capture, wanted: Json) -> Problem:
    roles = [message["role"] for message in seen.json["messages"]]
    return None if set(roles) <= set(wanted) else f"are {roles}"


def _pairs(seen: Capture, wanted: Json) -> Problem:
    inputs = {block["id"]: block["input"] for block in _blocks(seen) if block["type"] == "tool_use"}
    results = {
        _plain(block.get("content")): inputs.get(block["tool_use_id"])
        for block in _blocks(seen)
        if block["type"] == "tool_result"
    }
    return _told({text: results.get(text) for text in wanted}, wanted)


def _plain(content: Json) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _upstream_calls_answered(seen: Capture, wanted: Json) -> Problem:
    if seen.other is None:
        return "the backend was not asked"
    ids = {
        kind: sorted(item["call_id"] for item in seen.other.json["input"] if item.get("type") == kind)
        for kind in ("function_call", "function_call_output")
    }
    return None if ids["function_call"] == ids["function_call_output"] else f"are {ids}"


def _before(seen: Capture, wanted: Json) -> Problem:
    places = []
    for path in wanted:
        values = seen.values(path)
        if not values:
            return f"{path} is not there"
        places.append(_place(seen.json, values[0]))
    return None if places[0] < places[1] else f"stand at {places}"


def _place(body: Json, wanted: Json) -> int:
    """Where a value stands when the body is read from its start: the number of values before it."""
    for place, value in enumerate(_walk(body)):
        if value is wanted:
            return place
    raise LookupError("the value is not in the body")


def _walk(value: Json) -> Iterator[Json]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _walk(child)


def _well_formed_unicode(seen: Capture, wanted: Json) -> Problem:
    """Half a surrogate pair, whether escaped or as bytes that are no UTF-8, can't be encoded again."""
    try:
        json.dumps(seen.json, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"half a character: {error.object[: error.end][-60:]!a}"
    return None


ON_WHOLE: dict[str, OnWhole] = {
    "concat_text": _concat_text,
    "concat_reasoning": _concat_reasoning,
    "tool_calls": _tool_calls,
    "stop": _stop,
    "usage": _usage,
    "valid_stream": _valid_stream,
    "event_order": _event_order,
    "joined_deltas": _joined_deltas,
    "no_empty_choices": _no_empty_choices,
    "all_data_json": _all_data_json,
    "error": _error,
    "stream_error": _stream_error,
    "rejected": _rejected,
    "upstream_cancelled": _upstream_cancelled,
    "no_empty_text": _no_empty_text,
    "roles_valid": _roles_valid,
    "pairs": _pairs,
    "upstream_calls_answered": _upstream_calls_answered,
    "before": _before,
    "well_formed_unicode": _well_formed_unicode,
}
