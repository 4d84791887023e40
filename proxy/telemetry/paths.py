"""The series that one way through the proxy adds to.

A request adds to two dozen series. Looking up each by its labels costs more than adding does, so what shares its labels
is looked up together, once.
"""

from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING

from proxy.telemetry.series import NONE, Distribution, Sum

if TYPE_CHECKING:
    from proxy.telemetry.traffic import Traffic


# That backends are known to answer with; what else one may say is a class.
_CODES = frozenset({*(status.value for status in HTTPStatus), 529})


class Tokens:
    """Of one model at one upstream, by type."""

    __slots__ = ("cache_read", "cache_write", "input", "output", "reasoning")

    def __init__(self, traffic: "Traffic", model: str, upstream: str) -> None:
        self.input = traffic.tokens.of(model, upstream, "input")
        self.output = traffic.tokens.of(model, upstream, "output")
        self.cache_read = traffic.tokens.of(model, upstream, "cache_read")
        self.cache_write = traffic.tokens.of(model, upstream, "cache_write")
        self.reasoning = traffic.tokens.of(model, upstream, "reasoning")


class Path:
    """`client` and `backend` are protocols, the others are labels: see `Traffic.path`. A series that nobody asks for is
    not made: it would be shown with zeros."""

    def __init__(
        self, traffic: "Traffic", client: str, backend: str, upstream: str, model: str, *, stream: bool
    ) -> None:
        self._traffic = traffic
        self.client = client
        self.backend = backend
        self.upstream = upstream
        self.model = model
        self._stream = "true" if stream else "false"
        self._requests: dict[tuple[int, str], Sum] = {}
        self._attempts: dict[str, Sum] = {}
        self._answers: dict[int, Distribution] = {}

    def requests(self, status: int, outcome: str) -> Sum:
        """Those that ended so."""
        found = self._requests.get((status, outcome))
        if found is None:
            labels = (self.client, self.backend, self.model, str(status), outcome)
            found = self._requests[status, outcome] = self._traffic.requests.of(*labels)
        return found

    def attempts(self, result: str) -> Sum:
        """Requests to the upstream that came to this."""
        found = self._attempts.get(result)
        if found is None:
            found = self._attempts[result] = self._traffic.attempts.of(self.upstream, result)
        return found

    def upstream_duration(self, code: int) -> Distribution:
        """Of answers with this status; 0: without any."""
        found = self._answers.get(code)
        if found is None:
            label = NONE if not code else str(code) if code in _CODES else f"{min(code // 100, 9)}xx"
            found = self._answers[code] = self._traffic.upstream_duration.of(self.upstream, self.model, label)
        return found

    @cached_property
    def duration(self) -> Distribution:
        """From accept to the last byte."""
        return self._traffic.duration.of(self.client, self.backend, self.model, self._stream)

    @cached_property
    def request_bytes(self) -> Distribution:
        """Of bodies."""
        return self._traffic.request_bytes.of(self.client)

    @cached_property
    def response_bytes(self) -> Distribution:
        """Of bodies."""
        return self._traffic.response_bytes.of(self.client)

    @cached_property
    def first_token(self) -> Distribution:
        """Of streams."""
        return self._traffic.first_token.of(self.client, self.backend, self.model)

    @cached_property
    def overhead(self) -> Distribution:
        """The proxy's own time."""
        return self._traffic.overhead.of(self.client, self.backend)

    @cached_property
    def translate_request(self) -> Distribution:
        """Of the proxy's time."""
        return self._traffic.translate.of(self.client, self.backend, "request")

    @cached_property
    def translate_response(self) -> Distribution:
        """Of the proxy's time."""
        return self._traffic.translate.of(self.client, self.backend, "response")

    @cached_property
    def translate_stream(self) -> Distribution:
        """Of the proxy's time."""
        return self._traffic.translate.of(self.client, self.backend, "stream")

    @cached_property
    def first_event(self) -> Distribution:
        """Of the upstream's streams."""
        return self._traffic.first_event.of(self.upstream, self.model)

    @cached_property
    def stall(self) -> Distribution:
        """Of the upstream's streams."""
        return self._traffic.stall.of(self.upstream)

    @cached_property
    def inter_token(self) -> Distribution:
        """Of the backend's streams."""
        return self._traffic.inter_token.of(self.backend, self.model)

    @cached_property
    def tokens(self) -> Tokens:
        """Of the model at the upstream."""
        return Tokens(self._traffic, self.model, self.upstream)
