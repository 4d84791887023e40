"""Whatever arrives, from a client or from a backend: no exception but the declared one, and only legal streams leave.

Requests that real clients sent, and replies and streams as the vendors send them, are mutated and go the whole way.
`DRAGOMAN_FUZZ=3000` is a long run: so many examples of each test instead of a few, however long they take.
"""

import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from proxy.canonical.errors import Rejected
from proxy.canonical.jsontext import NotJson, loads
from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.codecs import ClientProtocol
from proxy.translation.envelope import Scope
from proxy.translation.pair import Options
from proxy.translation.prepared import Prepared
from proxy.translation.profiles import profile_of
from proxy.translation.refused_fields import REMOVABLE
from proxy.upstream.dialects import PROFILES
from tests.harness.grammar import check_stream
from tests.harness.wire import ENDPOINTS, PROTOCOLS, Json, Protocol
from tests.properties.mutations import damaged, mutated, text_of
from tests.properties.scripts import Part, Script, scripts
from tests.properties.spoken import EVENTS, WHOLE

CLIENTS: tuple[ClientProtocol, ...] = (*PROTOCOLS, "completions")
PAIRS = [(client, backend) for client in CLIENTS for backend in PROTOCOLS]
LONG = os.environ.get("DRAGOMAN_FUZZ")
pytestmark = [pytest.mark.timeout(0)] if LONG else []
EXAMPLES = settings(
    max_examples=int(LONG or 30),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
MODELS = (
    *("some-model", "gpt-4.1", "gpt-5.4", "gpt-6.2-sol", "o3", "deepseek-reasoner"),
    *("claude-opus-5-5", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-3-5-haiku", "claude-fable-5-1"),
)
SCOPES = (Scope(), Scope("a" * 12), Scope("a" * 12, (b"k" * 32,), "tenant"))
COMPLETIONS: list[Json] = [
    {"model": "m", "prompt": "Once upon", "max_tokens": 7, "stop": ["."], "temperature": 0.5, "n": 1},
    {"model": "m", "prompt": ["a time"], "stream": True, "stream_options": {"include_usage": True}, "logprobs": 2},
    {"model": "m", "prompt": [17, 18], "echo": True, "suffix": "end", "best_of": 2, "logit_bias": {"5": 1}},
]
RECORDINGS = Path(__file__).parent.parent / "recordings"
SMALL = 12_000  # bytes of a recording: a mutation of a larger one would mostly hit a schema


@cache
def requests(client: ClientProtocol) -> list[Json]:
    """Requests of real clients, no two of one shape."""
    if client == "completions":
        return COMPLETIONS
    found: dict[str, Json] = {}
    for path in sorted(RECORDINGS.glob("*/*.json")):
        if path.stat().st_size < SMALL:
            recording = json.loads(path.read_text())
            if recording["path"].partition("?")[0] == ENDPOINTS[client]:
                found.setdefault(shape(recording["body"]), recording["body"])
    return list(found.values())


def shape(value: Json) -> str:
    """What a request is made of, whatever its words."""
    if isinstance(value, dict):
        return ",".join(f"{name}:{shape(inner)}" for name, inner in sorted(value.items()))
    if isinstance(value, list):
        return "[" + "".join(sorted({shape(inner) for inner in value})) + "]"
    return type(value).__name__


@st.composite
def targets(draw: st.DrawFn, backend: Protocol) -> Target:
    dialect = draw(st.sampled_from(sorted(PROFILES[backend])))
    model = draw(st.sampled_from(MODELS))
    drop = draw(st.booleans())
    return Target(backend, model, PROFILES[backend][dialect], profile_of(model), hosted_tools="drop" if drop else None)


@st.composite
def options(draw: st.DrawFn, backend: Protocol) -> Options:
    return Options(
        "req_1",
        strict=draw(st.integers(0, 9)) == 9,
        response_model=draw(st.sampled_from(["upstream", "alias"])),
        native_finish_reason=draw(st.booleans()),
        always_stream=draw(st.booleans()),
        scope=draw(st.sampled_from(SCOPES)),
        refused_fields=draw(st.frozensets(st.sampled_from(sorted(REMOVABLE[backend])), max_size=2)),
    )


@st.composite
def asked(draw: st.DrawFn, client: ClientProtocol, most: int) -> bytes:
    samples = st.sampled_from(requests(client))
    return text_of(draw(mutated(draw(samples), draw(samples), most)))


def prepared(raw: bytes, client: ClientProtocol, target: Target, how: Options) -> Prepared | None:
    try:
        seen = pair.peek(client, raw)
        ready = pair.prepare(seen, target, how)
    except Rejected:
        return None
    ready.context.now = 1_790_000_000
    return ready


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_any_request_is_translated_or_rejected(client: ClientProtocol, backend: Protocol, data: st.DataObject) -> None:
    raw = data.draw(asked(client, 5))
    ready = prepared(raw, client, data.draw(targets(backend)), data.draw(options(backend)))
    if ready is not None:
        assert isinstance(parsed(ready.body), dict)
        if not ready.same_protocol:
            json.loads(ready.body.decode(), parse_constant=pytest.fail)
    with suppress(Rejected):
        pair.read_request(pair.peek(client, raw))


def parsed(body: bytes) -> Json:
    try:
        return loads(body)
    except NotJson:
        pytest.fail(f"not JSON: {body[:200]!r}")


@st.composite
def spoken(draw: st.DrawFn, backend: Protocol, ready: Prepared) -> Script:
    """A script whose calls have names of tools that the backend was told of, mostly."""
    script = draw(scripts(backend))
    names = tool_names(loads(ready.body))
    if not names:
        return script
    return Script(
        tuple(named(part, draw(st.sampled_from(names))) if part.kind == "call" else part for part in script.parts),
        script.stop,
    )


class NamedPart(Part):
    """A call of a tool that was declared."""

    said = ""

    @property
    def name(self) -> str:
        return self.said


def named(part: Part, name: str) -> Part:
    part = NamedPart(part.kind, part.pieces, part.number, part.cited, part.cut)
    object.__setattr__(part, "said", name)
    return part


def tool_names(body: Json) -> list[str]:
    tools = body.get("tools") if isinstance(body, dict) else None
    found = [
        name
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict)
        for holder in (tool, tool.get("function"), tool.get("custom"))
        if isinstance(holder, dict) and isinstance(name := holder.get("name"), str)
    ]
    return sorted(set(found))


@st.composite
def exchanges(draw: st.DrawFn, client: ClientProtocol, backend: Protocol) -> Prepared:
    """A request that went through, real or slightly changed."""
    how, target = draw(options(backend)), draw(targets(backend))
    raw = draw(asked(client, 1))
    note(f"{raw!r}\n{target}\n{how}")
    ready = prepared(raw, client, target, how)
    if ready is None:
        ready = prepared(text_of(requests(client)[0]), client, Target(backend, "m"), Options("req_1"))
    assert ready is not None
    return ready


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_any_reply_is_translated_or_rejected(client: ClientProtocol, backend: Protocol, data: st.DataObject) -> None:
    ready = data.draw(exchanges(client, backend))
    reply = WHOLE[backend](data.draw(spoken(backend, ready)))
    raw = text_of(data.draw(mutated(reply, WHOLE[backend](data.draw(scripts(backend))))))
    streamed = data.draw(st.booleans())
    try:
        out = ready.take_streamed(raw) if streamed and not ready.same_protocol else ready.take(raw)
    except Rejected:
        return
    if out is None:
        assert parsed(ready.body)
    elif streamed and not ready.same_protocol:
        assert_legal(client, out, "clean")
    else:
        assert isinstance(parsed(out), dict)


def assert_legal(client: ClientProtocol, out: bytes, end: Literal["clean", "error"]) -> None:
    if client == "completions":
        assert out.decode().endswith("\n\n"), out[-200:]
        for line in out.decode().split("\n\n"):
            assert line in ("", ": ping", "data: [DONE]") or isinstance(json.loads(line.removeprefix("data: ")), dict)
    else:
        assert check_stream(client, out, expect_end=end) == []


@st.composite
def streams(draw: st.DrawFn, backend: Protocol, ready: Prepared) -> list[bytes]:
    changed: list[Json] = draw(
        mutated(EVENTS[backend](draw(spoken(backend, ready))), EVENTS[backend](draw(scripts(backend))), 3)
    )
    text = b""
    named = backend != "chat" and draw(st.booleans())
    for event in changed:
        kind = event.get("type") if named and isinstance(event, dict) else None
        if isinstance(kind, str) and not {"\r", "\n"} & set(kind):
            text += b"event: " + kind.encode(errors="replace") + b"\n"
        text += b"data: " + (b"[DONE]" if event == "[DONE]" else text_of(event)) + b"\n\n"
    return draw(damaged(text))


@pytest.mark.parametrize(("client", "backend"), [(client, backend) for client, backend in PAIRS if client != backend])
@EXAMPLES
@given(data=st.data())
def test_any_stream_becomes_a_legal_one(client: ClientProtocol, backend: Protocol, data: st.DataObject) -> None:
    ready = data.draw(exchanges(client, backend))
    translation = ready.translation()
    out = b"".join([*map(translation.feed, data.draw(streams(backend, ready))), translation.end()])
    while (again := translation.goes_on()) is not None:
        assert parsed(again)
        out += b"".join([*map(translation.feed, data.draw(streams(backend, ready))), translation.end()])
    note(out.decode())
    assert_legal(client, out, "error" if translation.failed else "clean")


@pytest.mark.parametrize(("client", "backend"), PAIRS)
@EXAMPLES
@given(data=st.data())
def test_any_stream_is_folded_or_rejected(client: ClientProtocol, backend: Protocol, data: st.DataObject) -> None:
    ready = data.draw(exchanges(client, backend))
    if ready.same_protocol:
        return
    folding = ready.folding()
    try:
        for chunk in data.draw(streams(backend, ready)):
            folding.feed(chunk)
        out = ready.take_folded(folding)
    except Rejected:
        return
    assert isinstance(parsed(ready.body if out is None else out), dict)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@EXAMPLES
@given(data=st.data())
def test_any_stream_passes_through(protocol: Protocol, data: st.DataObject) -> None:
    ready = data.draw(exchanges(protocol, protocol))
    translation = ready.translation()
    for chunk in data.draw(streams(protocol, ready)):
        translation.feed(chunk)
    translation.end()


@pytest.mark.parametrize("backend", PROTOCOLS)
@EXAMPLES
@given(data=st.data())
def test_any_error_is_read(backend: Protocol, data: st.DataObject) -> None:
    error: Json = {"type": "error", "error": {"type": "x", "message": "no", "code": "c", "param": "p"}, "detail": []}
    status = data.draw(st.sampled_from([400, 401, 404, 413, 429, 500, 502, 503, 529, 599]))
    pieces = data.draw(damaged(text_of(data.draw(mutated(error, WHOLE[backend](Script((), "end")))))))
    read = pair.read_backend_error(backend, status, b"".join(pieces))
    for client in CLIENTS:
        told, body = pair.write_client_error(client, read, "req_1")
        assert 400 <= told < 600
        assert isinstance(parsed(body), dict)
