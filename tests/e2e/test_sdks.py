"""The vendors' Python SDKs against the proxy, for all nine pairs of protocols.

Behind the proxy is a backend that refuses what the real APIs refuse, so a turn that was translated badly
fails here as it would in use.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.conftest import KEY
from tests.e2e.sdk_clients import CLIENTS, SDKS, SdkClient
from tests.harness.model_replies import INPUT_TOKENS, OUTPUT_TOKENS
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("backend_protocol", PROTOCOLS),
    pytest.mark.parametrize("client_protocol", PROTOCOLS),
]

LIMA, OSLO = {"city": "Lima"}, {"city": "Oslo"}


@pytest_asyncio.fixture(loop_scope="session")
async def client(
    client_protocol: Protocol, backend_protocol: Protocol, proxies: dict[Protocol, ProxyProcess]
) -> AsyncIterator[SdkClient]:
    made = CLIENTS[client_protocol](proxies[backend_protocol].url, KEY)
    yield made
    await made.close()


async def test_text(client: SdkClient) -> None:
    run = await client.run("Good morning, Lima!")
    assert run.text == "You said: Good morning, Lima!"
    assert run.usage == (INPUT_TOKENS, OUTPUT_TOKENS)


async def test_streamed_text(client: SdkClient) -> None:
    run = await client.run("Good morning, Lima!", stream=True)
    assert run.pieces == ["You ", "said: ", "Good ", "morning, ", "Lima!"]
    assert run.text == "".join(run.pieces)
    assert run.usage == (INPUT_TOKENS, OUTPUT_TOKENS)


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_loop(client: SdkClient, stream: bool) -> None:
    run = await client.run("How warm is it?", tools=True, stream=stream)
    assert run.calls == [LIMA]
    assert run.text == "Results: Lima has 21 degrees"


@pytest.mark.parametrize("stream", [False, True])
async def test_parallel_calls(client: SdkClient, stream: bool) -> None:
    run = await client.run("How warm is it? [[parallel]]", tools=True, stream=stream)
    assert run.calls == [LIMA, OSLO]
    assert run.text == "Results: Lima has 21 degrees; Oslo has 21 degrees"


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_is_seen_and_accepted_back(client: SdkClient, stream: bool) -> None:
    """The backend refuses reasoning that was signed by it and comes back altered."""
    run = await client.run("How warm is it? [[think]]", tools=True, stream=stream)
    assert run.reasoning == "Let me think." * 2
    assert run.text == "Results: Lima has 21 degrees"


class TestErrors:
    """What the SDK raises, by the vendor's class names and codes, so that programs react as they always do."""

    async def test_wrong_key(
        self, client_protocol: Protocol, backend_protocol: Protocol, proxies: dict[Protocol, ProxyProcess]
    ) -> None:
        client = CLIENTS[client_protocol](proxies[backend_protocol].url, "a-wrong-key")
        with pytest.raises(SDKS[client_protocol].AuthenticationError):
            await client.run("Hi")
        await client.close()

    async def test_context_length(self, client_protocol: Protocol, client: SdkClient) -> None:
        with pytest.raises(SDKS[client_protocol].BadRequestError) as raised:
            await client.run("Hi [[context]]")
        if client_protocol == "messages":
            assert "prompt is too long" in raised.value.message
        else:
            assert raised.value.code == "context_length_exceeded"

    @pytest.mark.parametrize("stream", [False, True])
    async def test_rate_limit(self, client_protocol: Protocol, client: SdkClient, stream: bool) -> None:
        with pytest.raises(SDKS[client_protocol].RateLimitError) as raised:
            await client.run("Hi [[status=429]]", stream=stream)
        assert raised.value.response.headers["retry-after"] == "3"

    async def test_overloaded(self, client_protocol: Protocol, client: SdkClient) -> None:
        with pytest.raises(SDKS[client_protocol].InternalServerError) as raised:
            await client.run("Hi [[overloaded]]")
        assert raised.value.status_code == (529 if client_protocol == "messages" else 503)

    async def test_server_error(self, client_protocol: Protocol, client: SdkClient) -> None:
        with pytest.raises(SDKS[client_protocol].InternalServerError):
            await client.run("Hi [[status=500]]")

    @pytest.mark.parametrize("how", ["[[error]]", "[[cut]]"])
    async def test_a_stream_that_breaks_is_no_answer(
        self, client_protocol: Protocol, client: SdkClient, how: str
    ) -> None:
        with pytest.raises(SDKS[client_protocol].APIError):
            await client.run(f"A longer answer that breaks in its middle {how}", stream=True)
