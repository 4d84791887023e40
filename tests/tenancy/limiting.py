"""What tests of limiters are made of."""

from dataclasses import dataclass

from proxy.settings.tenants import Budget, Tenant, TenantLimits
from proxy.tenancy.limits import Demand, Lease, Limiter, Refused

NOON = 1_796_126_400.0  # 2026-12-01 12:00 UTC, a Tuesday
TO_MIDNIGHT = 43_200.0
PATIENCE = 5.0  # seconds for an answer of a store that works: test machines are busy


@dataclass
class Clock:
    """Stands still until it is told."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


def tenant(name: str = "a", **limits: object) -> Tenant:
    return Tenant(name, limits=TenantLimits(**limits))


def with_budget(limit: int, name: str = "a", **budget: object) -> Tenant:
    return tenant(name, budget=Budget(limit, **budget))


def demand(tokens: int = 0, cost: int = 0, *, stream: bool = False, lasts: float = 600.0) -> Demand:
    return Demand(tokens, cost, stream, lasts)


async def taken(limiter: Limiter, tenant: Tenant, asked: Demand | None = None) -> Lease:
    """The lease of a request that must be admitted."""
    answer = await limiter.reserve(tenant, asked or demand())
    assert isinstance(answer, Lease), answer
    return answer


async def refused(limiter: Limiter, tenant: Tenant, asked: Demand | None = None) -> Refused:
    """Why a request that must be refused is."""
    answer = await limiter.reserve(tenant, asked or demand())
    assert isinstance(answer, Refused), answer
    return answer


async def used(limiter: Limiter, tenant: Tenant) -> dict[str, int]:
    """By dimension."""
    return {standing.dimension: standing.used for standing in await limiter.standings(tenant)}
