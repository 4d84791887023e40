"""Between two sides of one protocol only the model's name changes (invariant I3 of mapping.md section 20, P1).

Not even the spelling of the JSON does. What comes in an envelope belongs to another backend: it alone is taken out.
"""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.canonical.jsontext import well_formed
from proxy.canonical.loss import Rule, format_path
from proxy.canonical.target import Dialect, Target
from proxy.translation.envelope import Scope, seal
from proxy.translation.pair import Options, peek, prepare
from proxy.translation.prepared import Prepared
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Json, Protocol
from tests.properties.made_requests import conversations, spelled, with_unknown_fields
from tests.test_recordings import asked, recordings

EXAMPLES = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NEW = 'the "backend\'s" m\u00f6del'
OPTIONS = st.builds(Options, response_model=st.sampled_from(["upstream", "alias"]), always_stream=st.booleans())


def passed(protocol: Protocol, raw: bytes, model: str, options: Options | None = None) -> Prepared:
    """The request toward the vendor of the protocol."""
    vendor = "anthropic" if protocol == "messages" else "openai"
    return prepare(peek(protocol, raw), Target(protocol, model, Dialect(vendor, vendor)), options or Options())


def is_renamed(raw: bytes, body: bytes) -> bool:
    """Whether `body` is `raw` with another text in one place, which is the new name."""
    before, name, after = body.partition(json.dumps(NEW, ensure_ascii=False).encode())
    return bool(name) and raw.startswith(before) and raw.endswith(after)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@EXAMPLES
@given(data=st.data())
def test_only_the_models_name_changes(protocol: Protocol, data: st.DataObject) -> None:
    request = data.draw(with_unknown_fields(data.draw(conversations(protocol))))
    raw = data.draw(spelled(request))
    options = data.draw(OPTIONS)
    unchanged = passed(protocol, raw, request["model"], options)
    assert (unchanged.body, unchanged.losses) == (raw, [])
    changed = passed(protocol, raw, NEW, options)
    assert json.loads(changed.body) == {**request, "model": NEW}
    assert is_renamed(raw, changed.body)
    assert changed.losses == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_real_requests_keep_every_byte(protocol: Protocol) -> None:
    for name, recording in recordings(ENDPOINTS[protocol]):
        raw = asked(recording["body"])
        assert passed(protocol, raw, recording["body"]["model"]).body == raw, name
        assert is_renamed(raw, passed(protocol, raw, NEW).body), name


# --- envelopes ---


def decoded(raw: bytes) -> Json:
    """The value, well-formed as what is written anew must be."""
    return json.loads(well_formed(json.dumps(json.loads(raw), ensure_ascii=False)))


ENVELOPES = st.sampled_from([seal({"k": ["text"]}, Scope("a" * 12)), seal({"k": []}, Scope("b" * 12, (b"k" * 32,)))])


def carrying(protocol: Protocol, envelope: str) -> Json:
    """A block, entry or item that holds an envelope."""
    match protocol:
        case "chat":
            return {"type": "reasoning.encrypted", "data": envelope, "index": 0}
        case "messages":
            return {"type": "thinking", "thinking": "hm", "signature": envelope}
        case _:
            return {"type": "reasoning", "summary": [], "encrypted_content": envelope}


def holders(protocol: Protocol, request: Json) -> list[tuple[tuple[str | int, ...], list[Json]]]:
    """The lists that can hold what carries an envelope, with their places."""
    if protocol == "responses":
        return [(("input",), request["input"])]
    found: list[tuple[tuple[str | int, ...], list[Json]]] = []
    for index, message in enumerate(request["messages"]):
        name = "content" if protocol == "messages" else "reasoning_details"
        if message["role"] == "assistant":
            found.append((("messages", index, name), message.setdefault(name, [])))
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
@EXAMPLES
@given(data=st.data())
def test_only_envelopes_are_taken_out(protocol: Protocol, data: st.DataObject) -> None:
    request = data.draw(with_unknown_fields(data.draw(conversations(protocol)), most=1))
    lists = holders(protocol, request)
    before = decoded(json.dumps(request).encode())
    for message in before.get("messages", ()):
        if message.get("reasoning_details") == []:
            del message["reasoning_details"]  # a list that held nothing else goes with it
    told: list[str] = []
    for path, entries in lists:
        index = data.draw(st.integers(0, len(entries)))
        entries.insert(index, carrying(protocol, data.draw(ENVELOPES)))
        told.append(format_path((*path, index)))
    prepared = passed(protocol, data.draw(spelled(request)), NEW)
    assert decoded(prepared.body) == {**before, "model": NEW}
    assert [(loss.rule, loss.path) for loss in prepared.losses] == [(Rule.FOREIGN_REASONING, path) for path in told]
