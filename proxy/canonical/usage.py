"""Token counts, each token counted once (mapping.md 10.2)."""

from dataclasses import dataclass, field

MOST_TOKENS = 10**9  # that one answer can be about


@dataclass(slots=True)
class Usage:
    """All counts are tokens and never negative.

    The prompt is `input_fresh + cache_read + cache_write`; `cache_write_long` (1 h, 12 h) is the
    part of `cache_write` with the long lifetime. `output` includes `reasoning`. `hosted` counts
    hosted tool calls by kind. `estimated` marks numbers that the proxy guessed. What is billed beside, for who
    keeps the accounts and never shown: `beside`, what a compaction, an advisor or a declined attempt used, which the
    other counts leave out; `cost`, what OpenRouter says that the answer cost, in its credits.
    """

    input_fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    output: int = 0
    reasoning: int = 0
    hosted: dict[str, int] = field(default_factory=dict)
    estimated: bool = False
    beside: list["Beside"] = field(default_factory=list)
    cost: float | None = None

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, cached ones included, as Chat and Responses count."""
        return self.input_fresh + self.cache_read + self.cache_write

    @property
    def billed(self) -> int:
        """All tokens, those beside included."""
        return self.prompt + self.output + sum(each.usage.billed for each in self.beside)

    @property
    def plausible(self) -> bool:
        """Whether a backend may have meant it."""
        return self.billed <= MOST_TOKENS and all(calls <= MOST_TOKENS for calls in self.hosted.values())


@dataclass(slots=True)
class Beside:
    """What was used beside an answer's own tokens. `model`: None is the one that answered."""

    model: str | None
    usage: Usage


def total(first: Usage, second: Usage) -> Usage:
    """What two answers used together."""
    hosted = {kind: first.hosted.get(kind, 0) + second.hosted.get(kind, 0) for kind in first.hosted | second.hosted}
    return Usage(
        input_fresh=first.input_fresh + second.input_fresh,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
        cache_write_long=first.cache_write_long + second.cache_write_long,
        output=first.output + second.output,
        reasoning=first.reasoning + second.reasoning,
        hosted=hosted,
        estimated=first.estimated or second.estimated,
        beside=first.beside + second.beside,
        cost=None if first.cost is None and second.cost is None else (first.cost or 0) + (second.cost or 0),
    )


def from_inclusive(
    prompt: int, read: int, write: int, output: int, reasoning: int, *, may_exclude: bool = False
) -> Usage:
    """Usage of a protocol whose prompt count includes cache reads and writes.

    `may_exclude`: a gateway in front of Claude may have counted as Claude does. It has where the cached tokens are more
    than the prompt, whose count is then the fresh part.
    """
    fresh = prompt if may_exclude and prompt < read + write else prompt - read - write
    return Usage(
        input_fresh=max(0, fresh),
        cache_read=max(0, read),
        cache_write=max(0, write),
        output=max(0, output),
        reasoning=max(0, reasoning),
    )
