"""One configuration in force, made ready: its backends, tenants and prices, and what was learnt under it.

A request keeps the one that it began with; what outlives a configuration is in `runtime.py`.
"""

import random
import time
from base64 import standard_b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from proxy.canonical.target import Target
from proxy.server.kept import Kept
from proxy.server.watch import Limit, Limits, body_limit, limits_of
from proxy.settings import ModelRoute, RouteTarget, Settings, Upstream
from proxy.telemetry.scrubber import ManySecrets, Scrubber
from proxy.tenancy.prices import PriceTable
from proxy.tenancy.tenants import Tenants
from proxy.translation.envelope import Scope
from proxy.translation.model_facts import ModelFacts, read_facts
from proxy.translation.prepared import Prepared
from proxy.translation.recall import Recall
from proxy.upstream.account import Account
from proxy.upstream.backend import Backend, OlderKey
from proxy.upstream.dialects import host_dialect
from proxy.upstream.health import Health
from proxy.upstream.learned import RefusedFields

if TYPE_CHECKING:
    from proxy.server.counting import Count
    from proxy.server.models import Model
    from proxy.server.runtime import Runtime

_TARGETS = 1024  # of clients' names for models, which may be anything
_KEYS_OVERLAP = 300.0  # seconds (operations.md 13)
_FACTS = 10_000  # of models that backends list


@dataclass(frozen=True, slots=True)
class Served:
    """A backend with the time limits that hold toward it, and how it does. `responses`: the same one by its Responses
    endpoint, for what the vendor does not do on Chat."""

    backend: Backend
    limits: Limits
    health: Health
    responses: "Served | None" = None

    def within(self, left: float, spent: float) -> "Served":
        """See `Limits.within`."""
        other = self.responses.within(left, spent) if self.responses is not None else None
        return replace(self, limits=self.limits.within(left, spent), responses=other)


@dataclass(frozen=True, slots=True)
class Way:
    """A target of a model's entry, and the backend that it is at."""

    target: RouteTarget
    served: Served


def _served(upstream: Upstream, clock: Callable[[], float], before: "Gateway | None") -> Served:
    known = before.served.get(upstream.name) if before is not None else None
    if known is not None and known.backend.still_is(upstream):
        return known
    older = _older_key(upstream, known.backend) if known is not None else None
    backend, limits = Backend(upstream, older), limits_of(upstream.timeouts)
    other = Backend(replace(upstream, protocol="responses"), older) if backend.offers_responses else None
    if known is not None:
        backend.take_slots_of(known.backend)
        if other is not None and known.responses is not None:
            other.take_slots_of(known.responses.backend)
    health = _health(upstream, clock, known)
    return Served(backend, limits, health, None if other is None else Served(other, limits, health))


def _health(upstream: Upstream, clock: Callable[[], float], known: Served | None) -> Health:
    """What is known of the backend stays known as long as it is the same one."""
    if known is not None:
        before = known.backend.settings
        if (before.base_url, before.breaker, before.retries) == (upstream.base_url, upstream.breaker, upstream.retries):
            return known.health
    return Health(upstream, clock, random.random)


def _older_key(upstream: Upstream, known: Backend) -> OlderKey | None:
    before = known.settings
    if before.api_key is None or upstream.api_key is None or before.base_url != upstream.base_url:
        return None
    if before.api_key == upstream.api_key:
        return known.older
    return OlderKey(before.api_key, time.monotonic() + _KEYS_OVERLAP)


class Gateway:
    """`before`: the one that this replaces. What has not changed of it is kept, so that connections live on."""

    def __init__(
        self, settings: Settings, runtime: "Runtime", before: "Gateway | None" = None, digest: str = ""
    ) -> None:
        """`digest`: of the configuration's text, for records.

        Raises `UnknownDialect` and OSError for an upstream that can't be made ready."""
        self.settings = settings
        self.digest = digest[:12]
        self.runtime = runtime
        self.served = {name: _served(upstream, runtime.now, before) for name, upstream in settings.upstreams.items()}
        self.ways = {
            route.match: tuple(Way(target, self.served[target.upstream.name]) for target in route.targets)
            for route in settings.models
        }
        self.carrier_keys = tuple(key.get_secret_value() for key in settings.carrier_keys)
        self.reasoning = runtime.reasoning if settings.reasoning_cache else None
        self.body_limit = body_limit(settings.timeouts)
        self.client_write_limit = Limit(settings.timeouts.client_write, None)
        self.refused_fields = RefusedFields()
        secrets = runtime.known_secrets(secrets_of(settings))
        self.scrub = Scrubber(secrets)
        self.scrub_known = Scrubber(secrets, shapes=False)  # for what is data: a model may be called as a key looks
        # What one tenant is told is looked through for its own keys alone; see `Exchange.scrub`.
        self.scrub_tenants = ManySecrets(runtime.known_keys(_tenants_keys(settings)))
        self.tenants = None if settings.tenants is None else Tenants(settings)
        self.prices = PriceTable(settings.prices)
        self.shown_names: Kept[str, str] = Kept(1000)
        self.counts: Kept[bytes, Count] = Kept(2000)
        self.listings: Kept[tuple[str, bytes], list[Model]] = Kept(200)
        self._targets: dict[tuple[str, str, str, str], Target] = {}
        self._facts: dict[tuple[str, str], ModelFacts] = {}

    def pieces(self) -> list[object]:
        """What there may be thousands of, for who lets go of them one by one."""
        tenants, policies = self.settings.tenants or {}, {} if self.tenants is None else self.tenants.policies
        return [*tenants.values(), *policies.values()]

    def target(self, route: ModelRoute, name: str, served: Served) -> Target:
        """What a request writer must know of the backend that a request goes to; `name` is the backend's of the
        model."""
        backend = served.backend
        key = (route.match, name, backend.name, backend.protocol)
        target = self._targets.get(key)
        if target is None:
            profile = self.settings.profile(name)
            if (facts := self._facts.get((backend.name, name))) is not None:
                profile = facts.over(profile, name)
            target = Target(
                backend.protocol,
                name,
                backend.dialect,
                profile,
                hosted_tools=route.hosted_tools,
                foreign_reasoning=route.foreign_reasoning,
                fast_mode=route.fast_mode,
                inference_geo=route.inference_geo,
                participant_names=route.participant_names,
                validate_output=route.validate_output,
                stop_match=route.stop_match,
                fan_out=route.fan_out,
            )
            if len(self._targets) >= _TARGETS:
                self._targets.clear()
            self._targets[key] = target
        return target

    def learn_models(self, backend: Backend, entries: Iterable[Mapping[str, object]]) -> None:
        """Take note of what a Messages backend tells of its models. Other lists tell nothing that counts."""
        if backend.protocol != "messages":
            return
        for entry in entries:
            facts = read_facts(dict(entry))
            key = (backend.name, str(entry.get("id")))
            if facts is None or self._facts.get(key) == facts:
                continue
            if len(self._facts) >= _FACTS:
                self._facts.clear()
            self._facts[key] = facts
            self._targets.clear()

    def scope(self, backend: Backend, account: Account, tenant: str) -> Scope:
        """Whose envelopes may be brought back to the backend that is asked in this way."""
        return Scope(backend.origin_of(account), self.carrier_keys, tenant)

    def recall(self, scope: Scope) -> Recall | None:
        """How to find reasoning of this backend that a Chat client has dropped; None when nothing is kept."""
        cache, owner = self.reasoning, scope.tenant + scope.origin
        return None if cache is None else lambda call_id: cache.find(owner, call_id)

    def remember(self, prepared: Prepared) -> None:
        """Keep the reasoning of a reply, if the settings say so."""
        if self.reasoning is not None and prepared.remembered.entries:
            scope = prepared.scope
            self.reasoning.keep(scope.tenant + scope.origin, prepared.remembered)


def secrets_of(settings: Settings) -> Iterator[str]:
    """All that must never be shown: keys, and where backends are that aren't a vendor's own (operations.md 5)."""
    for carrier_key in settings.carrier_keys:
        yield from _written(carrier_key.get_secret_value())
    if settings.key_pepper is not None:
        yield settings.key_pepper.get_secret_value().decode()
    if settings.admin_token is not None:
        yield settings.admin_token.get_secret_value()
    for store in (settings.shared_limits, settings.state):
        if store is not None and (password := urlsplit(store.url.get_secret_value()).password):
            yield from (password, unquote(password))
    for content_key in settings.state.keys if settings.state is not None else ():
        yield from _written(content_key.get_secret_value())
    if settings.traces is not None:
        for value in settings.traces.headers.values():
            yield from (value.get_secret_value(), value.get_secret_value().partition(" ")[2])
    for upstream in settings.upstreams.values():
        yield from _secrets_of_upstream(upstream)


def _secrets_of_upstream(upstream: Upstream) -> Iterator[str]:
    if host_dialect(upstream.base_url) == "generic":
        address = urlsplit(upstream.base_url)
        # A bare host may be an ordinary word.
        yield address.hostname if address.hostname and "." in address.hostname else address.netloc
    if upstream.api_key is not None:
        yield upstream.api_key.get_secret_value()
    for spare in upstream.spare_keys:
        yield spare.get_secret_value()
    for value in upstream.headers.values():
        yield value.get_secret_value()
    if upstream.proxy is not None and (password := urlsplit(upstream.proxy.get_secret_value()).password):
        yield from (password, unquote(password))


def _written(key: bytes) -> Iterator[str]:
    """In the forms that the configuration may have it in."""
    yield from (key.hex(), key.hex().upper())
    yield from (encode(key).decode().rstrip("=") for encode in (standard_b64encode, urlsafe_b64encode))


def _tenants_keys(settings: Settings) -> Iterator[str]:
    for tenant in (settings.tenants or {}).values():
        for key in tenant.upstream.keys.values():
            yield key.get_secret_value()
