"""What an answer costs, in whole micro-dollars (operations.md 9.3).

Sums are exact and rounded up once at the end, so that what costs something never counts as nothing.
"""

from collections.abc import Sequence
from fnmatch import translate
from re import compile as compile_pattern

from proxy.canonical.usage import Usage
from proxy.settings.tenants import Price

PER = 1_000_000  # tokens that a price is for
MOST_KEPT = 4096  # names of models, which callers choose


class PriceTable:
    """The first price whose glob matches holds: tried on the clients' name of a model, then on the backend's."""

    __slots__ = ("_kept", "_rows")

    def __init__(self, prices: Sequence[Price]) -> None:
        self._rows = [(compile_pattern(translate(price.match)), price) for price in prices]
        self._kept: dict[tuple[str, str | None], Price | None] = {}

    def find(self, alias: str, upstream_model: str | None) -> Price | None:
        """None: nobody said what this model costs."""
        if not self._rows:
            return None
        names = (alias, upstream_model)
        if names in self._kept:
            return self._kept[names]
        found = self._match(alias) or (None if upstream_model is None else self._match(upstream_model))
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[names] = found
        return found

    def _match(self, name: str) -> Price | None:
        return next((price for pattern, price in self._rows if pattern.match(name)), None)


def cost(price: Price, usage: Usage) -> int:
    """Of an answer that used so much. Reasoning is a part of the output, long-lived cache writes one of the writes."""
    long_writes = min(usage.cache_write_long, usage.cache_write)
    reasoning = min(usage.reasoning, usage.output)
    tokens = (
        usage.input_fresh * price.input
        + usage.cache_read * price.cache_read
        + (usage.cache_write - long_writes) * price.cache_write
        + long_writes * price.cache_write_long
        + (usage.output - reasoning) * price.output
        + reasoning * price.reasoning
    )
    calls = sum(price.hosted.get(kind, 0) * count for kind, count in usage.hosted.items())
    return _rounded_up(tokens) + calls


def dearest(one: Price, other: Price) -> Price:
    """What neither of both exceeds."""
    return Price(
        one.match,
        max(one.input, other.input),
        max(one.output, other.output),
        max(one.cache_read, other.cache_read),
        max(one.cache_write, other.cache_write),
        max(one.cache_write_long, other.cache_write_long),
        max(one.reasoning, other.reasoning),
        {
            kind: max(table.get(kind, 0) for table in (one.hosted, other.hosted))
            for kind in {*one.hosted, *other.hosted}
        },
    )


def estimated_cost(price: Price, input_tokens: int, output_tokens: int) -> int:
    """Of a request before it is sent. Nothing is taken to be cached; what is written to a cache may be dearer."""
    return _rounded_up(input_tokens * price.input + output_tokens * max(price.output, price.reasoning))


def _rounded_up(tokens_by_price: int) -> int:
    return -(-tokens_by_price // PER)
