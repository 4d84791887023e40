"""No field of a request is lost in silence (invariant I11 of mapping.md section 20).

Each field of the vendors' types is set alone, at every place and with every word it may have: then the backend's
request, or the way its reply is written, is another one, or a loss tells the field's place, or an error does. So is a
field that nobody knows. Places are told in the client's terms: each is one of the client's request.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from proxy.canonical.errors import Reason, Rejected
from proxy.canonical.loss import Rule, format_path
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import PROTOCOLS, Json, Protocol
from tests.properties.field_samples import DEFAULTS, MEANINGLESS, SAID_BY_THE_MODEL
from tests.properties.request_places import Place, minimal, places, title

BACKENDS: list[tuple[Protocol, str, str]] = [
    ("chat", "generic", "some-model"),
    ("chat", "openai", "gpt-4.1"),
    ("responses", "generic", "some-model"),
    ("responses", "openai", "gpt-5.6"),
    ("messages", "generic", "some-model"),
    ("messages", "anthropic", "claude-opus-5"),
    ("messages", "anthropic", "claude-sonnet-4-5"),
]
PAIRS = [(client, *backend) for client in PROTOCOLS for backend in BACKENDS if backend[0] != client]
UNKNOWN = "not_in_any_sheet"
OPEN = {"InputSchemaTyped"}  # a JSON schema may hold anything

# Tools that only a vendor knows are lost as a whole, and so are the checks that it made.
OF_THE_VENDOR = (Rule.HOSTED_TOOL,)
CHECKS = ("pending_safety_checks", "acknowledged_safety_checks")


@dataclass(frozen=True)
class Outcome:
    """What became of a request. `refused` is the place that an error names; `malformed`: it is no request at all."""

    sent: object = None
    losses: frozenset[tuple[Rule, str, str]] = frozenset()
    refused: str | None = None
    malformed: str | None = None


def outcome(client: Protocol, target: Target, request: Json) -> Outcome:
    try:
        prepared = pair.prepare(pair.peek(client, json.dumps(request).encode()), target, pair.Options())
    except Rejected as rejected:
        if rejected.error.reason is Reason.LOSS_REFUSED:
            return Outcome(refused=rejected.error.param)
        return Outcome(malformed=rejected.error.message)
    told = frozenset((loss.rule, loss.level, loss.path) for loss in prepared.losses)
    reply = replace(prepared.context, echo={}, estimate_prompt=int)
    return Outcome((prepared.body, prepared.stream, prepared.prewarm, repr(reply)), told)


def names(told: str, at: str) -> bool:
    """Whether a path that was told is that of a field, within it, or of what holds it."""
    return told == at or told.startswith((f"{at}.", f"{at}[")) or at.startswith((f"{told}.", f"{told}["))


def leads_nowhere(told: str, request: Json) -> bool:
    """Whether a path that was told is none of the request."""
    node = request
    for step in re.findall(r"[^.\[\]]+", told):
        if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return True
    return told == ""


def is_told(without: Outcome, with_field: Outcome, at: str) -> bool:
    if with_field.refused is not None:
        return names(with_field.refused, at)
    if with_field.sent != without.sent:
        return True
    return any(names(path, at) for _, _, path in with_field.losses - without.losses)


def is_lost_whole(found: Outcome, place: Place) -> bool:
    """Whether all of the object at a place, or what holds it, is refused, left out, or the vendor's own."""
    at = format_path(place.path)
    if found.refused is not None:
        return names(found.refused, at)
    return place.path != () and any(
        (level == "drop" or rule in OF_THE_VENDOR or path.endswith(CHECKS)) and names(path, at) and len(path) <= len(at)
        for rule, level, path in found.losses
    )


def is_idle(struct: object, name: str, value: Json, model: str) -> bool:
    """Whether a field with this value says nothing that the backend would not do unasked."""
    idle = SAID_BY_THE_MODEL.get(model, {})
    return value == {} or any(
        key in MEANINGLESS or value in DEFAULTS.get(key, []) or value in idle.get(key, [])
        for key in (f"{title(struct)}.{name}", name)
    )


@pytest.mark.parametrize(("client", "protocol", "dialect", "model"), PAIRS)
def test_every_field_is_mapped_or_told(client: Protocol, protocol: Protocol, dialect: str, model: str) -> None:
    target = Target(protocol, model, PROFILES[protocol][dialect], profile_of(model))
    legal: set[str] = set()
    illegal: dict[str, str] = {}

    def goes_below(place: Place) -> bool:
        found = outcome(client, target, place.around(minimal(place.struct)))
        if found.malformed is not None:
            illegal[title(place.struct)] = found.malformed
            return False
        legal.add(title(place.struct))
        return not is_lost_whole(found, place)

    silent: list[str] = []
    astray: list[str] = []
    for place in places(client, goes_below):
        for name, value, without, with_field in tried(place, client):
            if is_idle(place.struct, name, value, model):
                continue
            at = format_path((*place.path, name))
            after = outcome(client, target, with_field)
            if after.malformed is not None or not is_told(outcome(client, target, without), after, at):
                silent.append(f"{at} = {value!r:.70} of {title(place.struct)}: {after.malformed or after.refused}")
            told = [path for _, _, path in after.losses] if after.refused is None else [after.refused]
            astray += [f"{path} for {at} = {value!r:.70}" for path in told if leads_nowhere(path, with_field)]
    assert silent == []
    assert astray == []
    # What one role can't hold is tried in the other.
    assert {name: why for name, why in illegal.items() if name not in legal} == {}


def tried(place: Place, client: Protocol) -> Iterator[tuple[str, Json, Json, Json]]:
    """What `Place.requests` gives, and a field that nobody knows."""
    yield from place.requests(client)
    if title(place.struct) not in OPEN:
        plain = minimal(place.struct)
        yield UNKNOWN, "x", place.around(plain), place.around({**plain, UNKNOWN: "x"})
