"""What was seen of one direction of an exchange, and the values that a case's paths name in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from tests.harness.assemble import assemble
from tests.harness.digest import Digest, digest
from tests.harness.paths import find
from tests.harness.wire import EventStream, Json, Protocol, read_events


@dataclass
class Capture:
    """A request that reached the backend, or a reply that reached the client.

    protocol: the backend's for a request, the client's for a reply.
    count: how many requests the backend got in this turn.
    streamed: the body is an event stream. broken: the connection ended before the body did.
    cancelled_ms: how long after the client had left the proxy closed its own connection.
    passed_through: both sides speak one protocol, so the proxy forwards the stream as it came.
    other: the opposite direction of the same exchange, absent if nothing went that way.
    """

    protocol: Protocol
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    status: int | None = None
    path: str | None = None
    count: int = 1
    streamed: bool = False
    broken: bool = False
    cancelled_ms: float | None = None
    passed_through: bool = False
    other: "Capture | None" = None

    @cached_property
    def text(self) -> str:
        """The body; bytes that are no UTF-8 become lone surrogates, which no assertion takes for text."""
        return self.body.decode("utf-8", "surrogateescape")

    @cached_property
    def json(self) -> Json:
        return json.loads(self.text)

    @cached_property
    def stream(self) -> EventStream:
        return read_events(self.text) if self.streamed else EventStream((), done=False)

    @cached_property
    def final(self) -> Json:
        """The whole reply: the body itself, or what its stream puts together."""
        return assemble(self.protocol, self.stream.events) if self.streamed else self.json

    @cached_property
    def digest(self) -> Digest:
        return digest(self.protocol, self.final)

    def values(self, path: str) -> list[Json]:
        """All values at a path. Raises ValueError if the body can't be read as what the path goes into."""
        root, _, name = path.partition(".")
        if root == "$headers":
            return [value for key, value in self.headers if key.lower() == name]
        if path.startswith("$"):
            return [SPECIAL[path](self)]
        if path.startswith("events"):
            events = [{"event": event.name, "data": event.data} for event in self.stream.events]
            return find({"events": events}, path)
        if root.partition("[")[0] == "final":
            return find({"final": self.final}, path)
        return find(self.json, path)


SPECIAL: dict[str, Callable[[Capture], Json]] = {
    "$status": lambda seen: seen.status,
    "$headers_text": lambda seen: "\n".join(f"{name.lower()}: {value}" for name, value in seen.headers),
    "$body_text": lambda seen: seen.text,
    "$path": lambda seen: seen.path,
    "$count": lambda seen: seen.count,
    "$upstream_count": lambda seen: seen.other.count if seen.other else 0,
    "$done": lambda seen: seen.stream.done,
}
