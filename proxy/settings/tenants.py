"""Tenants as the server uses them: who they are, what they may do, how much of it (operations.md 8.2).

A list that is absent allows everything, an empty one nothing. Times are Unix seconds, so that they can be compared for
each request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from proxy.settings.losses import LossPolicy

Network = IPv4Network | IPv6Network
ClientName = Literal["chat", "responses", "messages"]
EndpointClass = Literal["generate", "count_tokens", "models", "stored", "other"]
KeyMode = Literal["shared", "map", "byok"]
Period = Literal["day", "week", "month"]

UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class TenantKey:
    """One key of a tenant. `kid`: its public part. `digest`: of its secret, by `method`. It holds from `not_before` to
    `expires_at`; None has no such end."""

    kid: str
    method: Literal["hmac-sha256", "sha256"]
    digest: bytes = field(repr=False)
    not_before: float | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class NameRules:
    """Globs over names. `allow`: None is all names. A name that `deny` matches is refused whatever `allow` says."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether every name is allowed."""
        return self.allow is None and not self.deny


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Which models, by the names that clients use. `default`: the model of a request that names none."""

    names: NameRules = field(default_factory=NameRules)
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRules:
    """`functions`: the client's own, by name, and how many at most (None: any number); `hosted`: those that the
    backend runs and those of a vendor's type, by kind; `mcp_servers`: servers' addresses, or `connector:ID`."""

    functions: NameRules = field(default_factory=NameRules)
    most_functions: int | None = None
    hosted: NameRules = field(default_factory=NameRules)
    mcp_servers: NameRules = field(default_factory=NameRules)


@dataclass(frozen=True, slots=True)
class UpstreamKeys:
    """With whose keys backends are asked.

    `shared`: the upstreams' own. `map`: the tenant's, by the upstream's name; those that it does not name are shared.
    `byok`: the caller's own, which `byok_header` brings, at the upstreams of `byok_upstreams` and nowhere else.
    """

    mode: KeyMode = "shared"
    keys: Mapping[str, SecretStr] = field(default_factory=dict)
    byok_header: str = "authorization"
    byok_upstreams: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Budget:
    """`limit`: micro-dollars in each `period`. Periods begin at midnight in `timezone`; weeks and months on the day
    of `anchor` (a date as `2026-12-01`; its weekday or its day of the month), by default Monday and the first.
    `hard`: what exceeds it is refused; else it is only told."""

    limit: int
    period: Period = "month"
    anchor: str | None = None
    timezone: ZoneInfo = UTC
    hard: bool = True


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """None is no limit. Requests and tokens a minute and a day, those open at once, streams among them; bytes of a
    body; tokens of an answer, beyond which a request is clamped or refused. Days begin at midnight in `timezone`."""

    rpm: int | None = None
    rpd: int | None = None
    tpm: int | None = None
    tpd: int | None = None
    concurrency: int | None = None
    streams: int | None = None
    max_body_bytes: int | None = None
    max_output_tokens: int | None = None
    on_excess_output: Literal["clamp", "refuse"] = "clamp"
    timezone: ZoneInfo = UTC
    budget: Budget | None = None

    @property
    def counts_tokens(self) -> bool:
        """Whether what an answer used must be known."""
        return self.tpm is not None or self.tpd is not None or self.budget is not None


@dataclass(frozen=True, slots=True)
class Tenant:
    """`loss`: None leaves it to the model's entry; else the strictest of both holds. `log_content`: whether
    conversations may be recorded where `telemetry.traces.content` says so. `forward_metadata`: which of `metadata` go
    to backends that take metadata."""

    name: str
    disabled: bool = False
    not_before: float | None = None
    expires_at: float | None = None
    keys: tuple[TenantKey, ...] = ()
    protocols: frozenset[ClientName] | None = None
    endpoints: frozenset[EndpointClass] | None = None
    models: ModelRules = field(default_factory=ModelRules)
    upstream: UpstreamKeys = field(default_factory=UpstreamKeys)
    tools: ToolRules = field(default_factory=ToolRules)
    limits: TenantLimits = field(default_factory=TenantLimits)
    ip_allow: tuple[Network, ...] | None = None
    loss: LossPolicy | None = None
    log_content: Literal["never", "allow"] = "never"
    audit_denials: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    forward_metadata: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Price:
    """What models that `match` cost, in micro-dollars a million tokens; `hosted`: micro-dollars a call, by kind of
    tool. `match` is a glob over the clients' names of models, or over the backends'."""

    match: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_long: int
    reasoning: int
    hosted: Mapping[str, int] = field(default_factory=dict)
