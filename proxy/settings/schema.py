"""The configuration file as it is written: which keys there are.

A value that this version knows but does not act on yet is an error (`only`), since an operator who sets a limit
must not find out later that there was none. `resolve.py` turns these models into what the server uses.
"""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from proxy.canonical.request import Effort
from proxy.canonical.target import ThinkingType
from proxy.settings.files import CaFile, ClientCert, KeptFile, SecretFile, TokenizerFile
from proxy.settings.section import Section
from proxy.settings.snapshot import (
    ADMIN_LISTEN,
    LISTEN,
    MAX_BODY,
    MAX_STORED,
    MOST_CHOICES,
    MOST_WORKERS,
    ProtocolName,
)
from proxy.settings.telemetry_schema import TracesSection
from proxy.settings.tenant_schema import PriceEntry, TenantEntry, TenantPolicySection
from proxy.settings.values import (
    AdminToken,
    BaseUrl,
    CarrierKey,
    CommitAfter,
    DialectChoice,
    Duration,
    EntryName,
    Glob,
    HeaderName,
    IpNetwork,
    ListenAddress,
    Loss,
    NotNull,
    OrDefault,
    OrName,
    OrOff,
    Pepper,
    PositiveDuration,
    ProfileName,
    ProxyUrl,
    Secret,
    Size,
    StateUrl,
    only,
)

_NO_TENANTS = NotNull("is empty: [] lets nobody in; leave the key out to ask nobody for a key")


class TimeoutsSection(Section):
    """Only what was set; the rest comes from the section above, then from the defaults."""

    connect: PositiveDuration | None = None
    first_event: PositiveDuration | None = None
    idle: PositiveDuration | None = None
    commit_after: CommitAfter | None = None
    total: PositiveDuration | None = None
    client_write: PositiveDuration | None = None
    head_read: PositiveDuration | None = None
    body_read: PositiveDuration | None = None
    heartbeat: Duration | None = None


class DrainSection(Section):
    lame_duck: Duration = 5.0
    max_stream: Duration = 300.0


class BreakerSection(Section):
    """Fields as in `snapshot.Breaker`."""

    off: bool = False
    failures: Annotated[int, Field(ge=1)] | None = None
    ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    window: PositiveDuration | None = None
    open: PositiveDuration | None = None
    longest: PositiveDuration | None = None


class RetriesSection(Section):
    """Fields as in `snapshot.Retries`."""

    max_wait: Duration | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    free: Annotated[int, Field(ge=0)] | None = None


class CapacitySection(Section):
    max_connections: Annotated[int, Field(ge=1)] = 10_000
    max_requests: Annotated[int, Field(ge=1)] = 4_000
    max_streams: Annotated[int, Field(ge=1)] = 3_000
    max_lag: Duration = 2.0
    backlog: Annotated[int, Field(ge=1, le=65_535)] = 1024


class UpstreamEntry(Section):
    name: EntryName
    protocol: ProtocolName
    base_url: BaseUrl
    api_key: Secret | None = None
    api_key_file: SecretFile | None = None
    api_keys: list[Secret] = []
    api_key_files: list[SecretFile] = []
    dialect: DialectChoice | None = None
    headers: dict[HeaderName, Secret] = {}
    timeouts: Annotated[TimeoutsSection, OrDefault] = TimeoutsSection()
    max_connections: Annotated[int, Field(ge=1)] | None = None
    ca_file: CaFile | None = None
    client_cert: ClientCert | None = None
    proxy: ProxyUrl | None = None
    always_stream_upstream: bool = False
    ratelimit_headers: Literal["pass", "drop"] = "pass"
    trace_forward: Literal["none", "traceparent"] = "none"
    state: Literal["auto", "proxy", "backend"] = "auto"
    breaker: Annotated[BreakerSection, OrOff, OrDefault] = BreakerSection()
    retries: Annotated[RetriesSection, OrDefault] = RetriesSection()


class LoneTargetEntry(Section):
    """`model`: absent, that of the entry around it."""

    upstream: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)] | None = None


class TargetEntry(LoneTargetEntry):
    """One among others."""

    weight: Annotated[float, Field(gt=0, le=1_000_000)] | None = None


class ModelEntry(Section):
    match: Glob
    upstream: Annotated[list[TargetEntry], Field(min_length=1), OrName("upstream", listed=True)]
    model: Annotated[str, Field(min_length=1)] | None = None
    loss: Loss | None = None
    hosted_tools: Annotated[Literal["refuse", "drop"], only("refuse", "drop")] | None = None
    response_model: Literal["upstream", "alias"] = "upstream"
    native_finish_reason: bool = False
    responses_done: bool = False
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    on_context_length: Annotated[LoneTargetEntry, OrName("upstream")] | None = None
    fan_out: Annotated[int, Field(ge=2, le=MOST_CHOICES)] | None = None
    validate_output: Literal["off", "record", "error"] = "record"
    stop_match: Literal["drain", "cancel"] = "drain"
    foreign_reasoning: Literal["drop", "text"] = "drop"
    fast_mode: bool = False
    inference_geo: Literal["refuse", "drop"] = "refuse"
    participant_names: Literal["drop", "prefix"] = "drop"


class ModelProfileEntry(Section):
    """Fields as in `canonical.target.ModelProfile`; those that are left out stay as the base has them. `tokenizer` is a
    file of the model's own."""

    match: Glob
    base: ProfileName | None = None
    max_output: Annotated[int, Field(ge=1)] | None = None
    context: Annotated[int, Field(ge=1)] | None = None
    efforts: tuple[Effort, ...] | None = None
    thinking: tuple[ThinkingType, ...] | None = None
    thinking_default: bool | None = None
    thinking_off: bool | None = None
    sampling: bool | None = None
    sampling_xor: bool | None = None
    sampling_without_effort: bool | None = None
    forced: bool | None = None
    mid_system: bool | None = None
    prefill: bool | None = None
    structured: bool | None = None
    phases: bool | None = None
    narrates_in_thinking: bool | None = None
    stop: bool | None = None
    functions_with_reasoning: bool | None = None
    cache_marks: bool | None = None
    bound: bool | None = None
    tokenizer: TokenizerFile | None = None


class StateSection(Section):
    url: StateUrl = SecretStr("memory:")
    limits_file: KeptFile | None = None
    carrier_keys: list[CarrierKey] = []
    content_keys: list[CarrierKey] = []
    ttl: PositiveDuration | None = None
    max_stored: Size = MAX_STORED
    reasoning_cache: bool = False
    on_failure: Literal["open", "closed", "local"] = "local"


class MetricsSection(Section):
    tenant_label: bool = True


class LogsSection(Section):
    format: Literal["json", "text"] = "json"


class TelemetrySection(Section):
    traces: TracesSection | None = None
    metrics: Annotated[MetricsSection, OrDefault] = MetricsSection()
    logs: Annotated[LogsSection, OrDefault] = LogsSection()


class SettingsFile(Section):
    """The whole file."""

    version: Literal[1] = 1
    listen: ListenAddress = LISTEN
    admin_listen: ListenAddress = ADMIN_LISTEN
    workers: Annotated[int, Field(ge=1, le=MOST_WORKERS)] = 1
    upstreams: Annotated[list[UpstreamEntry], Field(min_length=1)]
    models: list[ModelEntry] = []
    model_profiles: list[ModelProfileEntry] = []
    timeouts: Annotated[TimeoutsSection, OrDefault] = TimeoutsSection()
    drain: Annotated[DrainSection, OrDefault] = DrainSection()
    capacity: Annotated[CapacitySection, OrDefault] = CapacitySection()
    max_body: Size = MAX_BODY
    state: Annotated[StateSection, OrDefault] = StateSection()
    tenants: Annotated[list[TenantEntry] | None, _NO_TENANTS] = None
    tenant_defaults: Annotated[TenantPolicySection, OrDefault] = TenantPolicySection()
    telemetry: Annotated[TelemetrySection, OrDefault] = TelemetrySection()
    trusted_proxies: list[IpNetwork] = []
    trust_request_id_from: list[HeaderName] = []
    key_pepper: Pepper | None = None
    prices: list[PriceEntry] = []
    admin_token: AdminToken | None = None
