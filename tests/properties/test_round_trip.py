"""A request that is read and written in its own protocol comes back (invariant I3 of mapping.md section 20).

The product does not go this way (see `test_pass_through`). But what reader and writer of one protocol lose between
them is lost between it and any other: so all that is not told is the same, up to `normal_forms`, and once written a
request stays what it is.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.canonical import jsontext
from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Path
from proxy.canonical.target import Target
from proxy.canonical.tools import HostedTool
from proxy.translation.codecs import BACKENDS, CLIENTS
from proxy.translation.prepare import read
from proxy.translation.profiles import profile_of
from proxy.upstream.dialects import PROFILES
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Json, Protocol
from tests.properties.made_requests import conversations, with_unknown_fields
from tests.properties.normal_forms import normal
from tests.properties.request_places import Place, minimal, places, title
from tests.properties.test_fields import tried
from tests.properties.test_fuzz import requests
from tests.properties.told_places import Telling, differences, hidden
from tests.test_recordings import recordings

EXAMPLES = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
VENDORS: dict[Protocol, tuple[str, str]] = {
    "chat": ("openai", "gpt-5.6"),
    "responses": ("openai", "gpt-5.6"),
    "messages": ("anthropic", "claude-opus-5"),
}
USER: Json = {"role": "user", "content": "hi"}
ASSISTANT: Json = {"role": "assistant", "content": "I will"}
# Recordings that need what only the vendor has: typed tools, a store, threads.
REFUSED = {"chat": 0, "responses": 19, "messages": 8}


def written(protocol: Protocol, request: Json) -> tuple[Json, list[Path]]:
    """The request read and written, and the places that the losses told. Raises `Rejected`."""
    dialect, model = VENDORS[protocol]
    raw = json.dumps(request).encode()
    losses = Telling()
    canonical = read(protocol, json.loads(raw), raw, losses)
    for tool in canonical.tools:
        if isinstance(tool, HostedTool):
            CLIENTS[protocol].read_hosted_tool(tool, canonical.extra, losses)
    target = Target(protocol, request["model"], PROFILES[protocol][dialect], profile_of(model))
    body = BACKENDS[protocol].write_request(canonical, target, losses)
    return json.loads(jsontext.dumps(body)), losses.places


def faults(protocol: Protocol, request: Json) -> Iterator[str]:
    """What changed and was not told, at first and when the result is read and written again. Raises `Rejected`."""
    once, told = written(protocol, request)
    asked = json.loads(jsontext.well_formed(json.dumps(request, ensure_ascii=False)))
    yield from differences(normal(protocol, hidden(asked, told)), normal(protocol, once))
    twice, _ = written(protocol, once)
    if twice != once:
        yield from (f"the second time, {fault}" for fault in differences(once, twice))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_real_requests_come_back(protocol: Protocol) -> None:
    found: list[str] = []
    refused = 0
    for name, recording in recordings(ENDPOINTS[protocol]):
        try:
            found += [f"{name}: {fault}" for fault in faults(protocol, recording["body"])]
        except Rejected:
            refused += 1
    assert (found, refused) == ([], REFUSED[protocol])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_field_comes_back(protocol: Protocol) -> None:
    found: list[str] = []

    def goes_below(place: Place) -> bool:
        try:
            written(protocol, begun(protocol, place.around(minimal(place.struct))))
        except Rejected:
            return False
        return True

    for place in places(protocol, goes_below):
        for name, value, _, request in tried(place, protocol):
            try:
                mistakes = list(faults(protocol, begun(protocol, request)))
            except Rejected:
                continue
            found += [f"{title(place.struct)}.{name} = {value!r:.70}: {mistake}" for mistake in mistakes]
    assert found == []


def begun(protocol: Protocol, request: Json) -> Json:
    """The request with what Messages wants around a first message that is not the user's."""
    if protocol != "messages" or not request["messages"] or request["messages"][0]["role"] == "user":
        return request
    first, *rest = request["messages"]
    behind = rest or [USER] if first["role"] == "assistant" else [ASSISTANT, USER]
    return {**request, "messages": [USER, first, *behind]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@EXAMPLES
@given(data=st.data())
def test_made_requests_come_back(protocol: Protocol, data: st.DataObject) -> None:
    made = st.one_of(conversations(protocol), st.sampled_from(requests(protocol)))
    request = data.draw(with_unknown_fields(data.draw(made)))
    try:
        mistakes = list(faults(protocol, request))
    except Rejected:
        return
    assert mistakes == []
