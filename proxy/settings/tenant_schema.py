"""Tenants and prices as the configuration file writes them (operations.md 8.2, 9.3).

What is absent here has no limit; `tenant_defaults` may say otherwise for all tenants at once.
"""

from typing import Annotated, Literal

from pydantic import Field

from proxy.settings.files import SecretFile
from proxy.settings.section import Section
from proxy.settings.tenants import ClientName, EndpointClass
from proxy.settings.values import (
    Day,
    EntryName,
    Glob,
    HeaderName,
    IpNetwork,
    KeyHash,
    KeyId,
    Loss,
    MetadataValue,
    Moment,
    NotNull,
    OrDefault,
    Secret,
    Size,
    TenantName,
    TimeZone,
    Usd,
)

Count = Annotated[int, Field(ge=1, le=10**15)]


_NO_UPSTREAMS = NotNull("is empty: leave the key out for all upstreams that have no key of their own")


class KeyEntry(Section):
    kid: KeyId
    hash: KeyHash
    not_before: Moment | None = None
    expires_at: Moment | None = None


class NamesSection(Section):
    allow: Annotated[list[Glob] | None, NotNull()] = None
    deny: list[Glob] = []


class ModelsSection(NamesSection):
    default: Annotated[str, Field(min_length=1)] | None = None


class FunctionsSection(NamesSection):
    max: Annotated[int, Field(ge=0)] | None = None


class ToolsSection(Section):
    functions: Annotated[FunctionsSection, OrDefault] = FunctionsSection()
    hosted: Annotated[NamesSection, OrDefault] = NamesSection()
    mcp_servers: Annotated[NamesSection, OrDefault] = NamesSection()


class UpstreamKeyEntry(Section):
    api_key: Secret | None = None
    api_key_file: SecretFile | None = None


class UpstreamKeysSection(Section):
    mode: Literal["shared", "map", "byok"] = "shared"
    map: dict[str, UpstreamKeyEntry] = {}
    byok_header: HeaderName = "authorization"
    byok_upstreams: Annotated[list[EntryName] | None, _NO_UPSTREAMS] = None


class BudgetSection(Section):
    usd: Usd
    period: Literal["day", "week", "month"] = "month"
    anchor: Day | None = None
    timezone: TimeZone = "UTC"
    hard: bool = True


class LimitsSection(Section):
    rpm: Count | None = None
    rpd: Count | None = None
    tpm: Count | None = None
    tpd: Count | None = None
    concurrency: Count | None = None
    streams: Count | None = None
    max_body_bytes: Size | None = None
    max_output_tokens: Count | None = None
    on_excess_output: Literal["clamp", "refuse"] = "clamp"
    timezone: TimeZone = "UTC"
    budget: BudgetSection | None = None


class TenantPolicySection(Section):
    """All that one tenant may be given, and what all may be given at once."""

    protocols: Annotated[list[ClientName] | None, NotNull()] = None
    endpoints: Annotated[list[EndpointClass] | None, NotNull()] = None
    models: Annotated[ModelsSection, OrDefault] = ModelsSection()
    upstream: Annotated[UpstreamKeysSection, OrDefault] = UpstreamKeysSection()
    tools: Annotated[ToolsSection, OrDefault] = ToolsSection()
    limits: Annotated[LimitsSection, OrDefault] = LimitsSection()
    ip_allow: Annotated[list[IpNetwork] | None, NotNull()] = None
    loss: Loss | None = None
    log_content: Literal["never", "allow"] = "never"
    audit_denials: bool = False
    metadata: dict[str, MetadataValue] = {}
    forward_metadata: list[str] = []


class TenantEntry(TenantPolicySection):
    name: TenantName
    disabled: bool = False
    not_before: Moment | None = None
    expires_at: Moment | None = None
    keys: list[KeyEntry] = []


class PriceEntry(Section):
    """US dollars a million tokens, and a call of a hosted tool. Absent prices are the next dearer kind's."""

    match: Glob
    input: Usd
    output: Usd
    cache_read: Usd | None = None
    cache_write: Usd | None = None
    cache_write_long: Usd | None = None
    reasoning: Usd | None = None
    hosted: dict[str, Usd] = {}
