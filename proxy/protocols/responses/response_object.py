"""The response object around the items: ids, status, usage and the echo of the request (responses.md 9).

Every field of the current wire is there, null where the proxy knows nothing, since both OpenAI's clients and those of
Open Responses count on some of them.
"""

import hashlib
import re
from dataclasses import dataclass

from proxy.canonical.reply import ReplyContext
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.fields import Wire
from proxy.protocols.responses.echo import DEFAULTS, UNKNOWN
from proxy.protocols.responses.tables import STATUS_OF_STOP
from proxy.protocols.responses.usage import write_tool_usage, write_usage

# Tiers as this protocol spells them; what Messages calls `standard` and `batch` is the default (mapping.md 11.3).
TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "ultrafast"})
TIER_OF = {"fast": "priority"}
_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{48})([0-9a-f]{4})")


def response_id(backend_id: str, request_id: str) -> str:
    """The id that the client sees: a function of the backend's, or of the request's when it gave none."""
    return f"resp_{_digest(backend_id or request_id)[:48]}"


def item_id(response: str, index: int, prefix: str) -> str:
    """The id of the item at an output index. It tells which response the item belongs to: see `place_of`."""
    return f"{prefix}_{response.removeprefix('resp_')}{index:04x}"


def place_of(item: str) -> tuple[str, int] | None:
    """The response that an item of ours belongs to, and its output index; None for an id of someone else's."""
    found = _ITEM_ID.fullmatch(item)
    return None if found is None else (f"resp_{found[1]}", int(found[2], 16))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def status_of(stop: Stop) -> tuple[str, str | None]:
    """Status, and the reason of an incomplete one. A classifier that declined counts as a filter (mapping.md 12.1)."""
    if stop.kind == "refusal" and stop.classifier:
        return STATUS_OF_STOP["filter"]
    return STATUS_OF_STOP[stop.kind]


@dataclass(slots=True)
class ResponseHead:
    """What all response objects of one answer share. `created` is in Unix seconds."""

    id: str
    model: str
    created: int
    now: int
    echo: Wire


def head_of(context: ReplyContext, backend_id: str = "", model: str = "", created: int | None = None) -> ResponseHead:
    """The head of an answer; without a backend's id and model, that of one which never began."""
    return ResponseHead(
        context.reply_id or response_id(backend_id, context.request_id),
        context.model_override or model or context.model,
        created if created is not None else context.now,
        context.now,
        {**DEFAULTS, **UNKNOWN, **context.echo},
    )


def response_object(
    head: ResponseHead,
    status: str,
    output: list[object],
    *,
    reason: str | None = None,
    error: Wire | None = None,
    usage: Usage | None = None,
    tier: str | None = None,
) -> Wire:
    """The response at one moment. `tier` is in the backend's spelling; it is `auto` until the end."""
    ended = status not in ("queued", "in_progress")
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "completed_at": max(head.created, head.now) if status == "completed" else None,
        "error": error,
        "incomplete_details": {"reason": reason} if reason is not None else None,
        "model": head.model,
        "output": output,
        "service_tier": _tier(tier) if ended else "auto",
        "tool_usage": write_tool_usage(usage),
        "usage": write_usage(usage) if usage is not None else None,
        **head.echo,
    }


def queued_response(context: ReplyContext) -> Wire:
    """The response to a request that nobody has begun to answer."""
    return response_object(head_of(context), "queued", [])


def _tier(tier: str | None) -> str:
    if tier in TIERS:
        return str(tier)
    return TIER_OF.get(tier or "", "default")
