"""One whole answer (mapping.md 1.3)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from proxy.canonical.parts import Extra, ReplyPart
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage


@dataclass(slots=True)
class Reply:
    """What a backend answered. `id` is the backend's ("" when it gave none); `created` is Unix seconds
    (None: not said). `service_tier` is in the backend's spelling; `fingerprint` is Chat's.
    """

    id: str
    model: str
    parts: list[ReplyPart] = field(default_factory=list)
    stop: Stop = field(default_factory=lambda: Stop("end"))
    usage: Usage | None = None
    created: int | None = None
    service_tier: str | None = None
    fingerprint: str | None = None
    extra: Extra | None = None


def _nothing_counted() -> int:
    return 0


@dataclass(slots=True)
class ReplyContext:
    """What a writer of replies must know of the request and of the exchange.

    The parsed request is let go before the backend is asked; this little is kept. `request_id` and `now`
    (Unix seconds of the first byte from the backend) come from the server, since writers read no clock.
    `echo` is the part of the request that a Responses reply repeats. `estimate_prompt` gives the proxy's own count
    of the prompt in tokens, for a backend that did not tell, or not yet when a `message_start` leaves. `sequence` is
    the number of the next event, where a writer ends a Responses stream that was passed through. `prewarmed`: the
    backend was asked to fill its cache and to answer nothing. `limit_field`: what the client called its output limit.
    `choice`: which of several `choices` a stream is about, from 0, where each is an answer of its own; it is known
    when the stream starts.
    """

    request_id: str
    model: str
    now: int = 0
    model_override: str | None = None  # `response_model: alias`
    reply_id: str | None = None  # under which the proxy keeps the reply; None: it follows from the backend's
    native_finish_reason: bool = False  # the option of this name
    responses_done: bool = False  # likewise
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"  # likewise
    after_the_fact: bool = False  # the stream is made of a reply that came whole
    include_usage: bool = False
    legacy_functions: bool = False
    show_reasoning: bool | None = None
    summary_requested: bool = False
    echo: Extra = field(default_factory=dict)
    estimate_prompt: Callable[[], int] = _nothing_counted
    prewarmed: bool = False
    limit_field: str | None = None
    sequence: int = 0
    choice: int = 0
    choices: int = 1
    tools: frozenset[str] = frozenset()
    extra: Extra | None = None
