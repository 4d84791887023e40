"""What lives as long as the process, whatever configuration is in force: connections, limits, records, what is open."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import TYPE_CHECKING

from proxy.server.gateway import Gateway
from proxy.server.keeping import keeping_of
from proxy.server.limits_keeping import LimitsKeeping
from proxy.server.load import Load
from proxy.server.local_tokenizers import Tokenizers
from proxy.server.reasoning_cache import ReasoningCache
from proxy.server.sampling import Sampling
from proxy.settings import Settings
from proxy.settings.files import FileSecret
from proxy.settings.tenants import Tenant
from proxy.telemetry.audit import AuditLog
from proxy.telemetry.logs import AccessLog
from proxy.telemetry.losses import LossLog
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.now import Now, Standing
from proxy.telemetry.tenant_use import TenantUse
from proxy.tenancy.estimates import Estimates
from proxy.tenancy.limits import Limiter
from proxy.tenancy.limits_file import LimitsFile
from proxy.tenancy.memory import MemoryLimiter
from proxy.tenancy.shared import SharedLimiter
from proxy.upstream.pool import Pool

if TYPE_CHECKING:
    from proxy.server.exchange import Exchange
    from proxy.telemetry.span_export import SpanExport

_LAST_SPANS = 5.0  # seconds for them to leave at the end


class Runtime:
    """Made inside the loop that serves. `close()` it there. `gateway`: the configuration in force."""

    def __init__(self, settings: Settings, access: AccessLog, digest: str = "") -> None:
        """`digest`: of the configuration's text.

        Raises `UnknownDialect` and OSError for an upstream that can't be made ready, OSError for a file of limits that
        can't be had."""
        self.access = access
        self.audit = AuditLog(access)
        self.loss_log = LossLog()
        self.metrics = Metrics(Now(self._standing))
        self.metrics.tenants.labelled = settings.tenant_label
        self.tokenizers = Tokenizers()
        self.reasoning = ReasoningCache()
        limits_file = None if settings.limits_file is None else LimitsFile(settings.limits_file)
        self.limiter = _limiter(settings, self.metrics)
        self.estimates = Estimates()
        self.key_uses: dict[str, float] = {}  # by kid: Unix seconds
        self.open: set[Exchange] = set()
        self.load = Load()
        self.failed_checks = ["started"]
        self.draining = False
        self.span_export = _span_export(settings, self.metrics)
        self.keeping = keeping_of(settings)
        self.pool = Pool()
        self.clock: Callable[[], float] = time.monotonic
        self.random: Callable[[], float] = random.random
        self._secrets: set[str] = set()
        self._tenants_keys: set[str] = set()
        self.gateway = Gateway(settings, self, digest=digest)
        self._name_series(settings)
        self.sampling = Sampling(self)
        self._keeping: LimitsKeeping | None = None
        if limits_file is not None and isinstance(self.limiter, MemoryLimiter):
            self._keeping = LimitsKeeping(limits_file, self.limiter, self.audit)

    def make_ready(self, settings: Settings, digest: str) -> Gateway:
        """Another configuration to `take`. May be called in another thread. Raises as the constructor does."""
        return Gateway(settings, self, self.gateway, digest)

    def now(self) -> float:
        """Seconds, by the clock that backends' health goes by."""
        return self.clock()

    def take(self, gateway: Gateway) -> None:
        """Put it in force; what is open goes on with the one that it began with."""
        gone = (self.gateway.settings.tenants or {}).keys() - (gateway.settings.tenants or {}).keys()
        self.gateway = gateway
        for served in gateway.served.values():
            served.health.revive()
        self.metrics.tenants.forget(gone)
        self.metrics.tenants.labelled = gateway.settings.tenant_label
        self._name_series(gateway.settings)
        kids = {key.kid for tenant in (gateway.settings.tenants or {}).values() for key in tenant.keys}
        for kid in self.key_uses.keys() - kids:
            del self.key_uses[kid]

    def _name_series(self, settings: Settings) -> None:
        traffic = self.metrics.traffic
        traffic.configure((route.match for route in settings.models), settings.upstreams, _fallbacks(settings))
        tenants = settings.tenants or {}
        traffic.utilization.keep("tenant", tenants.keys() if settings.tenant_label else ())

    def _standing(self) -> Standing:
        upstreams = self.gateway.settings.upstreams.items()
        return Standing(
            [exchange.seen_open() for exchange in tuple(self.open)],
            self.draining,
            self.limiter.reserved_tokens,
            {name: key.changed for name, each in upstreams if isinstance(key := each.api_key, FileSecret)},
            {name: served.health.state for name, served in self.gateway.served.items()},
        )

    def use_of(self, tenant: Tenant) -> TenantUse:
        """Where to count what a tenant uses. What is open for one that has gone is not shown any more."""
        configured = tenant.name in (self.gateway.settings.tenants or ())
        return self.metrics.tenants.of(tenant.name) if configured else TenantUse()

    def failed(self) -> list[str]:
        """Why no requests should come; empty if they may."""
        failed = [*self.failed_checks, "draining"] if self.draining else list(self.failed_checks)
        return failed if self.limiter.ready else [*failed, "limiter"]

    def known_secrets(self, secrets: Iterable[str]) -> frozenset[str]:
        """These and all earlier ones: a backend may still quote a key that has just been replaced."""
        self._secrets.update(secrets)
        return frozenset(self._secrets)

    def known_keys(self, keys: Iterable[str]) -> frozenset[str]:
        """The same of backends' keys that belong to tenants."""
        self._tenants_keys.update(keys)
        return frozenset(self._tenants_keys)

    def scrub(self, text: str) -> str:
        """`text` without secrets: those of the configuration that is in force now, and those of all its tenants."""
        return self.gateway.scrub(self.gateway.scrub_tenants(text))

    async def close(self) -> None:
        """Settle what is open, close all connections, and write what is not yet recorded."""
        self.sampling.stop()
        await self.limiter.close()
        if self._keeping is not None:
            await self._keeping.close()
        if self.keeping is not None:
            await self.keeping.close()
        await self.pool.close()
        self.tokenizers.close()
        if self.span_export is not None:
            await asyncio.to_thread(self.span_export.close, _LAST_SPANS)
        self.access.flush()


def _fallbacks(settings: Settings) -> Iterator[tuple[str, str]]:
    """From which upstream to which other a request may go."""
    for route in settings.models:
        names = dict.fromkeys(target.upstream.name for target in route.all_targets)
        yield from permutations(names, 2)


def _span_export(settings: Settings, metrics: Metrics) -> "SpanExport | None":
    """Its libraries take time and memory, so they are loaded only where there is a receiver."""
    traces = settings.traces
    if traces is None:
        return None
    from proxy.telemetry.span_export import SpanExport

    headers = {name: value.get_secret_value() for name, value in traces.headers.items()}
    return SpanExport(traces.endpoint, headers, lambda kind, count: metrics.traffic.dropped.add(kind, value=count))


def _limiter(settings: Settings, metrics: Metrics) -> Limiter:
    shared = settings.shared_limits
    if shared is None:
        return MemoryLimiter(on_expired=metrics.count_expired_leases)
    return SharedLimiter(
        shared.url.get_secret_value(),
        shared.on_failure,
        on_expired=metrics.count_expired_leases,
        on_failed=metrics.count_limiter_error,
    )
