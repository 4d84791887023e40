"""What a configuration file says is what the proxy does: keys that no other test reads from a file to their effect."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from proxy.settings import load
from tests.harness.assemble import assemble
from tests.harness.wire import read_events
from tests.server.serving import EVENTS, PATHS, REPLIES, REQUESTS, Proxy, says_hello, serving
from tests.translation.test_hosted_calls import message_events
from tests.upstream.scripted import HOLD, LAST, Scripted, Step, chunk, head, reply, stream

# A certificate of 127.0.0.1 that signs itself, with its key, for tests alone.
CERTIFICATE = Path(__file__).parent.parent / "upstream" / "certificate.pem"
SEARCH = {
    **REQUESTS["responses"],
    "tools": [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": {}}],
}


@asynccontextmanager
async def configured(
    folder: Path, base_url: str, *, model: dict[str, object] | None = None, **upstream: object
) -> AsyncIterator[Proxy]:
    """A proxy before one backend, as a file with these keys configures it."""
    entry = {"name": "one", "protocol": "chat", "base_url": base_url, "api_key": "proxy-key-1", **upstream}
    wire = {"upstreams": [entry], "models": [{"match": "*", "upstream": "one", **(model or {})}]}
    file = folder / "dragoman.yaml"
    file.write_text(yaml.safe_dump(wire))
    settings = load(file, {})
    async with serving(*settings.upstreams.values(), models=settings.models) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("hosted_tools", "status"),
    [({}, 200), ({"hosted_tools": "drop"}, 200), ({"hosted_tools": "refuse"}, 400)],
)
async def test_hosted_tools(tmp_path: Path, hosted_tools: dict[str, object], status: int) -> None:
    async with (
        Scripted(says_hello("chat", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=hosted_tools) as proxy,
    ):
        got, _, _ = await proxy.post(PATHS["responses"], SEARCH)
    assert got == status


async def test_hosted_tools_drop_is_about_all_kinds(tmp_path: Path) -> None:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}, SEARCH["tools"][1]]  # type: ignore[index]
    statuses = []
    for kept in ({}, {"hosted_tools": "drop"}):
        async with (
            Scripted(says_hello("chat", streamed=False)) as backend,
            configured(tmp_path, backend.base_url, model=kept) as proxy,
        ):
            statuses.append((await proxy.post(PATHS["responses"], {**REQUESTS["responses"], "tools": tools}))[0])
    assert statuses == [400, 200]


@pytest.mark.parametrize(("fan_out", "status"), [({}, 400), ({"fan_out": 2}, 200)])
async def test_fan_out(tmp_path: Path, fan_out: dict[str, object], status: int) -> None:
    async with (
        Scripted(says_hello("messages", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, protocol="messages", model=fan_out) as proxy,
    ):
        got, _, body = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "n": 2})
    assert (got, len(backend.asked), len(json.loads(body).get("choices", []))) == (
        status,
        *((2, 2) if fan_out else (0, 0)),
    )


@pytest.mark.parametrize(
    ("loss", "status", "shown"),
    [
        ("report", 200, True),
        ("off", 200, False),
        ("strict", 400, True),
        (["seed"], 400, True),
        (["top-k"], 200, True),
    ],
)
async def test_loss(tmp_path: Path, loss: object, status: int, shown: bool) -> None:
    async with (
        Scripted(says_hello("messages", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, protocol="messages", model={"loss": loss}) as proxy,
    ):
        got, headers, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "seed": 1})
    assert (got, "dragoman-loss" in headers) == (status, shown)


@pytest.mark.parametrize(("response_model", "name"), [("alias", "m"), ("upstream", "m-1")])
async def test_response_model(tmp_path: Path, response_model: str, name: str) -> None:
    async with (
        Scripted(says_hello("chat", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model={"model": "real", "response_model": response_model}) as proxy,
    ):
        replies = [
            json.loads((await proxy.post(PATHS[client], REQUESTS[client]))[2]) for client in ("chat", "messages")
        ]
    assert [wire["model"] for wire in replies] == [name] * 2
    assert [json.loads(asked.body)["model"] for asked in backend.asked] == ["real"] * 2


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
async def test_native_finish_reason(tmp_path: Path, streamed: bool, shown: bool) -> None:
    script = [
        step.replace(b"end_turn", b"tired___") if isinstance(step, bytes) else step
        for step in says_hello("messages", streamed=streamed)
    ]
    model: dict[str, object] = {"native_finish_reason": shown}
    async with (
        Scripted(script) as backend,
        configured(tmp_path, backend.base_url, protocol="messages", model=model) as proxy,
    ):
        _, _, body = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": streamed})
        record = await proxy.record()
    reply = assemble("chat", read_events(body.decode()).events) if streamed else json.loads(body)
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert (b'"native_finish_reason":"tired___"' in body, b"native_finish_reason" in body) == (shown, shown)
    assert (record["finish_reason"], record["finish_reason_native"]) == ("end", "tired___")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("backend_marks", [True, False])
@pytest.mark.parametrize("protocol", ["responses", "chat"])
async def test_responses_done(tmp_path: Path, protocol: str, backend_marks: bool, marked: bool) -> None:
    script = says_hello(protocol, streamed=True)
    if protocol == "responses" and backend_marks:
        script = stream(*EVENTS[protocol], "data: [DONE]\n\n")
    model: dict[str, object] = {"responses_done": marked}
    async with (
        Scripted(script) as backend,
        configured(tmp_path, backend.base_url, protocol=protocol, model=model) as proxy,
    ):
        _, _, body = await proxy.post(PATHS["responses"], {**REQUESTS["responses"], "stream": True})
    last = body.decode().rstrip().split("\n\n")[-1]
    if marked:
        assert (last, body.count(b"[DONE]")) == ("data: [DONE]", 1)
    elif protocol == "chat":
        assert last.startswith("event: response.completed")


@pytest.mark.parametrize("always", [True, False])
async def test_always_stream_upstream(tmp_path: Path, always: bool) -> None:
    async with (
        Scripted(says_hello("chat", streamed=always)) as backend,
        configured(tmp_path, backend.base_url, always_stream_upstream=always) as proxy,
    ):
        status, _, body = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert (status, json.loads(body)["content"]) == (200, [{"type": "text", "text": "Hello", "citations": None}])
    assert json.loads(backend.asked[0].body).get("stream", False) is always


@pytest.mark.parametrize(
    ("dialect", "key"),
    [("openai", "max_completion_tokens"), ({"base": "openai", "max_tokens_key": "max_tokens"}, "max_tokens")],
)
async def test_dialect(tmp_path: Path, dialect: object, key: str) -> None:
    async with (
        Scripted(says_hello("chat", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, dialect=dialect) as proxy,
    ):
        await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert key in json.loads(backend.asked[0].body)


@pytest.mark.parametrize(
    ("timeouts", "script"),
    [
        ({"total": "100ms"}, [head("application/json"), chunk('{"id":'), HOLD]),
        ({"first_event": "100ms"}, [HOLD]),
        ({"idle": "100ms"}, [*says_hello("chat", streamed=True)[:3], HOLD]),
    ],
)
async def test_timeouts_of_an_upstream(tmp_path: Path, timeouts: dict[str, object], script: list[Step]) -> None:
    async with (
        Scripted(script) as backend,
        configured(tmp_path, backend.base_url, timeouts=timeouts) as proxy,
    ):
        status, headers, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert (status, headers["dragoman-reason"]) == (504, "upstream_timeout")


@asynccontextmanager
async def encrypted(*, asks_for_certificate: bool) -> AsyncIterator[str]:
    """The base_url of a backend behind TLS, with the certificate above."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(200, json.dumps(REPLIES["chat"]), connection="close"))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("files", "asks_for_certificate", "status"),
    [
        ({}, False, 502),
        ({"ca_file": str(CERTIFICATE)}, False, 200),
        ({"ca_file": str(CERTIFICATE)}, True, 502),
        ({"ca_file": str(CERTIFICATE), "client_cert": str(CERTIFICATE)}, True, 200),
    ],
)
async def test_ca_file_and_client_cert(
    tmp_path: Path, files: dict[str, str], asks_for_certificate: bool, status: int
) -> None:
    async with (
        encrypted(asks_for_certificate=asks_for_certificate) as base_url,
        configured(tmp_path, base_url, **files) as proxy,
    ):
        got, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (got, headers.get("dragoman-reason")) == (status, None if status == 200 else "upstream_unreachable")


@pytest.mark.parametrize(("model", "said"), [({}, "Hello."), ({"foreign_reasoning": "text"}, "Hm.\n\nHello.")])
async def test_foreign_reasoning(tmp_path: Path, model: dict[str, object], said: str) -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": "another vendor's"}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [block, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "And?"},
    ]
    async with (
        Scripted(says_hello("responses", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=model, protocol="responses") as proxy,
    ):
        status, _, _ = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "messages": messages})
    assert status == 200
    asked = json.loads(backend.asked[0].body)["input"]
    assert [item["content"] for item in asked if item["role"] == "assistant"] == [said]


@pytest.mark.parametrize(
    ("model", "said", "told"),
    [
        ({}, "Hello", "participant-name;drop"),
        ({"participant_names": "drop"}, "Hello", "participant-name;drop"),
        ({"participant_names": "prefix"}, "Ann: Hello", "participant-name;approx"),
    ],
)
async def test_participant_names(tmp_path: Path, model: dict[str, object], said: str, told: str) -> None:
    messages = [{"role": "user", "name": "Ann", "content": "Hello"}]
    async with (
        Scripted(says_hello("responses", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=model, protocol="responses") as proxy,
    ):
        status, headers, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "messages": messages})
    assert (status, headers["dragoman-loss"]) == (200, told)
    assert json.loads(backend.asked[0].body)["input"][-1]["content"] == said


@pytest.mark.parametrize(
    ("model", "status", "told"),
    [
        ({"validate_output": "off"}, 200, "strict-off;approx"),
        ({}, 200, "strict-off;approx, output-config-format;drop"),
        ({"validate_output": "record"}, 200, "strict-off;approx, output-config-format;drop"),
        ({"validate_output": "error"}, 502, "strict-off;approx, output-config-format;drop"),
    ],
)
async def test_validate_output(tmp_path: Path, model: dict[str, object], status: int, told: str) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    asked = {**REQUESTS["messages"], "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    async with (
        Scripted(says_hello("chat", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=model) as proxy,
    ):
        got, headers, _ = await proxy.post(PATHS["messages"], asked)
    assert (got, headers["dragoman-loss"]) == (status, told)


@pytest.mark.parametrize(
    ("model", "held"), [({"stop_match": "cancel"}, [HOLD]), ({}, []), ({"stop_match": "drain"}, [])]
)
async def test_stop_match(tmp_path: Path, model: dict[str, object], held: list[Step]) -> None:
    response = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "output": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    at = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    usage = {"input_tokens": 50, "output_tokens": 60, "total_tokens": 110}
    said = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **at, "delta": "Well. EN"},
        {"type": "response.output_text.delta", **at, "delta": "D and so on"},
    ]
    rest = [{"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}}]
    chunks = [chunk(f"data: {json.dumps(event)}\n\n") for event in (said if held else said + rest)]
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stop": "END", "stream": True}
    async with (
        Scripted([head(), *chunks, *held, LAST]) as backend,
        configured(tmp_path, backend.base_url, model=model, protocol="responses") as proxy,
    ):
        _, _, raw = await proxy.post(PATHS["chat"], {**asked, "stream_options": {"include_usage": True}})
        record = await proxy.record()
        if held:
            await asyncio.wait_for(backend.asked[0].left.wait(), 10)
    whole = assemble("chat", read_events(raw.decode()).events)
    choice = whole["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Well. ", "stop")
    assert record["outcome"] == "ok"
    counted = (whole["usage"]["completion_tokens"], record["tokens"]["output"])
    assert counted == ((5, 5) if held else (60, 60))
    assert (whole["usage"]["prompt_tokens"] == 50) is not bool(held)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("model", "names"),
    [
        ({}, {"reasoning_content"}),
        ({"reasoning_field": "reasoning"}, {"reasoning"}),
        ({"reasoning_field": "both"}, {"reasoning_content", "reasoning"}),
    ],
)
async def test_reasoning_field(tmp_path: Path, model: dict[str, object], names: set[str], streamed: bool) -> None:
    blocks = [{"type": "thinking", "thinking": words, "signature": "s"} for words in ("Hm.", "Well.")]
    whole = {**REPLIES["messages"], "content": [*blocks, {"type": "text", "text": "So."}]}
    script = (
        stream(*(f"data: {json.dumps(event)}\n\n" for event in message_events(whole)))
        if streamed
        else [reply(200, json.dumps(whole))]
    )
    async with (
        Scripted(script) as backend,
        configured(tmp_path, backend.base_url, protocol="messages", model=model) as proxy,
    ):
        _, _, body = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": streamed})
    answer = assemble("chat", read_events(body.decode()).events) if streamed else json.loads(body)
    message = answer["choices"][0]["message"]
    told = {name: message[name] for name in ("reasoning_content", "reasoning") if name in message}
    assert told == dict.fromkeys(names, "Hm.\n\nWell.")


@pytest.mark.parametrize(("model", "tier"), [({}, None), ({"fast_mode": True}, "fast")])
async def test_fast_mode(tmp_path: Path, model: dict[str, object], tier: str | None) -> None:
    async with (
        Scripted(says_hello("responses", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=model, protocol="responses", dialect="openai") as proxy,
    ):
        status, _, _ = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "speed": "fast"})
    assert (status, json.loads(backend.asked[0].body).get("service_tier")) == (200, tier)


@pytest.mark.parametrize(("model", "status"), [({}, 400), ({"inference_geo": "drop"}, 200)])
async def test_inference_geo(tmp_path: Path, model: dict[str, object], status: int) -> None:
    async with (
        Scripted(says_hello("chat", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, model=model) as proxy,
    ):
        got, _, _ = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "inference_geo": "eu"})
    assert got == status
