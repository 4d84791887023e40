"""What the server needs to know of the telemetry that it sends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import SecretStr

Accept = Literal["always", "trusted", "never"]
Content = Literal["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"]

WITH_EVENTS: frozenset[Content] = frozenset({"EVENT_ONLY", "SPAN_AND_EVENT"})
ON_SPANS: frozenset[Content] = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT"})


@dataclass(frozen=True, slots=True)
class Traces:
    """Where spans go, by OTLP over HTTP, and of which requests. `sample`: the share, 0 to 1, of those whose trace
    begins here. `accept`: whose trace is continued (operations.md 2.2). `content`: where conversations are written, in
    the words of OpenTelemetry's own variable."""

    endpoint: str
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    sample: float = 0.1
    accept: Accept = "trusted"
    content: Content = "NO_CONTENT"

    @property
    def bound(self) -> int:
        """Ids of 64 bits below it are sampled."""
        return round(self.sample * 2**64)
