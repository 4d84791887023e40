"""Write a whole reply as a response object (mapping.md 14.3): the items are those that the stream would have made."""

from typing import assert_never

from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.protocols.fields import Wire
from proxy.protocols.responses.output_items import Output
from proxy.protocols.responses.response_object import head_of, response_object, status_of
from proxy.protocols.untold_usage import believed


def write_reply(reply: Reply, context: ReplyContext) -> bytes:
    """The body for the client."""
    head = head_of(context, reply.id, reply.model, reply.created)
    output = Output(head.id, keep_raw=not context.summary_requested)
    for part in reply.parts:
        _add(output, part)
    stop = reply.stop
    if stop.classifier and stop.explanation:
        _add(output, Refusal(stop.explanation))
    status, reason = status_of(stop)
    response = response_object(
        head,
        status,
        _finals(output, cut=status == "incomplete"),
        reason=reason,
        usage=believed(reply.usage, context, output.said()),
        tier=reply.service_tier,
    )
    return dumps(response)


def _finals(output: Output, *, cut: bool) -> list[object]:
    """The finished items. What cut the answer short cut its last item, unless something unseen came after it."""
    finals: list[Wire] = [item.final("completed") for item in output.items]
    if cut and output.ends_in_item:
        finals[-1] = output.items[-1].final("incomplete")
    return list(finals)


def _add(output: Output, part: ReplyPart) -> None:
    slot = output.place(part)
    if slot is None:
        return
    match part:
        case Text():
            slot.citations += part.citations or ()
            if slot.content is not None and part.logprobs:
                slot.content.logprobs += part.logprobs
            text = part.text
        case Refusal() | Reasoning():
            text = part.text
        case Call():
            text = part.arguments
        case HostedCall() | Opaque():
            text = ""
        case _:
            assert_never(part)
    if text:
        slot.pieces.append(text)
    slot.close()
