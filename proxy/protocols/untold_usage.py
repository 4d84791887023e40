"""The usage of a backend that told none: an estimate, never zeros that look real (mapping.md 10.2, 16.2)."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from proxy.canonical.parts import Call, HostedCall, Opaque, Reasoning, Refusal, ReplyPart, Text
from proxy.canonical.reply import ReplyContext
from proxy.canonical.usage import Usage

_BYTES = 3.6  # of text in a token


def estimated(context: ReplyContext, said: int = 0) -> Usage:
    """What the proxy counts of the prompt, and of `said` bytes."""
    return Usage(input_fresh=context.estimate_prompt(), output=tokens_of(said), estimated=True)


def believed(usage: Usage | None, context: ReplyContext, said: int = 0) -> Usage:
    """What was told, with the proxy's own count where there is none: servers that leave out the event which tells the
    prompt tell a prompt of no tokens."""
    if usage is None:
        return estimated(context, said)
    return usage if usage.prompt else replace(usage, input_fresh=context.estimate_prompt(), estimated=True)


def tokens_of(said: int) -> int:
    """Tokens of so many bytes, rounded up."""
    return math.ceil(said / _BYTES)


def bytes_of(text: str) -> int:
    """The size of a text by which its tokens are guessed."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def said_in(parts: Iterable[ReplyPart]) -> int:
    """The bytes that a whole reply says."""
    return sum(map(_size, parts))


def _size(part: ReplyPart) -> int:
    match part:
        case Text() | Refusal() | Reasoning():
            return bytes_of(part.text)
        case Call():
            return bytes_of(part.arguments)
        case HostedCall() | Opaque():
            return 0
        case _:
            assert_never(part)
