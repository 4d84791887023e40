"""Why a reply ended (mapping.md 12.1)."""

from dataclasses import dataclass
from typing import Literal

StopKind = Literal[
    "end",
    "length",
    "tool",
    "stop_sequence",
    "filter",  # the backend's filter cut the answer
    "refusal",  # the model, or Anthropic's classifier (then `classifier` is set), declined
    "pause",
    "context",  # the context window is full
    "compaction",
    "max_messages",
    "steered",
]


@dataclass(slots=True)
class Stop:
    """`sequence` is the stop string that matched, when known; `native` the backend's own word, which is `unknown` where
    the kind is only a guess.

    `category` and `explanation` are those of Messages' `stop_details`.
    """

    kind: StopKind
    sequence: str | None = None
    classifier: bool = False
    category: str | None = None
    explanation: str | None = None
    native: str | None = None
    unknown: bool = False
