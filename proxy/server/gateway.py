"""What all exchanges share: the settings in force, the backends, the pool, what is open now, and where to record it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from multidict import CIMultiDictProxy

from proxy.canonical.errors import Rejected
from proxy.canonical.target import Target
from proxy.server.kept import Kept
from proxy.server.local_tokenizers import Tokenizers
from proxy.server.reasoning_cache import ReasoningCache
from proxy.server.watch import Limit, Limits, body_limit, limits_of
from proxy.settings import ModelRoute, Settings, Upstream
from proxy.telemetry.logs import AccessLog
from proxy.telemetry.losses import LossLog
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.scrubber import Scrubber
from proxy.tenancy.refusals import unknown_model
from proxy.translation.envelope import Scope
from proxy.translation.model_facts import ModelFacts, read_facts
from proxy.translation.pair import Prepared
from proxy.translation.recall import Recall
from proxy.upstream.backend import Backend
from proxy.upstream.dialects import host_dialect
from proxy.upstream.headers import read_credential
from proxy.upstream.learned import RefusedFields
from proxy.upstream.pool import Pool

if TYPE_CHECKING:
    from proxy.server.counting import Count
    from proxy.server.exchange import Exchange
    from proxy.server.models import Model

_TARGETS = 1024  # of clients' names for models, which may be anything
_FACTS = 10_000  # of models that backends list


@dataclass(frozen=True, slots=True)
class Served:
    """A backend with the time limits that hold toward it. `responses`: the same one by its Responses endpoint, for what
    the vendor does not do on Chat."""

    backend: Backend
    limits: Limits
    responses: "Served | None" = None


def _served(upstream: Upstream) -> Served:
    backend, limits = Backend(upstream), limits_of(upstream.timeouts)
    other = replace(upstream, protocol="responses") if backend.offers_responses else None
    return Served(backend, limits, None if other is None else Served(Backend(other), limits))


class Gateway:
    """Made inside the loop that serves. `close()` it there."""

    def __init__(self, settings: Settings, access: AccessLog) -> None:
        """Raises `UnknownDialect` and OSError for an upstream that can't be made ready."""
        self.settings = settings
        self.access = access
        self.loss_log = LossLog()
        self.metrics = Metrics()
        self.tokenizers = Tokenizers()
        self.scrub = Scrubber(secrets_of(settings))
        self.served = {name: _served(upstream) for name, upstream in settings.upstreams.items()}
        self.carrier_keys = tuple(key.get_secret_value() for key in settings.carrier_keys)
        self.reasoning = ReasoningCache() if settings.reasoning_cache else None
        self.body_limit = body_limit(settings.timeouts)
        self.client_write_limit = Limit(settings.timeouts.client_write, None)
        self.pool = Pool()
        self.refused_fields = RefusedFields()
        self.open: set[Exchange] = set()
        self._targets: dict[tuple[str, str, str], Target] = {}
        self._facts: dict[tuple[str, str], ModelFacts] = {}
        self.counts: Kept[bytes, Count] = Kept(2000)
        self.listings: Kept[tuple[str, bytes], list[Model]] = Kept(200)
        self.failed_checks = ["started"]
        self.draining = False

    def route(self, model: str) -> ModelRoute:
        """Where a model goes. Raises `Rejected`, class MODEL_NOT_FOUND."""
        found = self.settings.route(model)
        if found is None:
            raise Rejected(unknown_model(model))
        return found

    def target(self, route: ModelRoute, model: str, served: Served | None = None) -> Target:
        """What a request writer must know of the backend that `model`, the client's name, goes to; `served` if it is
        another than the route's own."""
        name = route.model or model
        backend = (served or self.served[route.upstream.name]).backend
        key = (route.match, name, backend.protocol)
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

    def scope(self, backend: Backend, headers: CIMultiDictProxy[str]) -> Scope:
        """Whose envelopes a client with these headers may bring back to the backend."""
        if backend.holds_key:
            return Scope(backend.origin, self.carrier_keys)
        credential = read_credential(headers)
        return Scope(backend.origin_with(credential.key if credential is not None else ""), self.carrier_keys)

    def recall(self, origin: str) -> Recall | None:
        """How to find reasoning of this backend that a Chat client has dropped; None when nothing is kept."""
        cache = self.reasoning
        return None if cache is None else lambda call_id: cache.find(origin, call_id)

    def remember(self, backend: Backend, headers: CIMultiDictProxy[str], prepared: Prepared) -> None:
        """Keep the reasoning of a reply, if the settings say so."""
        if self.reasoning is not None and prepared.remembered.entries:
            self.reasoning.keep(self.scope(backend, headers).origin, prepared.remembered)

    async def close(self) -> None:
        """Close all connections to backends, and write what is not yet recorded."""
        await self.pool.close()
        self.tokenizers.close()
        self.access.flush()


def secrets_of(settings: Settings) -> Iterator[str]:
    """All that must never be shown: keys, and where backends are that aren't a vendor's own (operations.md 5)."""
    for key in settings.carrier_keys:
        yield key.get_secret_value().hex()
    for upstream in settings.upstreams.values():
        if host_dialect(upstream.base_url) == "generic":
            address = urlsplit(upstream.base_url)
            # A bare host may be an ordinary word.
            yield address.hostname if address.hostname and "." in address.hostname else address.netloc
        if upstream.api_key is not None:
            yield upstream.api_key.get_secret_value()
        for value in upstream.headers.values():
            yield value.get_secret_value()
