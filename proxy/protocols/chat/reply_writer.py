"""Write a whole answer for a Chat client (mapping.md 14.3).

What a reply says of itself (id, model, finish reason) and how texts are joined is shared with the stream writer: a
stream, put together, is this answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from proxy.canonical import jsontext
from proxy.canonical.parts import Call, Citation, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.protocols.fields import Wire, is_object
from proxy.protocols.openai_completions import (
    PARAGRAPH,
    Paragraphs,
    finish_reason,
    reply_model,
    service_tier,
    write_usage,
)
from proxy.protocols.untold_usage import believed, said_in

PREFIX = "chatcmpl"
# What a client gets thinking under, by the option of this name (mapping.md 8.5).
REASONING_NAMES: dict[str, tuple[str, ...]] = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}


def reply_id(backend_id: str, context: ReplyContext) -> str:
    """The backend's id as Chat clients expect it (mapping.md 3.4); the request's where the backend gave none."""
    known = context.reply_id or backend_id or context.request_id
    return known if known.startswith(PREFIX) else f"{PREFIX}-{known}"


def reply_reason(stop: Stop, context: ReplyContext) -> str:
    """`finish_reason`; clients of the deprecated functions know only their own word for a call."""
    if stop.kind == "tool" and context.legacy_functions:
        return "function_call"
    return finish_reason(stop)


def stop_fields(stop: Stop, context: ReplyContext) -> Wire:
    """Why a reply ended, with the backend's own word where the operator wants it shown (mapping.md 12.2)."""
    fields: Wire = {"finish_reason": reply_reason(stop, context)}
    if context.native_finish_reason:
        fields["native_finish_reason"] = stop.native
    return fields


def write_annotation(citation: Citation, start: int, end: int) -> Wire:
    """A citation of characters `start` to `end` of the whole content."""
    url = citation.url or ""
    return {
        "type": "url_citation",
        "url_citation": {"start_index": start, "end_index": end, "title": citation.title or url, "url": url},
    }


def detail_entries(native: Wire | None) -> list[Wire]:
    """What a client is to send back of a reasoning part, in `reasoning_details` (mapping.md 8.6)."""
    if native is None or native.get("type") != "reasoning_details":
        return []
    entries = native.get("entries")
    return [entry for entry in entries if is_object(entry)] if isinstance(entries, list) else []


def write_details(entries: list[Wire]) -> list[Wire]:
    """All entries at once, each with an index of its own: clients join lists by it."""
    return [{**entry, "index": index} for index, entry in enumerate(entries)]


def write_reply(reply: Reply, context: ReplyContext) -> bytes:
    """The body of the answer."""
    return write_choices([reply], context)


def write_choices(replies: Sequence[Reply], context: ReplyContext) -> bytes:
    """The body of an answer with a choice for each of the replies; all that is not a choice is the first one's."""
    reply = replies[0]
    wire: Wire = {
        "id": reply_id(reply.id, context),
        "object": "chat.completion",
        "created": reply.created or context.now,
        "model": reply_model(reply.model, context),
        "choices": [_write_choice(index, choice, context) for index, choice in enumerate(replies)],
    }
    usage = reply.usage
    if len(replies) == 1:
        usage = believed(usage, context, said_in(reply.parts))
    if usage is not None:
        wire["usage"] = write_usage(usage)
    tier = service_tier(reply.service_tier)
    if tier is not None:
        wire["service_tier"] = tier
    if reply.fingerprint is not None:
        wire["system_fingerprint"] = reply.fingerprint
    return jsontext.dumps(wire)


def _write_choice(index: int, reply: Reply, context: ReplyContext) -> Wire:
    message = _Message(context)
    for k, part in enumerate(reply.parts):
        message.take(k, part)
    return {
        "index": index,
        "message": message.write(reply.stop),
        "logprobs": {"content": message.logprobs, "refusal": None} if message.logprobs else None,
        **stop_fields(reply.stop, context),
    }


@dataclass(slots=True)
class _Message:
    """The message of one choice, while its parts come in."""

    context: ReplyContext
    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Wire] = field(default_factory=list)
    annotations: list[Wire] = field(default_factory=list)
    details: list[Wire] = field(default_factory=list)
    logprobs: list[object] = field(default_factory=list)
    paragraphs: Paragraphs = field(default_factory=Paragraphs)

    def take(self, k: int, part: ReplyPart) -> None:
        """Add part `k`."""
        self.paragraphs.open(part)
        match part:
            case Text():
                self._take_text(k, part)
            case Reasoning():
                if part.text and self.context.show_reasoning is not False:
                    self.reasoning += (PARAGRAPH if self.reasoning else "") + part.text
                self.details += detail_entries(part.native)
            case Refusal():
                self.refusal += part.text
            case Call():
                self.calls.append(_write_call(part))
            case HostedCall() | Opaque():
                pass  # a tool that the backend ran must not look like one that the client is to run
            case _:
                assert_never(part)

    def _take_text(self, k: int, part: Text) -> None:
        if not part.text:
            return
        if self.paragraphs.begin(k):
            self.content += PARAGRAPH
        first = len(self.content)
        self.content += part.text
        self.logprobs += part.logprobs or ()
        for citation in part.citations or ():
            if citation.kind == "url":
                end = len(part.text) if citation.end is None else citation.end
                self.annotations.append(write_annotation(citation, first + (citation.start or 0), first + end))

    def write(self, stop: Stop) -> Wire:
        """The message. `content` is null only beside calls or a refusal."""
        refusal = self.refusal or stop.explanation or None
        content: str | None = self.content
        if not content and (self.calls or refusal):
            content = None
        message: Wire = {
            "role": "assistant",
            "content": content,
            "refusal": refusal,
            "annotations": self.annotations,
        }
        if self.reasoning:
            message |= dict.fromkeys(REASONING_NAMES[self.context.reasoning_field], self.reasoning)
        if self.details:
            message["reasoning_details"] = write_details(self.details)
        if self.calls and self.context.legacy_functions:
            message["function_call"] = self.calls[0].get("function")
        elif self.calls:
            message["tool_calls"] = self.calls
        return message


def _write_call(call: Call) -> Wire:
    if call.kind == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    arguments = call.arguments or "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
