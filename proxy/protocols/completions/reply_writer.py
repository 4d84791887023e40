"""Write a whole answer for a client of the legacy text completions: its texts only (mapping.md 16.3).

Thinking, refusals and calls have no place in this protocol; how texts are joined is what a Chat client sees.
"""

from collections.abc import Sequence

from proxy.canonical import jsontext
from proxy.canonical.parts import Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.stop import Stop
from proxy.protocols.fields import Wire
from proxy.protocols.openai_completions import PARAGRAPH, Paragraphs, finish_reason, reply_model, write_usage
from proxy.protocols.untold_usage import believed, said_in


def write_common(
    backend_id: str, created: int | None, model: str, fingerprint: str | None, context: ReplyContext
) -> Wire:
    """What an answer, and each chunk of a stream, says of itself."""
    wire: Wire = {
        "id": backend_id or context.request_id,
        "object": "text_completion",
        "created": created or context.now,
        "model": reply_model(model, context),
    }
    if fingerprint is not None:
        wire["system_fingerprint"] = fingerprint
    return wire


def write_reason(stop: Stop) -> str:
    """`finish_reason`; no tools can be offered here, so a call is an end like any other."""
    return "stop" if stop.kind == "tool" else finish_reason(stop)


def write_reply(reply: Reply, context: ReplyContext) -> bytes:
    """The body of the answer."""
    return write_choices([reply], context)


def write_choices(replies: Sequence[Reply], context: ReplyContext) -> bytes:
    """The body of an answer with a choice for each of the replies; all that is not a choice is the first one's."""
    reply = replies[0]
    wire = write_common(reply.id, reply.created, reply.model, reply.fingerprint, context)
    wire["choices"] = [_write_choice(index, choice) for index, choice in enumerate(replies)]
    usage = reply.usage
    if len(replies) == 1:
        usage = believed(usage, context, said_in(reply.parts))
    if usage is not None:
        wire["usage"] = write_usage(usage)
    return jsontext.dumps(wire)


def _write_choice(index: int, reply: Reply) -> Wire:
    text = ""
    paragraphs = Paragraphs()
    for k, part in enumerate(reply.parts):
        paragraphs.open(part)
        if isinstance(part, Text) and part.text:
            text += (PARAGRAPH if paragraphs.begin(k) else "") + part.text
    return {"text": text, "index": index, "logprobs": None, "finish_reason": write_reason(reply.stop)}
