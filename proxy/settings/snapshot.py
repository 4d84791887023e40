"""The configuration as the server uses it: plain, frozen values with every default filled in.

A request keeps the snapshot it began with. Secrets are `SecretStr` throughout, so that no log line and no
traceback shows one.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import SecretBytes, SecretStr

from proxy.canonical.target import ModelProfile
from proxy.settings.losses import LossPolicy
from proxy.settings.telemetry import Traces
from proxy.settings.tenants import Network, Price, Tenant
from proxy.translation.profiles import profile_of

ProtocolName = Literal["chat", "responses", "messages"]

# The name under which the embedded backend is an upstream.
DEMO_UPSTREAM = "demo"


class Address(NamedTuple):
    """Where to listen; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Only this machine can reach it. A name other than `localhost` may resolve to anything."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


LISTEN = Address("127.0.0.1", 8080)
ADMIN_LISTEN = Address("127.0.0.1", 9090)
MAX_BODY = 32 * 2**20
MOST_WORKERS = 128
MAX_STORED = 16 * 2**20
MOST_CHOICES = 16  # that `fan_out` may allow: each is a request of its own, all at once


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds (operations.md 12).

    `first_event` and `total` have two defaults, one for a reply that is streamed and one for a whole one.
    `commit_after`: None never sends headers before the backend's first event. `heartbeat`: 0 sends none.
    """

    connect: float = 5.0
    first_event_stream: float = 120.0
    first_event_whole: float = 600.0
    idle: float = 300.0
    commit_after: float | None = 10.0
    total_stream: float = 3600.0
    total_whole: float = 600.0
    client_write: float = 60.0
    head_read: float = 30.0
    body_read: float = 30.0
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True)
class Drain:
    """Seconds (operations.md 6.2): how long to go on accepting after the signal, then how long streams may last."""

    lame_duck: float = 5.0
    max_stream: float = 300.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a backend that fails is left alone (operations.md 11): after so many `failures` in a row, or when more than
    `ratio` of at least `requests` in `window` seconds have failed. It is for `open` seconds, which double each time to
    `longest`."""

    failures: int = 5
    ratio: float = 0.5
    requests: int = 20
    window: float = 30.0
    open: float = 10.0
    longest: float = 120.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a backend is asked once more. `max_wait`: the longest wait that it may ask for, in seconds. `share`:
    retries are at most this part of its requests over 10 s, and `free` a second beside."""

    max_wait: float = 2.0
    share: float = 0.2
    free: int = 3


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most that one process takes on; more is refused before everybody has to wait (operations.md 10).

    `max_connections`: of one listener. `max_requests`: being answered; `max_streams`: of them. `max_lag`: seconds that
    the event loop may be late, time and again; 0 looks not at it. `backlog`: connections that the system keeps for the
    process until it accepts them.
    """

    max_connections: int = 10_000
    max_requests: int = 4_000
    max_streams: int = 3_000
    max_lag: float = 2.0
    backlog: int = 1024


@dataclass(frozen=True, slots=True)
class Upstream:
    """A backend.

    `base_url` ends in its version, without a slash: `/messages` and the like are appended to it; or its version is a
    query, which goes behind them. `state`: who keeps what clients of its own protocol want to be kept; `auto`: backends
    of Responses and Anthropic do, no others. `api_key`: None passes the client's own key on. `spare_keys`: what to ask
    with where that is refused or used up, in this order. `dialect`: None goes by the host. `max_connections`: None is
    no limit. `timeouts` are already merged with the general ones. `breaker`: None never leaves it alone.
    `proxy`: the address of an HTTP proxy on the way, with a user and a password perhaps; None goes there directly.
    """

    name: str
    protocol: ProtocolName
    base_url: str
    api_key: SecretStr | None = None
    spare_keys: tuple[SecretStr, ...] = ()
    dialect: str | None = None
    dialect_flags: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_connections: int | None = None
    ca_file: Path | None = None
    client_cert: Path | None = None
    proxy: SecretStr | None = None
    always_stream_upstream: bool = False
    ratelimit_headers: Literal["pass", "drop"] = "pass"
    trace_forward: Literal["none", "traceparent"] = "none"
    state: Literal["auto", "proxy", "backend"] = "auto"
    breaker: Breaker | None = Breaker()
    retries: Retries = Retries()


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """A backend that a model may go to. `model`: its name for it; None passes the client's name on. `weight`: its part
    of the load beside others with one; None follows when they fail."""

    upstream: Upstream
    model: str | None = None
    weight: float | None = None

    def __str__(self) -> str:
        renamed = f" as {self.model}" if self.model else ""
        return f"{self.upstream.name}{renamed}" + (f" (weight {self.weight:g})" if self.weight is not None else "")


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Where the models that match a pattern go.

    `targets`: at least one. `on_context_length`: where a request goes that is too long for them; None tells the client.
    `hosted_tools`: None is the default of each kind of tool (mapping.md 5.4). `foreign_reasoning`: what becomes of
    another backend's thinking (8.6).
    `participant_names`: whether a Chat message's name is put before its words (2.3).
    `fast_mode`: whether a client's wish for fast answers is passed on, at their price (11.3). `inference_geo`: what
    becomes of the place that Claude is to answer in, toward other vendors (11.1).
    `validate_output`: whether an answer in a form that the backend does not enforce is checked (9.2). `stop_match`:
    what becomes of the backend's stream behind a stop string that the proxy found (7.3).
    `native_finish_reason`: Chat clients are told the backend's own word as well (12.2). `responses_done`: streams of
    Responses end with `[DONE]`, as Open Responses have it (13.1).
    `reasoning_field`: what Chat clients get thinking under (8.5).
    `fan_out`: the most choices that a backend which gives one is asked for, each by a request of its own, 2 to
    `MOST_CHOICES`; 1 refuses several (7.4).
    """

    match: str
    pattern: re.Pattern[str]
    targets: tuple[RouteTarget, ...]
    loss: LossPolicy | None = None
    on_context_length: RouteTarget | None = None
    hosted_tools: Literal["refuse", "drop"] | None = None
    response_model: Literal["upstream", "alias"] = "upstream"
    native_finish_reason: bool = False
    responses_done: bool = False
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    foreign_reasoning: Literal["drop", "text"] = "drop"
    fast_mode: bool = False
    inference_geo: Literal["refuse", "drop"] = "refuse"
    participant_names: Literal["drop", "prefix"] = "drop"
    validate_output: Literal["off", "record", "error"] = "record"
    stop_match: Literal["drain", "cancel"] = "drain"
    fan_out: int = 1

    @property
    def all_targets(self) -> tuple[RouteTarget, ...]:
        """Every one that a request may end at."""
        beside = self.on_context_length
        return self.targets if beside is None else (*self.targets, beside)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """What the operator knows of models that the table does not, or knows better (mapping.md 18).

    `match` is a glob over the backend's names; `base`: the row to start from, None for the model's own; `given`: the
    fields of `ModelProfile` that are set. `tokenizer`: a file that the library `tokenizers` reads.
    """

    match: str
    pattern: re.Pattern[str]
    base: ModelProfile | None
    given: Mapping[str, object]
    tokenizer: Path | None = None

    def over(self, known: ModelProfile) -> ModelProfile:
        """`known` is what the table says of the model."""
        base = self.base or known
        return replace(base, name=self.match if base.unknown else base.name, **self.given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The store in which replicas count together, and what holds while it is away (operations.md 9.4)."""

    url: SecretStr
    on_failure: Literal["open", "closed", "local"] = "local"


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where responses and conversations are kept, and for how long after they were written (seconds). `keys` seal them:
    the first seals, all open. `most`: bytes of one response or of one item."""

    url: SecretStr
    ttl: float
    keys: tuple[SecretBytes, ...] = ()
    most: int = MAX_STORED


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration, valid as a whole. `tenants`: by name; None asks nobody for a key. `shared_limits`: None counts
    in this process alone, which keeps in `limits_file`, if there is one, what a restart must not forget.
    `tenant_label`: metrics name tenants. `state`: None keeps nothing."""

    upstreams: Mapping[str, Upstream]
    models: tuple[ModelRoute, ...]
    listen: Address = LISTEN
    admin_listen: Address = ADMIN_LISTEN
    workers: int = 1
    timeouts: Timeouts = field(default_factory=Timeouts)
    drain: Drain = field(default_factory=Drain)
    capacity: Capacity = field(default_factory=Capacity)
    max_body: int = MAX_BODY  # bytes
    reasoning_cache: bool = False
    carrier_keys: tuple[SecretBytes, ...] = ()  # of 32 bytes; the first seals, all open
    model_profiles: tuple[ProfileEntry, ...] = ()
    tenants: Mapping[str, Tenant] | None = None
    key_pepper: SecretBytes | None = None
    prices: tuple[Price, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()
    trust_request_id_from: tuple[str, ...] = ()  # headers, in lower case
    admin_token: SecretStr | None = None
    shared_limits: SharedLimits | None = None
    limits_file: Path | None = None
    state: StateSettings | None = None
    tenant_label: bool = True
    log_format: Literal["json", "text"] = "json"
    traces: Traces | None = None  # None sends no spans

    def route(self, model_name: str) -> ModelRoute | None:
        """The first entry whose pattern matches the name that the client asked for."""
        for entry in self.models:
            if entry.pattern.match(model_name):
                return entry
        return None

    def profile(self, model_name: str) -> ModelProfile:
        """What a model accepts, by the backend's name of it: the first entry that matches, over the table."""
        known = profile_of(model_name)
        for entry in self.model_profiles:
            if entry.pattern.match(model_name):
                return entry.over(known)
        return known

    def tokenizer(self, model_name: str) -> Path | None:
        """The model's own tokenizer, by the backend's name of the model."""
        entries = (entry for entry in self.model_profiles if entry.pattern.match(model_name))
        return next((entry.tokenizer for entry in entries), None)

    def with_demo_at(self, origin: str) -> "Settings":
        """The same with the embedded backend, whose port is known only once it has started, at `origin`."""
        demo = replace(self.upstreams[DEMO_UPSTREAM], base_url=f"{origin}/v1")
        upstreams = {**self.upstreams, DEMO_UPSTREAM: demo}

        def moved(target: RouteTarget) -> RouteTarget:
            return replace(target, upstream=upstreams[target.upstream.name])

        routes = (replace(route, targets=tuple(map(moved, route.targets))) for route in self.models)
        return replace(self, upstreams=upstreams, models=tuple(routes))
