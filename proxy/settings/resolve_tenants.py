"""From the tenants and prices of the file to those that the server uses."""

from collections.abc import Set as AbstractSet
from zoneinfo import ZoneInfo

from proxy.settings.tenant_schema import (
    BudgetSection,
    KeyEntry,
    LimitsSection,
    NamesSection,
    PriceEntry,
    TenantEntry,
    TenantPolicySection,
    ToolsSection,
    UpstreamKeysSection,
)
from proxy.settings.tenants import (
    Budget,
    ModelRules,
    NameRules,
    Price,
    Tenant,
    TenantKey,
    TenantLimits,
    ToolRules,
    UpstreamKeys,
)


def resolve_tenant(entry: TenantEntry, defaults: TenantPolicySection, keyless: AbstractSet[str]) -> Tenant:
    """`entry` over `defaults`, field by field. `keyless`: the upstreams that have no key of their own."""
    policy = entry.over(defaults)
    return Tenant(
        name=policy.name,
        disabled=policy.disabled,
        not_before=policy.not_before,
        expires_at=policy.expires_at,
        keys=tuple(map(_key, policy.keys)),
        protocols=None if policy.protocols is None else frozenset(policy.protocols),
        endpoints=None if policy.endpoints is None else frozenset(policy.endpoints),
        models=ModelRules(_names(policy.models), policy.models.default),
        upstream=_upstream_keys(policy.upstream, keyless),
        tools=_tools(policy.tools),
        limits=_limits(policy.limits),
        ip_allow=None if policy.ip_allow is None else tuple(policy.ip_allow),
        loss=policy.loss,
        log_content=policy.log_content,
        audit_denials=policy.audit_denials,
        metadata=policy.metadata,
        forward_metadata=tuple(policy.forward_metadata),
    )


def _key(entry: KeyEntry) -> TenantKey:
    method, digest = entry.hash
    return TenantKey(entry.kid, method, digest, entry.not_before, entry.expires_at)


def _names(section: NamesSection) -> NameRules:
    return NameRules(None if section.allow is None else tuple(section.allow), tuple(section.deny))


def _upstream_keys(section: UpstreamKeysSection, keyless: AbstractSet[str]) -> UpstreamKeys:
    keys = {name: key for name, entry in section.map.items() if (key := entry.api_key or entry.api_key_file)}
    named = section.byok_upstreams
    byok = frozenset(keyless if named is None else named) if section.mode == "byok" else frozenset[str]()
    return UpstreamKeys(section.mode, keys if section.mode == "map" else {}, section.byok_header, byok)


def _tools(section: ToolsSection) -> ToolRules:
    functions = section.functions
    return ToolRules(_names(functions), functions.max, _names(section.hosted), _names(section.mcp_servers))


def _limits(section: LimitsSection) -> TenantLimits:
    return TenantLimits(
        rpm=section.rpm,
        rpd=section.rpd,
        tpm=section.tpm,
        tpd=section.tpd,
        concurrency=section.concurrency,
        streams=section.streams,
        max_body_bytes=section.max_body_bytes,
        max_output_tokens=section.max_output_tokens,
        on_excess_output=section.on_excess_output,
        timezone=ZoneInfo(section.timezone),
        budget=None if section.budget is None else _budget(section.budget),
    )


def _budget(section: BudgetSection) -> Budget:
    return Budget(section.usd, section.period, section.anchor, ZoneInfo(section.timezone), section.hard)


def resolve_price(entry: PriceEntry) -> Price:
    """Prices that are left out are the next dearer kind's, so that nothing is counted too cheap."""
    write = entry.input if entry.cache_write is None else entry.cache_write
    return Price(
        match=entry.match,
        input=entry.input,
        output=entry.output,
        cache_read=entry.input if entry.cache_read is None else entry.cache_read,
        cache_write=write,
        cache_write_long=write if entry.cache_write_long is None else entry.cache_write_long,
        reasoning=entry.output if entry.reasoning is None else entry.reasoning,
        hosted=entry.hosted,
    )
