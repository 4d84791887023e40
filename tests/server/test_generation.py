"""One answer of a model, through all pairs of protocols, read by the vendors' own SDKs."""

import asyncio
import json
import logging
import re

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from proxy.canonical.loss import Rule
from proxy.settings import LossPolicy, ProtocolName
from tests.server.serving import EVENTS, PATHS, REPLIES, REQUESTS, Proxy, before, says_hello

PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "responses", "messages")
CLIENTS = (*PROTOCOLS, "completions")
COUNTS = re.compile(
    rb'"input_tokens":(\d+),"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":(\d+)'
)


async def asked_by_sdk(client: str, proxy: Proxy, *, stream: bool) -> str:
    """The text that the vendor's SDK finds in the reply."""
    openai = AsyncOpenAI(base_url=proxy.url + "/v1", api_key="client-key", max_retries=0)
    anthropic = AsyncAnthropic(base_url=proxy.url, api_key="client-key", max_retries=0)
    request = REQUESTS[client]
    async with openai, anthropic:
        match client, stream:
            case "chat", False:
                reply = await openai.chat.completions.create(**request)  # type: ignore[call-overload]
                return str(reply.choices[0].message.content)
            case "chat", True:
                chunks = await openai.chat.completions.create(**request, stream=True)  # type: ignore[call-overload]
                return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
            case "responses", False:
                return str((await openai.responses.create(**request)).output_text)  # type: ignore[call-overload]
            case "responses", True:
                async with openai.responses.stream(**request) as events:  # type: ignore[arg-type]
                    return str((await events.get_final_response()).output_text)
            case "completions", False:
                return str((await openai.completions.create(**request)).choices[0].text)  # type: ignore[call-overload]
            case "completions", True:
                pieces = await openai.completions.create(**request, stream=True)  # type: ignore[call-overload]
                return "".join([piece.choices[0].text async for piece in pieces if piece.choices])
            case _, False:
                message = await anthropic.messages.create(**request)  # type: ignore[call-overload]
                return str(message.content[0].text)
            case _:
                async with anthropic.messages.stream(**request) as events:  # type: ignore[arg-type]
                    return str(await events.get_final_text())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("backend_protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_every_client_understands_every_backend(
    client: str, backend_protocol: ProtocolName, stream: bool
) -> None:
    async with before(backend_protocol, says_hello(backend_protocol, streamed=stream)) as (proxy, backend):
        assert await asked_by_sdk(client, proxy, stream=stream) == "Hello"
    assert [asked.line for asked in backend.asked] == [f"POST {PATHS[backend_protocol]} HTTP/1.1"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("backend_protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_backend_that_streams_unasked_or_does_not_when_asked_is_understood_too(
    client: str, backend_protocol: ProtocolName, stream: bool
) -> None:
    async with before(backend_protocol, says_hello(backend_protocol, streamed=not stream)) as (proxy, _):
        assert await asked_by_sdk(client, proxy, stream=stream) == "Hello"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_within_a_protocol_the_bytes_pass_as_they_are(protocol: ProtocolName) -> None:
    # Spaces, an unknown field, an escape: nothing that a decoder and an encoder would leave alone.
    request = json.dumps({**REQUESTS[protocol], "future": {"a": [1.0, "é"]}, "stream": True}, indent=1).encode()
    async with before(protocol, says_hello(protocol, streamed=True)) as (proxy, backend):
        _, _, body = await proxy.post(PATHS[protocol], request)
    assert (backend.asked[0].body, body) == (request, "".join(EVENTS[protocol]).encode())


async def test_only_the_name_of_the_model_is_replaced() -> None:
    request = b'{ "model" : "gpt-x", "messages": [{"role":"user","content":"\\u00e9 1.0"}], "n": 1.0 }'
    script = says_hello("chat", streamed=False)
    async with before("chat", script, models=[("gpt-*", "local-1", LossPolicy())]) as (proxy, backend):
        await proxy.post(PATHS["chat"], request)
    assert backend.asked[0].body == request.replace(b'"gpt-x"', b'"local-1"')


async def test_a_model_that_nobody_serves_is_unknown() -> None:
    async with before("chat", [], models=[("gpt-*", None, LossPolicy())]) as (proxy, backend):
        status, headers, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-reason"], json.loads(body)) == (
        404,
        "model_denied",
        {
            "error": {
                "message": "The model 'm' does not exist or you do not have access to it.",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }
        },
    )
    assert backend.asked == []


async def test_a_reply_tells_where_it_comes_from_and_what_was_lost() -> None:
    request = {**REQUESTS["chat"], "seed": 1, "logit_bias": {"1": 1}, "frequency_penalty": 0.5}
    script = says_hello("messages", streamed=False, request_id="req_vendor")
    model = ("m", "claude-sonnet-4-5", LossPolicy())
    async with before("messages", script, models=[model]) as (proxy, backend):
        _, headers, _ = await proxy.post(PATHS["chat"], request)
        record = await proxy.record()
    ours = {name: value for name, value in headers.items() if name.startswith("dragoman-")}
    losses = ours.pop("dragoman-loss").split(", ")
    assert ours == {
        "dragoman-attempts": "1",
        "dragoman-trace-id": record["trace_id"],
        "dragoman-upstream": "backend",
        "dragoman-upstream-model": "claude-sonnet-4-5",
        "dragoman-upstream-request-id": "req_vendor",
    }
    assert sorted(losses) == ["frequency-penalty;drop", "logit-bias;drop", "seed;drop"]
    assert headers["x-request-id"] == record["request_id"] == backend.asked[0].headers["x-client-request-id"]
    assert (headers["server"], "request-id" in headers) == ("dragoman", False)


async def test_a_messages_client_finds_the_id_where_its_sdk_looks() -> None:
    async with before("chat", says_hello("chat", streamed=False)) as (proxy, _):
        _, headers, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert headers["request-id"] == headers["x-request-id"]


@pytest.mark.parametrize(
    ("loss", "asked", "status", "shown"),
    [
        (LossPolicy(), {}, 200, "seed;drop"),
        (LossPolicy(shown=False), {}, 200, None),
        (LossPolicy(ignored=frozenset({Rule.SEED})), {}, 200, None),
        (LossPolicy(ignored=frozenset({Rule.STORE})), {}, 200, "seed;drop"),
        (LossPolicy(strict=True), {}, 400, "seed;refuse"),
        (LossPolicy(strict=True, ignored=frozenset({Rule.SEED})), {}, 400, "seed;refuse"),
        (LossPolicy(), {"dragoman-strict": "1"}, 400, "seed;refuse"),
    ],
)
async def test_losses_are_shown_hidden_or_refused_as_the_strictest_says(
    loss: LossPolicy, asked: dict[str, str], status: int, shown: str | None
) -> None:
    async with before("messages", says_hello("messages", streamed=False), models=[("*", None, loss)]) as (proxy, _):
        got, headers, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "seed": 1}, asked)
    assert (got, headers.get("dragoman-loss")) == (status, shown)


async def test_an_ignored_loss_is_recorded_and_logged_once_a_model(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.loss")
    ignored = LossPolicy(ignored=frozenset({Rule.SEED}))
    async with before("messages", says_hello("messages", streamed=False), models=[("*", "m", ignored)]) as (proxy, _):
        for _ in range(2):
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "seed": 1})
        async with asyncio.timeout(5):
            await proxy.access.written.wait()
    assert [record["losses"] for record in proxy.access.records] == [["seed"], ["seed"]]
    assert [record.getMessage() for record in caplog.records] == [
        "Loss seed;drop from chat to messages, model m: The backend's protocol has no seed."
    ]


@pytest.mark.parametrize(("client", "backend"), [("chat", "chat"), ("chat", "responses"), ("completions", "chat")])
async def test_a_vendors_headers_are_of_its_protocol(client: str, backend: ProtocolName) -> None:
    """mapping.md 15.3. Rate limits mean the same in both of OpenAI's protocols."""
    told = {"openai-version": "2020-10-01", "openai-processing-ms": "7", "x-ratelimit-limit-requests": "9"}
    async with before(backend, says_hello(backend, streamed=False, **told)) as (proxy, _):
        _, headers, _ = await proxy.post(PATHS[client], REQUESTS[client])
    assert {name: headers.get(name) for name in told} == {
        name: value if client == backend or name.startswith("x-ratelimit") else None for name, value in told.items()
    }


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_estimate_says_that_it_is_one(stream: bool, streams: bool, told: bool) -> None:
    """What the backend tells at the end of a stream is too late for the head of the reply, and right at its end."""
    usage = json.dumps(REPLIES["chat"]["usage"]).encode()
    script = [
        step if told or not isinstance(step, bytes) else step.replace(usage, b"null".ljust(len(usage)))
        for step in says_hello("chat", streamed=streams)
    ]
    async with before("chat", script) as (proxy, _):
        _, headers, body = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "stream": stream})
    assert (headers.get("dragoman-usage") == "estimated") is (not told or (stream and streams))
    counted = {(int(asked), int(said)) for asked, said in COUNTS.findall(body)}
    assert (0, 0) not in counted
    assert ((3, 1) in counted) is told


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("client", "backend", "stream", "streams"),
    [
        ("responses", "chat", False, False),
        ("responses", "chat", False, True),
        ("responses", "chat", True, False),
        ("chat", "messages", False, False),
    ],
)
async def test_an_estimate_says_so_where_that_can_still_be_said(
    client: str, backend: ProtocolName, stream: bool, streams: bool, told: bool
) -> None:
    usage = json.dumps(REPLIES[backend]["usage"]).encode()
    script = [
        step if told or not isinstance(step, bytes) else step.replace(usage, b"null".ljust(len(usage)))
        for step in says_hello(backend, streamed=streams)
    ]
    async with before(backend, script) as (proxy, _):
        _, headers, _ = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    assert (headers.get("dragoman-usage") == "estimated") is not told


@pytest.mark.parametrize("stream", [True, False])
async def test_an_exchange_leaves_one_record_without_its_text(stream: bool) -> None:
    async with before("messages", says_hello("messages", streamed=stream)) as (proxy, _):
        key = {"authorization": "Bearer client-key-1"}
        _, _, body = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": stream}, key)
        record = await proxy.record()
    for varying in ("ts", "request_id", "trace_id", "ms", "bytes_in"):
        del record[varying]
    losses = record.pop("losses", [])
    assert all(isinstance(rule, str) for rule in losses)  # type: ignore[attr-defined]
    assert record == {
        "level": "info",
        "log": "access",
        "client_request_id": None,
        "client_ip": "127.0.0.1",
        "client": "chat",
        "backend": "messages",
        "route": "/chat/completions",
        "model_requested": "m",
        "model": "*",
        "upstream": "backend",
        "upstream_model": "m",
        "upstream_request_id": None,
        "stream": stream,
        "status": 200,
        "outcome": "ok",
        "attempts": 1,
        "usage_source": "reported",
        "reason": None,
        "finish_reason": "end",
        "bytes_out": len(body),
        "tokens": {"input": 3, "output": 1, "cache_read": 0, "cache_write": 0, "reasoning": 0},
    }


@pytest.mark.parametrize(
    ("client", "tools", "told"),
    [
        ("chat", [{"type": "function", "function": {"name": "f"}}], {"tools_n": 1}),
        ("messages", [{"name": "f", "input_schema": {"type": "object"}}], {"tools_n": 1}),
        (
            "messages",
            [{"type": "web_search_20250305", "name": "web_search"}, {"type": "made_up_by_a_caller", "name": "x"}],
            {"tools_n": 2, "hosted_tools": ["other", "web_search"]},
        ),
        ("responses", [{"type": "code_interpreter", "container": {"type": "auto"}}, 7], {"tools_n": 2}),
        ("chat", [], {}),
        ("chat", "none", {}),
    ],
)
async def test_a_record_tells_how_many_tools_there_were_and_which_a_vendor_knows(
    client: ProtocolName, tools: object, told: dict[str, object]
) -> None:
    if client == "responses":
        told = {**told, "hosted_tools": ["code_execution"]}
    async with before(client, says_hello(client, streamed=False)) as (proxy, _):
        await proxy.post(PATHS[client], {**REQUESTS[client], "tools": tools})
        record = await proxy.record()
    assert {name: value for name, value in record.items() if name in ("tools_n", "hosted_tools")} == told


async def test_a_key_of_the_clients_never_reaches_a_backend_that_the_proxy_has_a_key_for() -> None:
    headers = {"authorization": "Bearer client-key-1", "x-api-key": "client-key-2", "api-key": "client-key-3"}
    async with before("messages", says_hello("messages", streamed=False)) as (proxy, backend):
        for client in ("chat", "messages"):
            await proxy.post(PATHS[client], REQUESTS[client], headers)
    assert [value for asked in backend.asked for value in asked.headers.values() if "client-key" in value] == []
    assert [asked.headers["x-api-key"] for asked in backend.asked] == ["proxy-key-1"] * 2
