"""The process: how it starts, why it does not, and the order in which it ends."""

import json
import signal
import socket
from pathlib import Path

import aiohttp
import pytest

from tests.server.running import running, status_of
from tests.server.serving import PATHS, REQUESTS, begins
from tests.upstream.scripted import HOLD, Scripted


async def test_the_end_comes_in_order(tmp_path: Path) -> None:
    """A load balancer is told first, new requests are served for a while, then no more; open streams are told last."""
    drain = {"lame_duck": "0.5s", "max_stream": "0.5s"}
    async with (
        Scripted([*begins("messages"), HOLD]) as backend,
        running(tmp_path, backend.base_url, drain=drain) as proxy,
        aiohttp.ClientSession() as session,
    ):
        await proxy.read_addresses()
        assert await status_of(session, proxy.admin + "/readyz") == 200
        request = {**REQUESTS["chat"], "stream": True}
        async with session.post(proxy.clients + PATHS["chat"], json=request) as stream:
            await stream.content.readany()
            proxy.process.send_signal(signal.SIGTERM)
            while await status_of(session, proxy.admin + "/readyz") == 200:
                pass
            assert await status_of(session, proxy.clients + "/readyz") == 503
            async with session.get(proxy.admin + "/metrics") as scraped:
                assert "\ndragoman_draining 1.0\n" in await scraped.text()
            async with session.post(proxy.clients + PATHS["chat"], data=b"{") as late:
                assert (late.status, late.headers["connection"]) == (400, "close")
            rest = await stream.content.read()
        assert await status_of(session, proxy.clients + "/healthz") is None
        # Whoever scrapes now gets an answer or none at all.
        assert await status_of(session, proxy.admin + "/metrics") in (200, None)
        assert await proxy.ended() == 0
    error = json.loads(rest.decode().strip().removeprefix("data: "))["error"]
    assert (error["message"], error["code"]) == ("The proxy is shutting down; try again.", "server_is_overloaded")


async def test_an_interrupt_ends_at_once_when_nothing_is_open(tmp_path: Path) -> None:
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        await proxy.read_addresses()
        proxy.process.send_signal(signal.SIGINT)
        assert await proxy.ended() == 0


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with (
        Scripted([*begins("messages"), HOLD]) as backend,
        running(tmp_path, backend.base_url) as proxy,
        aiohttp.ClientSession() as session,
    ):
        await proxy.read_addresses()
        request = {**REQUESTS["chat"], "stream": True}
        async with session.post(proxy.clients + PATHS["chat"], json=request) as stream:
            await stream.content.readany()
            proxy.process.send_signal(signal.SIGINT)
            while await status_of(session, proxy.admin + "/readyz") == 200:
                pass
            proxy.process.send_signal(signal.SIGINT)
            assert await proxy.ended() == 130


async def test_the_signal_that_follows_on_a_drain_by_request_cuts_nothing(tmp_path: Path) -> None:
    """As a hook before the stop of a container does, and then the signal comes."""
    drain = {"lame_duck": "0.1s", "max_stream": "0.5s"}
    async with (
        Scripted([*begins("messages"), HOLD]) as backend,
        running(tmp_path, backend.base_url, drain=drain) as proxy,
        aiohttp.ClientSession() as session,
    ):
        await proxy.read_addresses()
        request = {**REQUESTS["chat"], "stream": True}
        async with session.post(proxy.clients + PATHS["chat"], json=request) as stream:
            await stream.content.readany()
            async with session.post(proxy.admin + "/admin/drain") as begun:
                assert await begun.json() == {"status": "draining", "in_flight": 1}
            proxy.process.send_signal(signal.SIGTERM)
            rest = await stream.content.read()
        assert await proxy.ended() == 0
    assert b"The proxy is shutting down" in rest


async def test_what_is_open_is_said_at_the_start_and_no_secret_with_it(tmp_path: Path) -> None:
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        await proxy.read_addresses()
    assert "without keys: whoever reaches it may use it" in proxy.told
    assert "upstream backend: messages at http://127.0.0.1:9/v1, with its own key" in proxy.told
    assert "proxy-key-1" not in proxy.told


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"listen": "TAKEN"}, 2, "can't listen: "),
        (
            {"upstreams": [{"name": "b", "protocol": "chat", "base_url": "http://127.0.0.1:9", "dialect": "opnai"}]},
            1,
            "opnai",
        ),
    ],
)
async def test_what_keeps_it_from_starting_is_said(
    tmp_path: Path, settings: dict[str, object], code: int, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {name: address if value == "TAKEN" else value for name, value in settings.items()}
        async with running(tmp_path, "http://127.0.0.1:9", **settings) as proxy:
            assert await proxy.ended() == code
            assert proxy.process.stderr is not None
            told = (await proxy.process.stderr.read()).decode()
    assert (said in told, "Traceback" in told) == (True, False)
