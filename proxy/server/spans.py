"""What is kept of a sampled request while it runs: ids and moments. Spans are made of it when it has ended.

A request that is not sampled has none of this, and costs one look at `Exchange.spans`.
"""

import os
import time
from collections.abc import Mapping
from time import perf_counter

from yarl import URL

from proxy.server import ids
from proxy.server.transcript import Transcript
from proxy.settings.telemetry import Traces
from proxy.telemetry import semconv
from proxy.telemetry.trace_context import TraceContext
from proxy.translation.prepared import Prepared
from proxy.upstream.attempt import Attempt
from proxy.upstream.backend import Backend

_ASKED_FOR: Mapping[str, str] = {
    "max_tokens": semconv.MAX_TOKENS,
    "max_completion_tokens": semconv.MAX_TOKENS,
    "max_output_tokens": semconv.MAX_TOKENS,
    "temperature": semconv.TEMPERATURE,
    "top_p": semconv.TOP_P,
    "top_k": semconv.TOP_K,
    "frequency_penalty": semconv.FREQUENCY_PENALTY,
    "presence_penalty": semconv.PRESENCE_PENALTY,
    "seed": semconv.SEED,
}
_WHOLE = frozenset({semconv.MAX_TOKENS, semconv.TOP_K, semconv.SEED})
_LARGEST = 2**63
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast", "standard_only"})
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}
_MOST_STOPS = 16


class Call:
    """The span of one request to a backend. `resends`: how often what it asks was asked before. `number`: from 1, over
    all of the exchange. `model`: the backend's name for it."""

    __slots__ = ("attempt", "backend", "host", "id", "model", "number", "port", "prepared", "resends")

    def __init__(
        self,
        number: int,
        attempt: Attempt,
        backend: Backend,
        url: URL,
        prepared: Prepared | None,
        resends: int,
        model: str | None,
    ) -> None:
        self.id = os.urandom(8).hex()
        self.number = number
        self.attempt = attempt
        self.backend = backend
        self.host, self.port = url.host, url.port
        self.model = model
        self.prepared = prepared
        self.resends = resends


class Spans:
    """Of one exchange. `id`: of the server's span; `tier`: the service tier that is asked for; `stops`: strings that
    end the answer, which are content."""

    __slots__ = ("_epoch", "asked_for", "calls", "fallbacks", "id", "started", "stops", "tier", "transcript")

    def __init__(self) -> None:
        self.id = os.urandom(8).hex()
        self.started = perf_counter()
        self._epoch = time.time_ns() - round(self.started * 1e9)
        self.calls: list[Call] = []
        self.fallbacks: list[tuple[str, str, str, float]] = []
        self.asked_for: dict[str, str | int | float] = {}
        self.tier: str | None = None
        self.stops: tuple[str, ...] = ()
        self.transcript = Transcript()

    def call(
        self,
        attempt: Attempt,
        backend: Backend,
        url: URL,
        prepared: Prepared | None,
        resends: int,
        model: str | None = None,
    ) -> Call:
        """A request to a backend begins."""
        call = Call(len(self.calls) + 1, attempt, backend, url, prepared, resends, model)
        self.calls.append(call)
        return call

    def note_fallback(self, one: str, other: str, cause: str) -> None:
        """The upstream `other` is asked in place of `one`."""
        self.fallbacks.append((one, other, cause, perf_counter()))

    def note_request(self, wire: Mapping[str, object]) -> None:
        """What a request for a model asks for: numbers, words of closed sets, ids, and no text of the client's."""
        told = self.asked_for
        for field, name in _ASKED_FOR.items():
            number = wire.get(field)
            if type(number) is int and abs(number) < _LARGEST:
                told[name] = number if name in _WHOLE else float(number)
            elif type(number) is float and name not in _WHOLE:
                told[name] = number
        if type(choices := wire.get("n")) is int and 1 < choices < _LARGEST:
            told[semconv.CHOICE_COUNT] = choices
        for given in (wire.get("reasoning_effort"), _effort(wire.get("reasoning")), _effort(wire.get("output_config"))):
            if type(given) is str and given in _EFFORTS:
                told[semconv.REASONING_LEVEL] = given
        for name, given in (
            (semconv.PREVIOUS_ID, wire.get("previous_response_id")),
            (semconv.CONVERSATION_ID, _id_in(wire.get("conversation"))),
        ):
            if type(given) is str and (given := ids.client_id(given)) is not None:
                told[name] = given
        if (kind := _output_type(wire)) is not None:
            told[semconv.OUTPUT_TYPE] = kind
        if type(tier := wire.get("service_tier")) is str and tier in _TIERS:
            self.tier = tier
        stops = wire.get("stop") or wire.get("stop_sequences")
        stops = stops if type(stops) is list else [stops]
        self.stops = tuple(stop for stop in stops if type(stop) is str)[:_MOST_STOPS]

    def unix_ns(self, moment: float) -> int:
        """A moment of `perf_counter` as Unix nanoseconds."""
        return self._epoch + round(moment * 1e9)


def begin(context: TraceContext, traces: Traces) -> Spans | None:
    """None for a request that is not sampled. A trace that begins here is decided by its id, one of a caller that is
    believed by the caller, and any other by chance: who makes up an id must not make up the decision."""
    sampled = context.sampled
    if context.parent is None:
        sampled = int(context.trace[16:], 16) < traces.bound
    elif sampled is None:
        sampled = int.from_bytes(os.urandom(8)) < traces.bound
    return Spans() if sampled else None


def _output_type(wire: Mapping[str, object]) -> str | None:
    """What Chat, Responses or Messages is told to answer in."""
    chat, responses, messages = (wire.get(name) for name in ("response_format", "text", "output_config"))
    for given in (chat, _inner(responses, "format"), _inner(messages, "format")):
        kind = _inner(given, "type")
        if type(kind) is str and kind in _OUTPUT_TYPES:
            return _OUTPUT_TYPES[kind]
    return None


def _id_in(conversation: object) -> object:
    return _inner(conversation, "id") or conversation


def _inner(section: object, name: str) -> object:
    return section.get(name) if type(section) is dict else None


def _effort(section: object) -> object:
    return _inner(section, "effort")
