"""What tenants have used since the process began: plain sums, which cost a request next to nothing, and become metrics
when somebody asks for them (operations.md 4.2)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.canonical.errors import Reason
from proxy.canonical.usage import Usage

# What `dragoman_auth_total` says of a request's key.
_AUTH = {
    None: "ok",
    Reason.AUTH_MISSING: "missing",
    Reason.AUTH_UNKNOWN: "unknown",
    Reason.AUTH_EXPIRED: "expired",
    Reason.AUTH_DISABLED: "disabled",
    Reason.IP_DENIED: "ip_denied",
}


@dataclass(slots=True)
class TenantUse:
    """Sums over all requests of one tenant; `cost` is in micro-dollars; `input` leaves out what caches gave or took,
    `output` leaves out reasoning."""

    outcomes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    limited: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int = 0

    def add(self, outcome: str, usage: Usage | None, micro_usd: int | None) -> None:
        """One more request. `usage`: None where nothing was used, or nobody asked."""
        self.outcomes[outcome] += 1
        if micro_usd is not None:
            self.cost += micro_usd
        if usage is not None:
            self.input += usage.input_fresh
            self.output += max(0, usage.output - usage.reasoning)
            self.cache_read += usage.cache_read
            self.cache_write += usage.cache_write
            self.reasoning += usage.reasoning

    def tokens(self) -> dict[str, int]:
        """By type."""
        return {
            "input": self.input,
            "output": self.output,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "reasoning": self.reasoning,
        }

    def told(self) -> dict[str, object]:
        """For the operator."""
        return {
            "requests": sum(self.outcomes.values()),
            "outcomes": dict(self.outcomes),
            "limited": dict(self.limited),
            "tokens": self.tokens(),
            "cost_usd": self.cost / 1e6,
        }


class TenantUses(Collector):
    """Those of all tenants, by name; and how keys were found."""

    def __init__(self) -> None:
        self._uses: dict[str, TenantUse] = {}
        self._auth = dict.fromkeys(_AUTH, 0)
        self.labelled = True  # whether tenants are named in metrics

    def of(self, tenant: str) -> TenantUse:
        """A tenant's sums."""
        use = self._uses.get(tenant)
        if use is None:
            use = self._uses[tenant] = TenantUse()
        return use

    def told(self, tenant: str) -> dict[str, object]:
        """A tenant's sums, for the operator."""
        return self._uses.get(tenant, TenantUse()).told()

    def count_auth(self, failure: Reason | None) -> None:
        """Count one request by what was found of its key; None: it is good."""
        self._auth[failure] += 1

    def forget(self, gone: Iterable[str]) -> None:
        """Show no longer what the configuration no longer has."""
        for tenant in gone:
            self._uses.pop(tenant, None)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """As Prometheus's client wants it."""
        auth = CounterMetricFamily("dragoman_auth", "Requests, by what was found of their key.", labels=["result"])
        for failure, count in self._auth.items():
            auth.add_metric([_AUTH[failure]], count)
        yield auth
        if not self.labelled:
            return
        requests = CounterMetricFamily(
            "dragoman_tenant_requests", "Finished requests, by tenant.", labels=["tenant", "outcome"]
        )
        limited = CounterMetricFamily(
            "dragoman_limit_rejections", "Requests that a limit refused.", labels=["tenant", "dimension"]
        )
        tokens = CounterMetricFamily(
            "dragoman_tenant_tokens",
            "Tokens that were used. input leaves out what caches gave or took, output leaves out reasoning.",
            labels=["tenant", "type"],
        )
        cost = CounterMetricFamily("dragoman_tenant_cost_usd", "What requests cost.", labels=["tenant"])
        for name, use in tuple(self._uses.items()):  # it is asked in a thread, while requests are counted
            for outcome, count in tuple(use.outcomes.items()):
                requests.add_metric([name, outcome], count)
            for dimension, count in tuple(use.limited.items()):
                limited.add_metric([name, dimension], count)
            for kind, count in use.tokens().items():
                tokens.add_metric([name, kind], count)
            cost.add_metric([name], use.cost / 1e6)
        yield from (requests, limited, tokens, cost)
