"""Several processes on one port: together they serve all, none takes another one with it, and they end together."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.server.workers import Worker, share_of
from proxy.settings import Settings
from proxy.settings.snapshot import SharedLimits
from proxy.settings.tenants import Budget, TenantLimits
from tests.server.running import Running, running, status_of
from tests.server.serving import PATHS, REQUESTS, begins, says_hello, upstream
from tests.server.tenancy import ENTRY, PEPPER, bearer, tenant
from tests.upstream.scripted import HOLD, Scripted

WORKERS = 2
ASKED = 40


def _ports_in_a_row(count: int) -> int:
    """The first of some that are free."""
    while True:
        first = random.randrange(10_240, 32_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


@asynccontextmanager
async def several(folder: Path, base_url: str, **settings: object) -> AsyncIterator[tuple[Running, list[str]]]:
    """A proxy of several processes that are all ready, and their admin listeners."""
    first = _ports_in_a_row(WORKERS)
    admins = [f"http://127.0.0.1:{first + number}" for number in range(WORKERS)]
    settings = {"workers": WORKERS, "admin_listen": f"127.0.0.1:{first}", "drain": {"lame_duck": 0}, **settings}
    async with running(folder, base_url, **settings) as proxy:
        await proxy.read_addresses()
        for admin in admins:
            await ready(admin)
        yield proxy, admins


async def ready(admin: str) -> None:
    async with asyncio.timeout(20), aiohttp.ClientSession() as session:
        while await status_of(session, admin + "/readyz") != 200:
            pass


def processes_of(proxy: Running) -> list[int]:
    pid = proxy.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def counted(session: aiohttp.ClientSession, admin: str) -> float:
    async with session.get(admin + "/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    return sum(
        sample.value for family in families for sample in family.samples if sample.name == "dragoman_requests_total"
    )


async def ask(proxy: Running, headers: dict[str, str] | None = None) -> int:
    """On a connection of its own."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(proxy.clients + PATHS["chat"], json=REQUESTS["chat"], headers=headers) as response,
    ):
        await response.read()
        return response.status


async def test_all_of_them_serve_and_each_counts_its_own(tmp_path: Path) -> None:
    hello = says_hello("messages", streamed=False)
    async with Scripted(*[hello] * ASKED) as backend, several(tmp_path, backend.base_url) as (proxy, admins):
        assert await asyncio.gather(*(ask(proxy) for _ in range(ASKED))) == [200] * ASKED
        async with aiohttp.ClientSession() as session:
            counts = [await counted(session, admin) for admin in admins]
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.ended() == 0
        assert proxy.process.stdout is not None
        records = [json.loads(line) for line in (await proxy.process.stdout.read()).splitlines()]
    assert sum(counts) == ASKED
    assert all(counts)
    assert sum(record["log"] == "access" for record in records) == ASKED


async def test_one_that_is_killed_breaks_its_own_streams_and_is_started_again(tmp_path: Path) -> None:
    begun = [*begins("messages"), HOLD]
    async with Scripted(*[begun] * 16) as backend, several(tmp_path, backend.base_url) as (proxy, admins):
        async with contextlib.AsyncExitStack() as stack:
            streams = []
            for _ in range(16):
                session = await stack.enter_async_context(aiohttp.ClientSession())
                request = {**REQUESTS["chat"], "stream": True}
                stream = await session.post(proxy.clients + PATHS["chat"], json=request)
                await stream.content.readany()
                streams.append(stream)
            async with aiohttp.ClientSession() as session:
                of_first, of_second = [await in_flight(session, admin) for admin in admins]
            assert (of_first + of_second, min(of_first, of_second) > 0) == (16, True)
            first, second = processes_of(proxy)
            os.kill(first, signal.SIGKILL)
            ends = [asyncio.create_task(stream.content.read()) for stream in streams]
            async with asyncio.timeout(10):
                for end in islice(asyncio.as_completed(ends), of_first):
                    with pytest.raises(aiohttp.ClientPayloadError):
                        await end
            await ready(admins[0])
            assert sum(end.done() for end in ends) == of_first
            assert (len(processes_of(proxy)), second in processes_of(proxy)) == (WORKERS, True)
            for end in ends:
                end.cancel()
        assert "worker 0 ended with code 137; it is started again" in await told_by(proxy)


async def in_flight(session: aiohttp.ClientSession, admin: str) -> int:
    async with session.get(admin + "/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    samples = [sample for family in families if family.name == "dragoman_streams_active" for sample in family.samples]
    return int(sum(sample.value for sample in samples))


async def told_by(proxy: Running) -> str:
    assert proxy.process.stderr is not None
    async with asyncio.timeout(5):
        return (await proxy.process.stderr.readline()).decode()


async def test_a_signal_reaches_all_and_streams_finish(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    whole = says_hello("messages", streamed=True)
    held = [*whole[:2], go_on, *whole[2:]]
    async with Scripted(held) as backend, several(tmp_path, backend.base_url) as (proxy, _):
        async with (
            aiohttp.ClientSession() as session,
            session.post(proxy.clients + PATHS["chat"], json={**REQUESTS["chat"], "stream": True}) as stream,
        ):
            await stream.content.readany()
            proxy.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                while len(await asyncio.to_thread(processes_of, proxy)) == WORKERS:
                    pass
            go_on.set()
            assert (await stream.content.read()).endswith(b"data: [DONE]\n\n")
        assert await proxy.ended() == 0


async def test_a_drain_by_request_ends_all(tmp_path: Path) -> None:
    async with several(tmp_path, "http://127.0.0.1:9") as (proxy, admins), aiohttp.ClientSession() as session:
        async with session.post(admins[1] + "/admin/drain") as response:
            assert response.status == 200
        assert await proxy.ended() == 0


async def test_they_do_not_outlive_the_process_that_started_them(tmp_path: Path) -> None:
    async with several(tmp_path, "http://127.0.0.1:9") as (proxy, admins), aiohttp.ClientSession() as session:
        proxy.process.kill()
        await proxy.ended()
        async with asyncio.timeout(10):
            for url in (*admins, proxy.clients):
                while await status_of(session, url + "/healthz") is not None:
                    pass


async def test_a_hang_up_makes_all_read_the_configuration_again(tmp_path: Path) -> None:
    async with several(tmp_path, "http://127.0.0.1:9") as (proxy, admins), aiohttp.ClientSession() as session:
        before = {admin: (await config(session, admin))["digest"] for admin in admins}
        file = tmp_path / "dragoman.yaml"
        file.write_text(file.read_text() + "models: [{match: new-model, upstream: backend}]\n")
        proxy.process.send_signal(signal.SIGHUP)
        for admin in admins:
            async with asyncio.timeout(4):  # the files are looked at each 5 s
                while (now := await config(session, admin))["digest"] == before[admin]:
                    pass
            assert (now["last_reload"]["result"], now["needs_restart"]) == ("ok", [])


async def config(session: aiohttp.ClientSession, admin: str) -> dict[str, Any]:
    async with session.get(admin + "/admin/config") as response:
        told: dict[str, Any] = await response.json()
        return told


@pytest.mark.parametrize("which", ["listen", "admin_listen"])
async def test_an_address_that_is_taken_is_said_once_for_all(tmp_path: Path, which: str) -> None:
    first = _ports_in_a_row(WORKERS)
    taken = first + 1
    addresses = {"admin_listen": f"127.0.0.1:{first}", "listen": "127.0.0.1:0"}
    if which == "listen":
        addresses |= {"listen": f"127.0.0.1:{taken}", "admin_listen": "127.0.0.1:0"}
    with socket.create_server(("127.0.0.1", taken)):
        async with running(tmp_path, "http://127.0.0.1:9", workers=WORKERS, **addresses) as proxy:
            assert await proxy.ended() == 2
            assert proxy.process.stderr is not None
            said = (await proxy.process.stderr.read()).decode()
    assert said.count("dragoman: can't listen: ") == 1


async def test_localhost_is_both_addresses_of_this_machine(tmp_path: Path) -> None:
    async with (
        running(tmp_path, "http://127.0.0.1:9", listen="localhost:0") as proxy,
        aiohttp.ClientSession() as session,
    ):
        await proxy.read_addresses()
        port = proxy.clients.rpartition(":")[2]
        found = [await status_of(session, f"http://{host}:{port}/healthz") for host in ("127.0.0.1", "[::1]")]
    assert found == [200, 200 if _has_ipv6() else None]


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_limits_that_no_store_counts_are_divided() -> None:
    limits = TenantLimits(rpm=100, tpm=3, concurrency=1, max_body_bytes=100, budget=Budget(1000))
    settings = Settings(
        {"backend": upstream("chat", "http://b")}, (), tenants={"a": tenant("a", limits=limits)}, workers=4
    )
    third = Worker(2, 4)
    share = share_of(settings, third)
    divided = TenantLimits(rpm=25, tpm=1, concurrency=1, max_body_bytes=100, budget=Budget(250))
    assert share.tenants == {"a": tenant("a", limits=divided)}
    assert share.admin_listen.port == settings.admin_listen.port + 2
    together = replace(settings, shared_limits=SharedLimits("redis://r"))  # type: ignore[arg-type]
    assert share_of(together, third).tenants == settings.tenants


async def test_one_that_is_started_again_does_not_let_in_whom_the_others_refuse(tmp_path: Path) -> None:
    """What was configured at the start may have been taken back; where it can't be read, nobody is served by it."""
    made = {"key_pepper": PEPPER.decode(), "state": {"carrier_keys": ["00" * 32]}}
    entry = {"kid": ENTRY.kid, "hash": f"{ENTRY.method}:{ENTRY.digest.hex()}"}
    tenants = [{"name": "team-a", "keys": [entry], "disabled": False}]
    hello = says_hello("messages", streamed=False)
    async with (
        Scripted(*[hello] * ASKED) as backend,
        several(tmp_path, backend.base_url, tenants=tenants, **made) as (proxy, admins),
        aiohttp.ClientSession() as session,
    ):
        assert await ask(proxy, bearer()) == 200
        file = tmp_path / "dragoman.yaml"
        good = file.read_text()
        before = (await config(session, admins[1]))["digest"]
        file.write_text(good.replace("disabled: false", "disabled: true"))
        proxy.process.send_signal(signal.SIGHUP)
        for admin in admins:
            async with asyncio.timeout(4):
                while (await config(session, admin))["digest"] == before:
                    pass
        file.write_text("nonsense: true\n")
        os.kill(processes_of(proxy)[0], signal.SIGKILL)
        assert "worker 0 ended with code 137" in await told_by(proxy)
        assert "worker 0 waits for a configuration without mistakes" in await told_by(proxy)
        assert await asyncio.gather(*(ask(proxy, bearer()) for _ in range(10))) == [401] * 10
        file.write_text(good.replace("disabled: false", "disabled: true"))
        await ready(admins[0])
        assert await asyncio.gather(*(ask(proxy, bearer()) for _ in range(10))) == [401] * 10


async def test_what_keeps_a_worker_from_starting_is_shown_and_ends_all(tmp_path: Path) -> None:
    """Such as a bug: nothing would come of starting it over and over again."""
    first = _ports_in_a_row(WORKERS)
    (tmp_path / "sitecustomize.py").write_text(
        "import proxy.server.app\n"
        "def fail(*_): raise RuntimeError('a bug at the start')\n"
        "proxy.server.app.App.__init__ = fail\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    async with running(
        tmp_path, "http://127.0.0.1:9", workers=WORKERS, admin_listen=f"127.0.0.1:{first}", environment=environment
    ) as proxy:
        assert await proxy.ended() == 70
        assert proxy.process.stderr is not None
        assert "RuntimeError: a bug at the start" in (await proxy.process.stderr.read()).decode()
