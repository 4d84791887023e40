"""Conversations in telemetry: never unasked, never against a tenant's policy, the same for every pair and mode
(operations.md 3.1)."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretBytes

from proxy.settings import ProtocolName
from proxy.settings.telemetry import Content, Traces
from proxy.settings.tenants import Tenant
from tests.harness.otlp import Receiver, Span
from tests.server.serving import EVENTS, PATHS, REQUESTS, Proxy, route, says_hello, serving, upstream
from tests.server.tenancy import PEPPER, bearer, tenant
from tests.upstream.scripted import Scripted, Step, stream

SPOKEN = {
    "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Say hello."}]}],
    "gen_ai.output.messages": [
        {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}], "finish_reason": "stop"}
    ],
}
SYSTEM: dict[str, dict[str, object]] = {
    "chat": {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]},
    "responses": {"instructions": "Be brief.", "input": "Say hello."},
    "messages": {"system": "Be brief.", "messages": [{"role": "user", "content": "Say hello."}]},
}


@asynccontextmanager
async def recorded(
    receiver: Receiver,
    protocol: ProtocolName,
    *scripts: Sequence[Step] | bytes,
    content: Content = "SPAN_ONLY",
    tenants: Sequence[Tenant] | None = None,
) -> AsyncIterator[Proxy]:
    pepper = {} if tenants is None else {"key_pepper": SecretBytes(PEPPER)}
    traces = Traces(f"{receiver.url}/v1/traces", {}, 1, content=content)
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url)
        async with serving(to, models=[route("*", to)], traces=traces, tenants=tenants, **pepper) as proxy:
            yield proxy


def content_of(span: Span) -> dict[str, object]:
    return {
        name: json.loads(str(value))
        for name, value in span.attributes.items()
        if name.endswith((".messages", "instructions", ".definitions"))
    }


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("backend", ["chat", "responses", "messages"])
@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
async def test_what_was_said_is_on_the_span(client: str, backend: ProtocolName, streamed: bool) -> None:
    async with Receiver() as receiver:
        async with recorded(receiver, backend, says_hello(backend, streamed=streamed)) as proxy:
            await proxy.post(PATHS[client], {**REQUESTS[client], **SYSTEM[client], "stream": streamed})
        server, inference = await receiver.wait_for(2)
    assert content_of(inference) == SPOKEN
    assert content_of(server) == {}


async def test_an_event_holds_structures_and_the_span_nothing() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    async with Receiver() as receiver:
        async with recorded(
            receiver, "messages", says_hello("messages", streamed=False), content="EVENT_ONLY"
        ) as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], **SYSTEM["chat"], "tools": tools, "stop": ["zz"]})
        _, inference = await receiver.wait_for(2)
        (event,) = await receiver.wait_for_events(1)
    assert (event.name, event.trace, event.span) == (
        "gen_ai.client.inference.operation.details",
        inference.trace,
        inference.id,
    )
    parameters = {"type": "object"}
    declared = [{"type": "function", "name": "f", "description": None, "parameters": parameters}]
    assert event.attributes.items() >= {**SPOKEN, "gen_ai.tool.definitions": declared}.items()
    assert event.attributes["gen_ai.request.stop_sequences"] == ["zz"]
    assert event.attributes["gen_ai.request.model"] == "m"
    assert content_of(inference) == {}


@pytest.mark.parametrize(("log_content", "recorded_"), [("never", False), ("allow", True)])
async def test_a_tenants_policy_wins_over_the_switch(log_content: str, recorded_: bool) -> None:
    tenants = [tenant(log_content=log_content)]
    hello = says_hello("chat", streamed=True)
    async with Receiver() as receiver:
        async with recorded(receiver, "chat", hello, content="SPAN_AND_EVENT", tenants=tenants) as proxy:
            status, _, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": True}, bearer())
        _, inference = await receiver.wait_for(2)
    assert (status, bool(content_of(inference))) == (200, recorded_)
    assert (b"Say hello" in receiver.raw) is recorded_


@pytest.mark.parametrize("content", ["NO_CONTENT", "SPAN_ONLY"])
async def test_neither_secrets_nor_files_are_recorded(content: Content) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1hZ2UtYnl0ZXM="}}
    text = {"type": "text", "text": "my key is sk-ant-api03-abcdefghijklmnop and proxy-key-1 \ud800"}
    message = {"role": "user", "content": [text, image]}
    async with Receiver() as receiver:
        async with recorded(receiver, "messages", says_hello("messages", streamed=False), content=content) as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "messages": [message]})
        _, inference = await receiver.wait_for(2)
    for secret in (b"sk-ant-api03", b"proxy-key-1", b"aW1hZ2UtYnl0ZXM"):
        assert secret not in receiver.raw
    assert ("my key is [secret] and [secret]" in str(inference.attributes.get("gen_ai.input.messages"))) is (
        content == "SPAN_ONLY"
    )


async def test_an_answer_that_broke_off_or_is_too_long_is_not_shown_as_one() -> None:
    begun, opened, first, _, *end = EVENTS["messages"]
    broken = stream(begun, opened, first)
    long = stream(begun, opened, first.replace("Hel", "x" * 2**19), *end)
    async with Receiver() as receiver:
        async with recorded(receiver, "messages", broken, long) as proxy:
            for _ in range(2):
                await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "stream": True})
        spans = [span for span in await receiver.wait_for(4) if span.parent]
    assert [sorted(content_of(span)) for span in spans] == [["gen_ai.input.messages"]] * 2


@pytest.mark.parametrize("nested", [11, 30, 200])
async def test_what_can_not_be_encoded_takes_nothing_with_it(nested: int, caplog: pytest.LogCaptureFixture) -> None:
    """A collector's format has a depth and integers of 64 bit; what does not fit is text, and beside it all is well."""
    arguments = "[" * nested + "10000000000000000000000000" + "]" * nested
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": f'{{"deep":{arguments}}}'}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    hello = says_hello("chat", streamed=False)
    async with Receiver() as receiver:
        async with recorded(receiver, "chat", hello, hello, content="EVENT_ONLY") as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "messages": messages})
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        await receiver.wait_for_events(2)
    inputs = [event.attributes["gen_ai.input.messages"] for event in receiver.events]
    assert inputs[0][1]["parts"][0]["arguments"] == call["function"]["arguments"]  # type: ignore[index]
    assert inputs[1] == SPOKEN["gen_ai.input.messages"]
    assert "10000000000000000000000000" not in caplog.text


async def test_a_request_that_refers_to_more_is_shown_as_far_as_it_goes() -> None:
    wire = {**REQUESTS["responses"], **SYSTEM["responses"], "previous_response_id": "resp_1", "store": True}
    async with Receiver() as receiver:
        async with recorded(receiver, "responses", says_hello("responses", streamed=False)) as proxy:
            await proxy.post(PATHS["responses"], wire)
        _, inference = await receiver.wait_for(2)
    assert content_of(inference) == SPOKEN


async def test_names_that_clients_make_up_show_no_secrets() -> None:
    wire = {
        **REQUESTS["chat"],
        "model": "sk-ant-api03-abcdefghijklmnop",
        "proxy-key-1": 1,
        "stop": ["proxy-key-1 \ud800"],
    }
    async with Receiver() as receiver:
        async with recorded(receiver, "messages", says_hello("messages", streamed=False)) as proxy:
            await proxy.post(PATHS["chat"], wire)
            record = await proxy.record()
        server, inference = await receiver.wait_for(2)
    for secret in (b"sk-ant-api03", b"proxy-key-1"):
        assert secret not in receiver.raw
    assert (record["model_requested"], record["upstream_model"]) == ("[secret]", "[secret]")
    assert inference.attributes["gen_ai.request.stop_sequences"] == ["[secret] ?"]
    assert any(told.get("path") == "[secret]" for _, told in server.events)
