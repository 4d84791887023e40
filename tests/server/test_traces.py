"""What a receiver of spans gets of requests, and what they cost when nobody takes them (operations.md 2.2, 3)."""

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network

import aiohttp
from pydantic import SecretStr

from proxy.settings import ProtocolName
from proxy.settings.telemetry import Accept, Traces
from tests.harness.otlp import Receiver, Span
from tests.harness.proxy_process import ProxyProcess
from tests.server.serving import EVENTS, PATHS, REQUESTS, Proxy, route, says_hello, serving, upstream
from tests.upstream.scripted import Scripted, Step, reply, stream

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TOLD = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
SERVER, CLIENT = 2, 3
# The names of operations.md 3.1, and those of the stable HTTP conventions for a server.
OF_SERVER = {
    *("http.request.method", "http.route", "http.response.status_code", "url.scheme", "url.path", "error.type"),
    *("dragoman.request_id", "dragoman.client_protocol", "dragoman.backend_protocol", "dragoman.upstream"),
    *("dragoman.tenant", "dragoman.loss.count"),
}
OF_INFERENCE = {
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.stream"),
    *(f"gen_ai.request.{name}" for name in ("max_tokens", "temperature", "top_p", "top_k", "seed", "choice.count")),
    *(f"gen_ai.request.{name}" for name in ("frequency_penalty", "presence_penalty", "reasoning.level")),
    *("gen_ai.request.stop_sequences", "gen_ai.request.previous_response.id"),
    *("gen_ai.conversation.id", "gen_ai.output.type"),
    *(f"gen_ai.response.{name}" for name in ("id", "model", "status", "finish_reasons", "time_to_first_chunk")),
    *("openai.request.service_tier", "openai.response.service_tier", "openai.response.system_fingerprint"),
    *("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions"),
    *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.reasoning.output_tokens"),
    *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_write.input_tokens"),
    *("server.address", "server.port", "error.type", "http.response.status_code", "http.request.resend_count"),
    *("dragoman.request_id", "dragoman.client_protocol", "dragoman.backend_protocol", "dragoman.upstream"),
    *("dragoman.tenant", "dragoman.attempt", "dragoman.overhead_ms"),
}


@asynccontextmanager
async def traced(
    protocol: ProtocolName,
    *scripts: Sequence[Step] | bytes,
    receiver: Receiver | None = None,
    sample: float = 1,
    accept: Accept = "trusted",
    trusted: bool = False,
    **of_upstream: object,
) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """A proxy that sends spans to the receiver. `trusted`: its callers are."""
    endpoint = "" if receiver is None else f"{receiver.url}/v1/traces"
    traces = Traces(endpoint, {"x-collector": SecretStr("collector-secret-1")}, sample, accept) if endpoint else None
    networks = (ip_network("127.0.0.1"),) if trusted else ()
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url, **of_upstream)
        async with serving(to, traces=traces, trusted_proxies=networks) as proxy:
            yield proxy, backend


def known(spans: Sequence[Span]) -> bool:
    """Whether all their names are of the table."""
    return all(span.attributes.keys() <= (OF_SERVER if span.kind == SERVER else OF_INFERENCE) for span in spans)


async def test_a_request_is_a_span_with_one_of_the_backend_in_it() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7, "output_tokens": 0}
    begun = EVENTS["messages"][0].replace('{"input_tokens": 3, "output_tokens": 0}', json.dumps(usage))
    script = stream(begun, *EVENTS["messages"][1:])
    request = {**REQUESTS["chat"], "stream": True, "temperature": 1, "seed": 7, "reasoning_effort": "low", "stop": "zz"}
    async with Receiver() as receiver:
        async with traced("messages", script, receiver=receiver) as (proxy, backend):
            _, headers, _ = await proxy.post(PATHS["chat"], request)
            record = await proxy.record()
            port = int(backend.base_url.rsplit(":")[-1].partition("/")[0])
        server, inference = await receiver.wait_for(2)
    assert (server.name, server.kind, server.parent, server.failed) == ("POST /v1/chat/completions", SERVER, "", False)
    assert (inference.name, inference.kind, inference.parent, inference.failed) == ("chat m", CLIENT, server.id, False)
    assert server.trace == inference.trace == headers["dragoman-trace-id"] == record["trace_id"]
    assert (server.id, server.attributes["dragoman.request_id"]) == (record["span_id"], headers["x-request-id"])
    assert known([server, inference])
    told = {name: value for name, value in inference.attributes.items() if not name.startswith("dragoman.")}
    assert 0 < told.pop("gen_ai.response.time_to_first_chunk") < inference.lasted + 1  # type: ignore[operator]
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "backend",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.seed": 7,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.id": "chatcmpl-msg_1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_write.input_tokens": 7,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "server.address": "127.0.0.1",
        "server.port": port,
        "http.response.status_code": 200,
    }
    losses = [told for name, told in server.events if name == "dragoman.translation.loss"]
    assert {"rule": "seed", "level": "drop", "path": "seed"} in losses
    assert server.attributes["dragoman.loss.count"] == len(losses)
    assert receiver.headers["x-collector"] == "collector-secret-1"
    for secret in (b"Say hello", b"Hello", b"proxy-key-1", b"collector-secret-1", b"zz"):
        assert secret not in receiver.raw


async def test_what_is_asked_again_is_a_span_beside_the_first() -> None:
    wire = {"error": {"type": "invalid_request_error", "message": "Unknown parameter: 'top_p'.", "param": None}}
    hello = says_hello("responses", streamed=False)
    async with Receiver() as receiver:
        async with traced("responses", reply(400, json.dumps(wire)), hello, receiver=receiver) as (proxy, _):
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "top_p": 0.5})
        server, first, second = await receiver.wait_for(3)
    assert (first.parent, second.parent, first.failed, second.failed) == (server.id, server.id, True, False)
    names = ("error.type", "http.response.status_code", "http.request.resend_count", "dragoman.attempt")
    assert [first.attributes.get(name) for name in names] == ["400", 400, None, 1]
    assert [second.attributes.get(name) for name in names] == [None, 200, 1, 2]
    assert second.attributes["gen_ai.usage.input_tokens"] == 3
    assert ("dragoman.retry", {"dragoman.attempt": 2}) in server.events


async def test_failures_are_errors_of_the_backends_span_and_5xx_of_ours() -> None:
    broken = json.dumps({"error": {"message": "down", "type": "server_error"}})
    async with Receiver() as receiver:
        says = (reply(503, broken), reply(503, broken), reply(429, broken))
        async with traced("chat", *says, receiver=receiver) as (proxy, _):
            for _ in range(2):
                await proxy.post(PATHS["chat"], REQUESTS["chat"])
            await proxy.post("/v1/secret-path/x", {})
            await proxy.post(PATHS["chat"], {})
        spans = await receiver.wait_for(7)
    assert known(spans)
    assert [(span.name, span.failed, span.attributes.get("error.type")) for span in spans] == [
        ("POST /v1/chat/completions", True, "overloaded"),
        ("chat m", True, "503"),
        ("chat m", True, "503"),
        ("POST /v1/chat/completions", False, None),
        ("chat m", True, "429"),
        ("POST", False, None),
        ("POST /v1/chat/completions", False, None),
    ]
    assert b"secret-path" not in receiver.raw


async def test_a_client_that_leaves_is_an_event_and_no_error() -> None:
    async with Receiver() as receiver:
        async with traced("chat", stream(*EVENTS["chat"][:2])[:-1], receiver=receiver) as (proxy, _):
            body = {**REQUESTS["chat"], "stream": True}
            async with proxy.session.post(proxy.url + PATHS["chat"], json=body) as response:
                await response.content.readany()
                response.close()
            await proxy.record()
        server, inference = await receiver.wait_for(2)
    assert (server.failed, server.events) == (False, [("dragoman.client_disconnected", {})])
    assert inference.attributes["error.type"] == "cancelled"


async def test_several_choices_have_spans_and_usage_of_their_own() -> None:
    hello = says_hello("messages", streamed=False)
    async with Receiver() as receiver, Scripted(hello, hello) as backend:
        to = upstream("messages", backend.base_url)
        model = replace(route("*", to), fan_out=2)
        async with serving(to, models=[model], traces=Traces(f"{receiver.url}/v1/traces", {}, 1)) as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "n": 2})
        server, *each = await receiver.wait_for(3)
    assert [span.parent for span in each] == [server.id] * 2
    assert [span.attributes["gen_ai.usage.input_tokens"] for span in each] == [3, 3]
    assert {span.attributes.get("http.request.resend_count") for span in each} == {None}


async def test_a_trusted_callers_trace_goes_on_and_its_word_on_sampling_holds() -> None:
    hello = says_hello("chat", streamed=False)
    async with Receiver() as receiver:
        async with traced("chat", hello, receiver=receiver, sample=0, trusted=True, trace_forward="traceparent") as (
            proxy,
            backend,
        ):
            _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], TOLD)
            await proxy.post(PATHS["chat"], REQUESTS["chat"], {"traceparent": f"00-{TRACE}-{PARENT}-00"})
            asked, unsampled = backend.asked
        server, inference = await receiver.wait_for(2)
    assert (headers["dragoman-trace-id"], server.trace, server.parent, server.state) == (
        TRACE,
        TRACE,
        PARENT,
        "vendor=1",
    )
    assert asked.headers["traceparent"] == f"00-{TRACE}-{inference.id}-01"
    assert asked.headers["tracestate"] == "vendor=1"
    assert unsampled.headers["traceparent"] == f"00-{TRACE}-{PARENT}-00"
    assert len(receiver.spans) == 2


async def test_what_a_trusted_caller_does_not_sample_is_not_sampled_here() -> None:
    hello = says_hello("chat", streamed=False)
    async with Receiver() as receiver:
        async with traced("chat", hello, receiver=receiver, trusted=True) as (proxy, _):
            await proxy.post(PATHS["chat"], REQUESTS["chat"], {"traceparent": f"00-{TRACE}-{PARENT}-00"})
            _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        server, inference = await receiver.wait_for(2)
    assert len(receiver.spans) == 2
    assert {server.trace, inference.trace} == {headers["dragoman-trace-id"]}


async def test_nobody_else_can_have_a_trace_continued_or_sampled() -> None:
    hello = says_hello("chat", streamed=False)
    async with Receiver() as receiver:
        async with traced("chat", hello, receiver=receiver) as (proxy, backend):
            _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], TOLD)
            assert "traceparent" not in backend.asked[0].headers
        async with traced("chat", hello, receiver=receiver, sample=0, accept="always") as (proxy, _):
            _, taken_over, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], TOLD)
        async with traced("chat", hello, receiver=receiver, sample=0, accept="never", trusted=True) as (proxy, _):
            _, never, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], TOLD)
        server, _ = await receiver.wait_for(2)
    assert (server.parent, server.state, server.trace) == ("", "", headers["dragoman-trace-id"])
    assert headers["dragoman-trace-id"] != TRACE
    assert (taken_over["dragoman-trace-id"], len(receiver.spans)) == (TRACE, 2)
    assert never["dragoman-trace-id"] != TRACE


async def test_without_a_receiver_a_trace_is_passed_on_all_the_same() -> None:
    async with traced("chat", says_hello("chat", streamed=False), trusted=True, trace_forward="traceparent") as (
        proxy,
        backend,
    ):
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], TOLD)
        record = await proxy.record()
    assert (headers["dragoman-trace-id"], "span_id" in record) == (TRACE, False)
    assert backend.asked[0].headers["traceparent"] == TOLD["traceparent"]


async def test_the_process_sends_what_is_left_when_it_ends_and_waits_for_nobody() -> None:
    """A receiver that hangs, or that is not there, costs its spans and at most five seconds of the end."""
    async with Receiver() as receiver, Receiver(hangs=True) as hanging:
        for url, least, most in ((receiver.url, 0.0, 4.0), (hanging.url, 4.0, 9.0), ("http://127.0.0.1:9", 0.0, 9.0)):
            async with Scripted(says_hello("chat", streamed=False)) as backend:
                more = {"telemetry": {"traces": {"endpoint": url, "sample": 1}}, "drain": {"lame_duck": 0}}
                process = ProxyProcess("chat", backend.base_url, more=more)  # type: ignore[arg-type]
                try:
                    await process.start()
                    async with asyncio.timeout(5):
                        assert await _asked(process) == 200
                    began = time.monotonic()
                    assert await process.end(signal.SIGTERM) == 0
                    assert least <= time.monotonic() - began < most
                    assert "Traceback" not in process.output
                    assert re.search(r'"span_id":"[0-9a-f]{16}"', process.output)
                finally:
                    await process.stop()
    assert [span.name for span in receiver.spans] == ["POST /v1/chat/completions", "chat m"]


async def _asked(process: ProxyProcess) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(process.url + PATHS["chat"], json=REQUESTS["chat"]) as response,
    ):
        await response.read()
        return response.status
