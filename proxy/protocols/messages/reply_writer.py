"""Write a whole canonical reply as a Messages reply.

Every key that the vendor's newest servers send is there, null where nothing is known; empty text makes no block,
since the client sends back what it got and the vendor refuses empty text.
"""

import hashlib
import re
from typing import assert_never

from proxy.canonical.jsontext import dumps
from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import Reply, ReplyContext
from proxy.protocols.fields import Wire
from proxy.protocols.messages.arguments import FREE_TEXT, arguments_object
from proxy.protocols.messages.citations import write_citation
from proxy.protocols.messages.stops import write_stop
from proxy.protocols.messages.tables import is_native
from proxy.protocols.messages.usage import write_usage
from proxy.protocols.untold_usage import believed, said_in


def write_reply(reply: Reply, context: ReplyContext) -> bytes:
    """The JSON body of the reply."""
    blocks = [block for part in reply.parts if (block := _block(part, context)) is not None]
    calls = any(type(part) is Call for part in reply.parts)
    refused = any(type(part) is Refusal for part in reply.parts)
    message = message_object(reply.id, reply.model, context)
    message["content"] = blocks
    message |= write_stop(reply.stop, calls, refused)
    usage = believed(reply.usage, context, said_in(reply.parts))
    message["usage"] = write_usage(usage, reply.service_tier)
    return dumps(message)


def message_object(backend_id: str, model: str, context: ReplyContext) -> Wire:
    """A message before anything is known of its content, as `message_start` has it."""
    return {
        "id": context.reply_id or message_id(backend_id, context.request_id),
        "type": "message",
        "role": "assistant",
        "model": context.model_override or model or context.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "diagnostics": None,
    }


_ID_LIMIT = 60
_FOREIGN = re.compile(r"[^A-Za-z0-9_]")


def message_id(backend_id: str, request_id: str) -> str:
    """The id that the client sees: the backend's, else the request's, in Messages' form (mapping.md 3.4)."""
    source = backend_id or request_id
    plain = _FOREIGN.sub("", source)
    if not plain or len(plain) > _ID_LIMIT:
        plain = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()[:48]
    return plain if plain.startswith("msg_") else f"msg_{plain}"


def _block(part: ReplyPart, context: ReplyContext) -> Wire | None:
    match part:
        case Text():
            return text_block(part) if part.text else None
        case Refusal():
            return {"type": "text", "text": part.text, "citations": None} if part.text else None
        case Call():
            free = part.kind == "custom"
            return {
                **call_block(part),
                "input": {FREE_TEXT: part.arguments} if free else arguments_object(part.arguments)[0],
            }
        case Reasoning():
            return _thinking_block(part, context)
        case HostedCall() | Opaque():
            return part.native if is_native(part.native) else None
        case _:
            assert_never(part)


def text_block(part: Text) -> Wire:
    """A text block with its citations."""
    citations = [entry for citation in part.citations or () if (entry := write_citation(citation, part.text))]
    return {"type": "text", "text": part.text, "citations": citations or None}


def call_block(part: Call) -> Wire:
    """A `tool_use` block as a stream starts it, with the arguments still to come."""
    block: Wire = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    if part.kind == "typed" and part.namespace is not None:
        block["toolset_name"] = part.namespace
    if part.extra is not None and "caller" in part.extra:
        block["caller"] = part.extra["caller"]
    return block


def native_thinking(part: Reasoning) -> Wire | None:
    """The vendor's own signed block that the part came as, or None."""
    native = part.native
    if native is not None and native.get("type") in ("thinking", "redacted_thinking"):
        return native
    return None


def _thinking_block(part: Reasoning, context: ReplyContext) -> Wire | None:
    native = native_thinking(part)
    shown = "" if context.show_reasoning is False else part.text
    if native is not None:
        hidden = native["type"] == "thinking" and shown != part.text
        return {**native, "thinking": shown} if hidden else native
    if not shown or part.redacted:
        return None
    return {"type": "thinking", "thinking": shown, "signature": ""}
