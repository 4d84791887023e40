"""What a limiter is asked, and what it says (operations.md 9).

A request reserves before it is sent and is settled once, whatever becomes of it. Nobody but the admission does either.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from proxy.canonical.errors import Reason
from proxy.settings.tenants import Tenant


class Demand(NamedTuple):
    """What a request will use, as far as can be told before: tokens, micro-dollars, and whether it is a stream.
    `lasts`: seconds after which it can't be open any more."""

    tokens: int
    cost: int
    stream: bool
    lasts: float


class Window(NamedTuple):
    """How a limit stands, for a client to read. `reset`: seconds until it is whole again."""

    unit: Literal["requests", "tokens"]
    limit: int
    remaining: int
    reset: float


@dataclass(slots=True)
class Lease:
    """What one request holds until it is settled: `tokens` and `cost` as they were reserved; `at`: Unix seconds."""

    id: str
    tenant: Tenant
    tokens: int
    cost: int
    stream: bool
    at: float
    windows: tuple[Window, ...] = ()
    settled: bool = False


class Refused(NamedTuple):
    """`retry_after`: in so many seconds there is room; None: not before the day or the period is over."""

    reason: Reason
    retry_after: float | None
    windows: tuple[Window, ...] = ()


class Standing(NamedTuple):
    """How a limit stands, for the operator. `dimension` is rpm, rpd, tpm, tpd, concurrency, streams or budget;
    budgets are in micro-dollars. `reset`: seconds until it is whole again, 0 for what is only open now."""

    dimension: str
    limit: int
    used: int
    reset: float


Dimension = Literal["rpd", "tpd", "budget"]
MOST_SPENT = 2**53  # what every reader of JSON takes


@dataclass(frozen=True, slots=True)
class Spent:
    """What has been used of a day's limit or of a budget, requests, tokens or micro-dollars, up to `MOST_SPENT`. `end`:
    Unix seconds at which the window is over."""

    used: int
    end: float


class Limiter(Protocol):
    """In this process (`memory.py`) or over all replicas (`shared.py`). `ready`: requests can be admitted."""

    @property
    def ready(self) -> bool: ...

    @property
    def reserved_tokens(self) -> int:
        """Of this process's open leases."""

    async def reserve(self, tenant: Tenant, demand: Demand) -> Lease | Refused:
        """All or nothing: what refuses takes nothing."""

    def settle(self, lease: Lease, tokens: int, cost: int) -> None:
        """Give back what was not used, or take what was used beyond. It does not wait; a second call does nothing."""

    async def standings(self, tenant: Tenant) -> list[Standing]:
        """How all the tenant's limits stand now."""

    async def close(self) -> None:
        """Wait for what has not been settled in the store yet, and let go of it."""
