"""Every deviation reaches every client as a legal stream that its SDK reads, and that equals the whole reply."""

import json

import pytest

from proxy.canonical.target import Target
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from tests.harness import sdk
from tests.harness.assemble import arguments_of, assemble
from tests.harness.grammar import check_stream
from tests.harness.wire import DONE, PROTOCOLS, Json, Protocol, chat_event, read_events, typed_event
from tests.properties.test_streams import comparable
from tests.quirks import chat_quirks, messages_quirks, responses_quirks
from tests.quirks.quirk import Quirk

QUIRKS: dict[Protocol, list[Quirk]] = {
    "chat": chat_quirks.QUIRKS,
    "messages": messages_quirks.QUIRKS,
    "responses": responses_quirks.QUIRKS,
}
PAIRS: list[tuple[Protocol, Protocol, Quirk]] = [
    (client, backend, quirk)
    for backend in PROTOCOLS
    for quirk in QUIRKS[backend]
    for client in PROTOCOLS
    if client != backend
]


def named(pairs: list[tuple[Protocol, Protocol, Quirk]]) -> list[Json]:
    return [pytest.param(*pair, id=f"{pair[1]}-{pair[0]}-{pair[2].name}") for pair in pairs]


HEALTHY = named([pair for pair in PAIRS if pair[2].stop is not None])
BROKEN = named([pair for pair in PAIRS if pair[2].stop is None])
READERS = named(PAIRS[::2])  # one client each: how bytes are cut is the reader's business alone

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
NAMES = ("get_weather", "get_time")
ASKED: dict[Protocol, dict[str, Json]] = {
    "chat": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES],
        "stream_options": {"include_usage": True},
    },
    "responses": {"input": "Hi", "tools": [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]},
    "messages": {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": name, "input_schema": SCHEMA} for name in NAMES],
    },
}
STOPS: dict[Protocol, dict[str, str]] = {
    "chat": {"end": "stop", "tool": "tool_calls", "length": "length", "filter": "content_filter", "refusal": "stop"},
    "responses": {"end": "completed", "tool": "completed", "length": "incomplete", "filter": "incomplete"},
    "messages": {"end": "end_turn", "tool": "tool_use", "length": "max_tokens", "filter": "refusal"},
}
STOPS["responses"] |= {"refusal": "completed", "stop_sequence": "completed"}
STOPS["messages"] |= {"refusal": "refusal", "stop_sequence": "stop_sequence"}
BYTEWISE_LIMIT = 20_000  # longer streams are not cut at every byte


def prepared(client: Protocol, backend: Protocol, quirk: Quirk, *, stream: bool) -> Prepared:
    wire = {"model": "demo-model", **ASKED[client], "stream": stream}
    if not stream:
        wire.pop("stream_options", None)
    target = Target(backend, "demo-model", quirk.dialect)
    asked = pair.prepare(pair.peek(client, json.dumps(wire).encode()), target, pair.Options("req_1"))
    asked.context.now = 1790000000
    return asked


def raw(backend: Protocol, quirk: Quirk) -> bytes:
    def written(event: Json) -> bytes:
        if isinstance(event, bytes):
            return event
        if event != DONE:  # half surrogates can't be written but as escapes
            return f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode().removeprefix(b"event: None\n")
        return chat_event(event).encode() if backend == "chat" else typed_event(event).encode()

    return b"".join(map(written, quirk.events))


def translated(client: Protocol, backend: Protocol, quirk: Quirk, chunks: list[bytes]) -> bytes:
    translation = prepared(client, backend, quirk, stream=True).translation()
    return b"".join([*map(translation.feed, chunks), translation.end()])


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[place : place + 1] for place in range(len(stream))]


@pytest.mark.parametrize(("client", "backend", "quirk"), READERS)
def test_neither_cuts_nor_line_ends_change_what_is_told(client: Protocol, backend: Protocol, quirk: Quirk) -> None:
    stream = raw(backend, quirk)
    told = translated(client, backend, quirk, [stream])
    crlf = b"\xef\xbb\xbf" + stream.replace(b"\n", b"\r\n")
    assert translated(client, backend, quirk, [crlf]) == told
    if len(stream) < BYTEWISE_LIMIT:
        assert translated(client, backend, quirk, bytewise(stream)) == told
        assert translated(client, backend, quirk, bytewise(crlf)) == told


@pytest.mark.parametrize(("client", "backend", "quirk"), BROKEN)
def test_a_broken_answer_never_looks_finished(client: Protocol, backend: Protocol, quirk: Quirk) -> None:
    told = translated(client, backend, quirk, [raw(backend, quirk)])
    assert check_stream(client, told, expect_end="error") == []
    assert sdk.read_stream_error(client, told).message


@pytest.mark.parametrize(("client", "backend", "quirk"), HEALTHY)
def test_it_is_understood(client: Protocol, backend: Protocol, quirk: Quirk) -> None:
    told = translated(client, backend, quirk, [raw(backend, quirk)])
    assert check_stream(client, told) == []
    reply = assemble(client, read_events(told.decode()).events)
    assert meaning(client, reply) == expected(client, quirk)
    if helper_reads(client, quirk):
        assert meaning(client, sdk.read_stream(client, told)) == expected(client, quirk)


@pytest.mark.parametrize(("client", "backend", "quirk"), HEALTHY)
def test_the_stream_is_the_whole_reply(client: Protocol, backend: Protocol, quirk: Quirk) -> None:
    if (quirk.late and client == "messages") or not parses(client, quirk):
        return  # what a stream can't take back, and arguments that only a whole reply can wrap
    stream = raw(backend, quirk)
    streamed = assemble(client, read_events(translated(client, backend, quirk, [stream]).decode()).events)
    asked = prepared(client, backend, quirk, stream=False)
    folding = asked.folding()
    folding.feed(stream)
    wholes = [asked.take_folded(folding)]
    if quirk.whole is not None:
        wholes.append(prepared(client, backend, quirk, stream=False).reply(json.dumps(quirk.whole).encode()))
    for whole in wholes:
        assert whole is not None
        assert plain(client, json.loads(whole)) == plain(client, streamed)
        sdk.read_whole(client, whole)


def plain(client: Protocol, reply: Json) -> Json:
    """A reply without what only one of the two forms has."""
    if client == "chat":
        for entry in reply["choices"][0]["message"].get("annotations") or ():
            entry.pop("index", None)
    return comparable(client, reply)


def parses(client: Protocol, quirk: Quirk) -> bool:
    return client != "messages" or all(isinstance(arguments, dict) for _, arguments in quirk.calls)


def helper_reads(client: Protocol, quirk: Quirk) -> bool:
    """The SDKs' helpers raise on answers that are cut, and on arguments that are no JSON, of the vendors' own too."""
    return parses(client, quirk) and not (client != "messages" and quirk.stop in ("length", "filter"))


def expected(client: Protocol, quirk: Quirk) -> Json:
    cited = quirk.cited
    return quirk.text, quirk.reasoning, quirk.calls, STOPS[client].get(quirk.stop or "", "stop"), cited


def meaning(client: Protocol, reply: Json) -> Json:
    text, reasoning, calls, stop, cited = MEANINGS[client](reply)
    joined = "".join(text).replace("\n", ""), "".join(reasoning).replace("\n", "")
    return *joined, [(name, arguments_of(arguments)) for name, arguments in calls], stop, tuple(cited)


def _of_chat(reply: Json) -> Json:
    choice = reply["choices"][0]
    message = choice["message"]
    return (
        [message.get("content") or "", message.get("refusal") or ""],
        [message.get("reasoning_content") or ""],
        [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()],
        choice["finish_reason"],
        [entry["url_citation"]["url"] for entry in message.get("annotations") or ()],
    )


def _of_messages(reply: Json) -> Json:
    blocks = reply["content"]
    return (
        [block["text"] for block in blocks if block["type"] == "text"],
        [block["thinking"] for block in blocks if block["type"] == "thinking"],
        [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        reply["stop_reason"],
        [entry["url"] for block in blocks for entry in block.get("citations") or () if "url" in entry],
    )


def _of_responses(reply: Json) -> Json:
    items = reply["output"]
    said = [part for item in items if item["type"] == "message" for part in item["content"]]
    thought = [item for item in items if item["type"] == "reasoning"]
    return (
        [part.get("text", part.get("refusal")) for part in said],
        [part["text"] for item in thought for part in [*item["summary"], *(item.get("content") or [])]],
        [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
        reply["status"],
        [entry["url"] for part in said for entry in part.get("annotations") or () if "url" in entry],
    )


MEANINGS = {"chat": _of_chat, "messages": _of_messages, "responses": _of_responses}
