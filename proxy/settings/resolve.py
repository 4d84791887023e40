"""From the models of the file to the snapshot that the server uses."""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from proxy.canonical.request import Effort
from proxy.settings.resolve_tenants import resolve_price, resolve_tenant
from proxy.settings.schema import (
    BreakerSection,
    LoneTargetEntry,
    ModelEntry,
    ModelProfileEntry,
    SettingsFile,
    StateSection,
    TargetEntry,
    TimeoutsSection,
    UpstreamEntry,
)
from proxy.settings.snapshot import (
    Breaker,
    Capacity,
    Drain,
    ModelRoute,
    ProfileEntry,
    Retries,
    RouteTarget,
    Settings,
    SharedLimits,
    StateSettings,
    Timeouts,
    Upstream,
)
from proxy.settings.telemetry import Traces
from proxy.settings.telemetry_schema import TracesSection
from proxy.settings.tenants import Tenant
from proxy.settings.values import is_redis
from proxy.translation.profiles import base_profile

MEMORY_TTL = 3600.0  # seconds: of what no other process can see (mapping.md 11.2)
STORE_TTL = 30 * 86_400.0


def resolve(file: SettingsFile) -> Settings:
    """Fill in and merge. `file` has passed `cross_check`: its names are unique and known."""
    timeouts = _merge(Timeouts(), file.timeouts)
    upstreams = {entry.name: _upstream(entry, timeouts) for entry in file.upstreams}
    entries = file.models or [ModelEntry(match="*", upstream=[TargetEntry(upstream=file.upstreams[0].name)])]
    return Settings(
        upstreams=upstreams,
        models=tuple(_route(entry, upstreams) for entry in entries),
        listen=file.listen,
        admin_listen=file.admin_listen,
        workers=file.workers,
        timeouts=timeouts,
        drain=Drain(file.drain.lame_duck, file.drain.max_stream),
        capacity=Capacity(**file.capacity.model_dump()),
        max_body=file.max_body,
        reasoning_cache=file.state.reasoning_cache,
        carrier_keys=tuple(file.state.carrier_keys),
        model_profiles=tuple(map(_profile, file.model_profiles)),
        tenants=_tenants(file, upstreams),
        key_pepper=file.key_pepper,
        prices=tuple(map(resolve_price, file.prices)),
        trusted_proxies=tuple(file.trusted_proxies),
        trust_request_id_from=tuple(file.trust_request_id_from),
        admin_token=file.admin_token,
        shared_limits=_shared_limits(file.state),
        limits_file=file.state.limits_file,
        state=_state(file.state, alone=file.workers == 1),
        tenant_label=file.telemetry.metrics.tenant_label,
        log_format=file.telemetry.logs.format,
        traces=_traces(file.telemetry.traces),
    )


def _merge(base: Timeouts, section: TimeoutsSection) -> Timeouts:
    """What the section sets replaces the base; `first_event` and `total` then hold for both kinds of reply."""
    given = section.model_dump(exclude_none=True)
    for name in ("first_event", "total"):
        if name in given:
            given[f"{name}_stream"] = given[f"{name}_whole"] = given.pop(name)
    if given.get("commit_after") == "never":
        given["commit_after"] = None
    return replace(base, **given)


def _shared_limits(section: StateSection) -> SharedLimits | None:
    return SharedLimits(section.url, section.on_failure) if is_redis(section.url.get_secret_value()) else None


def _state(section: StateSection, *, alone: bool) -> StateSettings | None:
    """`alone`: one process serves, so that what is kept in memory is known to all who may be asked for it."""
    url = section.url.get_secret_value()
    if url == "none:" or (url == "memory:" and not alone):
        return None
    default = MEMORY_TTL if url == "memory:" else STORE_TTL
    return StateSettings(section.url, section.ttl or default, tuple(section.content_keys), section.max_stored)


def _traces(section: TracesSection | None) -> Traces | None:
    if section is None:
        return None
    return Traces(section.endpoint, section.headers, section.sample, section.accept, section.content)


def _tenants(file: SettingsFile, upstreams: Mapping[str, Upstream]) -> dict[str, Tenant] | None:
    if file.tenants is None:
        return None
    keyless = frozenset(name for name, upstream in upstreams.items() if upstream.api_key is None)
    resolved = (resolve_tenant(entry, file.tenant_defaults, keyless) for entry in file.tenants)
    return {tenant.name: tenant for tenant in resolved}


def _upstream(entry: UpstreamEntry, timeouts: Timeouts) -> Upstream:
    flags = dict(entry.dialect or {})
    given = (entry.api_key, entry.api_key_file, *entry.api_keys, *entry.api_key_files)
    keys = [key for key in given if key is not None]
    return Upstream(
        name=entry.name,
        protocol=entry.protocol,
        base_url=entry.base_url,
        api_key=keys[0] if keys else None,
        spare_keys=tuple(keys[1:]),
        dialect=flags.pop("base", None),
        dialect_flags=flags,
        headers=entry.headers,
        timeouts=_merge(timeouts, entry.timeouts),
        max_connections=entry.max_connections,
        ca_file=entry.ca_file,
        client_cert=entry.client_cert,
        proxy=entry.proxy,
        always_stream_upstream=entry.always_stream_upstream,
        ratelimit_headers=entry.ratelimit_headers,
        trace_forward=entry.trace_forward,
        breaker=_breaker(entry.breaker),
        retries=replace(Retries(), **entry.retries.model_dump(exclude_none=True)),
        state=entry.state,
    )


def _breaker(section: BreakerSection) -> Breaker | None:
    return None if section.off else replace(Breaker(), **section.model_dump(exclude_none=True, exclude={"off"}))


def _target(entry: LoneTargetEntry, upstreams: Mapping[str, Upstream], model: str | None) -> RouteTarget:
    weight = entry.weight if isinstance(entry, TargetEntry) else None
    return RouteTarget(upstreams[entry.upstream], entry.model or model, weight)


def _route(entry: ModelEntry, upstreams: Mapping[str, Upstream]) -> ModelRoute:
    beside = entry.on_context_length
    return ModelRoute(
        match=entry.match,
        pattern=re.compile(fnmatch.translate(entry.match)),
        targets=tuple(_target(target, upstreams, entry.model) for target in entry.upstream),
        on_context_length=None if beside is None else _target(beside, upstreams, entry.model),
        loss=entry.loss,
        hosted_tools=entry.hosted_tools,
        response_model=entry.response_model,
        native_finish_reason=entry.native_finish_reason,
        responses_done=entry.responses_done,
        reasoning_field=entry.reasoning_field,
        foreign_reasoning=entry.foreign_reasoning,
        fast_mode=entry.fast_mode,
        inference_geo=entry.inference_geo,
        participant_names=entry.participant_names,
        validate_output=entry.validate_output,
        stop_match=entry.stop_match,
        fan_out=entry.fan_out or 1,
    )


def _profile(entry: ModelProfileEntry) -> ProfileEntry:
    given = entry.model_dump(exclude_none=True, exclude={"match", "base", "tokenizer"})
    if "efforts" in given:
        # Levels are looked up from the highest down, whatever order they are written in.
        given["efforts"] = tuple(sorted(set(given["efforts"]), key=get_args(Effort).index))
    base = base_profile(entry.base) if entry.base is not None else None
    return ProfileEntry(entry.match, re.compile(fnmatch.translate(entry.match)), base, given, entry.tokenizer)
