"""Three sets of books on the same requests, and what must agree between them.

The backend's ledger says what it told, the access records what the proxy took from that, and the store what tenants are
charged. A fourth, what clients got, keeps a proxy honest that would call everything an estimate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.limits.answers import Used
from tests.limits.backend import Entry
from tests.limits.clients import Got

Record = dict[str, Any]

# Why a request was refused before it was admitted.
_LIMITS = frozenset({"rpm", "rpd", "tpm", "tpd", "concurrency", "budget", "overloaded"})
# What a backend does that has not taken the request.
COST_NOTHING = frozenset({"400", "429", "500", "reset"})
# Micro-dollars for ten tokens, as `replicas.PRICES` has them.
_FRESH, _CACHED, _OUTPUT = 30, 3, 150


@dataclass
class Charged:
    """What the records of one tenant come to. `left`: clients that were gone before they were admitted."""

    admitted: int = 0
    left: int = 0
    tokens: int = 0
    cost: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        usage, refused = dict(self.sources), dict(self.refused)
        return (
            f"{self.admitted} admitted, {self.tokens} tokens, {self.cost / 1e6} USD; usage {usage}; refused {refused}"
        )

    def add(self, record: Record) -> None:
        source = record["usage_source"]
        if record["reason"] in _LIMITS and record["status"] in (402, 429, 503, 529) and source == "none":
            self.refused[record["reason"]] += 1
            return
        if record["outcome"] == "cancelled" and source == "none" and not record["attempts"]:
            self.left += 1
            return
        self.admitted += 1
        self.sources[source] += 1
        if "tokens" in record:
            self.tokens += record["tokens"]["input"] + record["tokens"]["output"]
            self.cost += round(record["cost_usd"] * 1e6)


def charged(records: Iterable[Record]) -> dict[str, Charged]:
    """By tenant, of requests that were read far enough to be asked for."""
    found: dict[str, Charged] = {}
    for record in records:
        if "usage_source" in record:
            found.setdefault(record["tenant"], Charged()).add(record)
    return found


def contradictions(records: Sequence[Record], ledger: Mapping[str, Entry], got: Iterable[Got]) -> list[str]:
    """Where the backend, the records and the clients do not say the same."""
    by_id = {record["request_id"]: record for record in records}
    found = [] if len(by_id) == len(records) else ["two records of one request"]
    for request_id, entry in ledger.items():
        record = by_id.get(request_id)
        if record is None:
            found.append(f"no record of {entry}")
        elif entry.ask.conduct not in COST_NOTHING and record["usage_source"] == "none":
            found.append(f"{record} was free, though the backend had it: {entry}")
    for record in records:
        entry = ledger.get(record["request_id"])
        if record.get("usage_source") == "reported" and (entry is None or _used(record) not in entry.told):
            found.append(f"{record} reports what nobody told: {entry}")
        if "tokens" in record and round(record["cost_usd"] * 1e6) != _cost(_used(record)):
            found.append(f"{record} does not cost {_cost(_used(record))}")
    for answer in got:
        if answer.whole:
            entry, record = ledger[answer.request_id], by_id[answer.request_id]
            if entry.told and (record["usage_source"], _used(record)) != ("reported", entry.told[-1]):
                found.append(f"{record} was answered whole, and the backend told {entry.told[-1]}")
    return found


def _used(record: Record) -> Used:
    tokens = record["tokens"]
    return Used(tokens["input"], tokens["cache_read"], tokens["output"])


def _cost(used: Used) -> int:
    """In micro-dollars, rounded up."""
    return -(-((used.prompt - used.cached) * _FRESH + used.cached * _CACHED + used.output * _OUTPUT) // 10)
