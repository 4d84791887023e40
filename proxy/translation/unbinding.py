"""Thinking that its model refuses, because what stood before it has changed (mapping.md 8.7, prefix-bound models).

Anthropic's own API is told beforehand to drop such blocks; other hosts are asked once more without any thinking.
"""

import re

from proxy.canonical.errors import Error
from proxy.canonical.jsontext import dumps, loads_exact
from proxy.canonical.loss import LossReport, Rule
from proxy.protocols.fields import Wire, as_object, is_object
from proxy.translation.codecs import BackendProtocol

# What the vendor says of a bound block (messages.md 10.5).
_BOUND = re.compile(r"bound to a different conversation|prefix_mismatch_behavior")
_THINKING = ("thinking", "redacted_thinking")


def unbound(protocol: BackendProtocol, body: bytes, error: Error, losses: LossReport) -> bytes | None:
    """The request without its thinking blocks, where one of them is what was refused; else None. Records the loss."""
    if protocol != "messages" or error.http != 400 or not _BOUND.search(error.message):
        return None
    if losses.strict or Rule.FOREIGN_REASONING in losses.refused:
        return None
    wire = as_object(loads_exact(body), ())
    messages = wire.get("messages")
    if not isinstance(messages, list):
        return None
    for at, message in enumerate(messages):
        if is_object(message) and message.get("role") == "assistant":
            _without_thinking(message, at, losses)
    wire["messages"] = [message for message in messages if not (is_object(message) and message.get("content") == [])]
    return dumps(wire)


def _without_thinking(message: Wire, at: int, losses: LossReport) -> None:
    content = message.get("content")
    if not isinstance(content, list):
        return
    kept: list[object] = []
    for index, block in enumerate(content):
        if is_object(block) and block.get("type") in _THINKING:
            losses.drop(Rule.FOREIGN_REASONING, ("messages", at, "content", index))
        else:
            kept.append(block)
    message["content"] = kept
