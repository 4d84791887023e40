"""Budgets outlast the process, however it ends; and a disk that fails stops nobody."""

import asyncio
import errno
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from proxy.server.lifecycle import serve
from proxy.server.limits_keeping import LimitsKeeping
from proxy.settings import Loaded, Settings
from proxy.settings.tenants import Budget, Price, TenantLimits
from proxy.telemetry.audit import AuditLog
from proxy.tenancy.limits import Spent
from proxy.tenancy.limits_file import Kept, LimitsFile
from proxy.tenancy.memory import MemoryLimiter
from tests.server.running import Running
from tests.server.serving import PATHS, REQUESTS, Records, begins, route, says_hello, upstream
from tests.server.tenancy import ENTRY, KEY, PEPPER, bearer, let_in, tenant
from tests.tenancy.limiting import NOON, Clock, demand, taken, used, with_budget
from tests.upstream.scripted import HOLD, Scripted

SOON = 0.002  # seconds
NEVER = 3600.0
PRICE = Price("*", *[10**12] * 6)  # a dollar a token
SPENT = 4 * 10**6  # micro-dollars of one answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.json"


@pytest.fixture
def limiter() -> MemoryLimiter:
    clock = Clock()
    return MemoryLimiter(clock, clock)


def read(path: Path) -> object:
    """What the file says of tenants."""
    return json.loads(path.read_bytes())["tenants"]


def cut_short(path: Path) -> None:
    path.write_text('{"version": 1, "tenants": {"team-a": ')


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a file that another process writes
            await asyncio.sleep(0.002)


async def test_it_is_written_when_something_changes_and_at_the_end(path: Path, limiter: MemoryLimiter) -> None:
    keeping = LimitsKeeping(LimitsFile(path), limiter, AuditLog(Records()), write_every=SOON)
    lease = await taken(limiter, with_budget(100), demand(0, 70))
    await until(path.exists)
    await until(lambda: read(path) != {})
    limiter.settle(lease, 0, 60)
    await keeping.close()
    assert LimitsFile(path).read()["a"]["budget"].used == 60


async def test_more_tenants_than_are_looked_at_at_once(path: Path, limiter: MemoryLimiter) -> None:
    end = NOON + 1
    keeping = LimitsKeeping(LimitsFile(path), limiter, AuditLog(Records()), write_every=NEVER)
    many = {f"t-{number}": {"rpd": Spent(number, end)} for number in range(1, 1202)}
    limiter.restore(many)  # type: ignore[arg-type]
    await keeping.close()
    assert LimitsFile(path).read() == many


class Slow(LimitsFile):
    """A disk that takes as long as a test wants."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def write(self, kept: Kept) -> None:
        self.begun.set()
        assert self.go_on.wait(10)
        super().write(kept)


async def test_a_slow_disk_is_not_waited_for_and_the_last_word_counts(path: Path, limiter: MemoryLimiter) -> None:
    file = Slow(path)
    keeping = LimitsKeeping(file, limiter, AuditLog(Records()), write_every=SOON)
    await until(file.begun.is_set)
    await taken(limiter, with_budget(100), demand(0, 70))
    closing = asyncio.create_task(keeping.close())
    await asyncio.sleep(0)
    file.go_on.set()
    await closing
    assert LimitsFile(path).read()["a"]["budget"].used == 70


async def test_a_full_disk_is_told_once_and_tried_again(
    path: Path, limiter: MemoryLimiter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    def full(_descriptor: int) -> None:
        nonlocal tries
        tries += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    caplog.set_level(logging.WARNING)
    keeping = LimitsKeeping(LimitsFile(path), limiter, AuditLog(Records()), write_every=SOON)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        await taken(limiter, with_budget(100), demand(0, 70))
        await until(lambda: tries > 2)
    await until(path.exists)
    await keeping.close()
    assert caplog.messages == [
        f"What tenants use can't be written to {path}, and is tried again: No space left on device",
        f"What tenants use is written to {path} again",
    ]
    assert LimitsFile(path).read()["a"]["budget"].used == 70


async def test_what_is_damaged_is_told_and_begun_anew(
    path: Path, limiter: MemoryLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    cut_short(path)
    records = Records()
    keeping = LimitsKeeping(LimitsFile(path, Clock()), limiter, AuditLog(records), write_every=NEVER)
    await keeping.close()
    damage = "Invalid JSON: EOF while parsing a value at line 1 column 37; it is kept as limits.json.damaged-1796126400"
    assert caplog.messages == [f"What tenants have used begins anew, for {path} is damaged: {damage}"]
    (record,) = records.records
    assert {name: record[name] for name in ("log", "action", "target", "result", "detail")} == {
        "log": "audit",
        "action": "limits.restore",
        "target": str(path),
        "result": "failed",
        "detail": damage,
    }
    assert read(path) == {}
    assert await used(limiter, with_budget(100)) == {"budget": 0}


class Site:
    """Processes that come after each other, with one budget and one file."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.limits = folder / "limits.json"
        self._config = folder / "dragoman.yaml"
        key = {"kid": ENTRY.kid, "hash": f"hmac-sha256:{ENTRY.digest.hex()}"}
        config = {
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "upstreams": [{"name": "backend", "protocol": "messages", "base_url": base_url, "api_key": "proxy-key-1"}],
            "drain": {"lame_duck": 0, "max_stream": 0},
            "key_pepper": PEPPER.decode(),
            "prices": [{"match": "*", "input": 10**6, "output": 10**6}],
            "tenants": [{"name": "team-a", "keys": [key], "limits": {"rpd": 100, "budget": {"usd": 10**9}}}],
            "state": {"carrier_keys": ["00" * 32], "limits_file": "limits.json"},
        }
        self._config.write_text(yaml.safe_dump(config), "utf-8")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Running]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.server.keeping", "serve", "--config", str(self._config)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield Running(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    def used(self) -> dict[str, int]:
        """By dimension, as the file has it."""
        if not self.limits.exists():
            return {}
        tenants = json.loads(self.limits.read_bytes())["tenants"]
        return {dimension: window["used"] for dimension, window in tenants.get("team-a", {}).items()}


async def ask(session: aiohttp.ClientSession, proxy: Running) -> int:
    async with session.post(proxy.clients + PATHS["chat"], json=REQUESTS["chat"], headers=bearer(KEY)) as response:
        await response.read()
        return response.status


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as made:
        yield made


async def test_a_budget_is_as_it_was_after_a_restart(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """After SIGKILL what was open counts as it was reserved; SIGTERM leaves what was settled."""
    whole, held = says_hello("messages", streamed=False), [*begins("messages"), HOLD]
    async with Scripted(whole, held, whole) as backend:
        site = Site(tmp_path, backend.base_url)
        async with site.running() as proxy:
            await proxy.read_addresses()
            assert await ask(session, proxy) == 200
            await until(lambda: site.used() == {"rpd": 1, "budget": SPENT})
            request = {**REQUESTS["chat"], "stream": True}
            async with session.post(proxy.clients + PATHS["chat"], json=request, headers=bearer(KEY)) as stream:
                await stream.content.readany()
                await until(lambda: site.used()["rpd"] == 2)
                proxy.process.kill()
                await proxy.ended()
        left = site.used()
        assert left["budget"] > SPENT
        async with site.running() as proxy:
            await proxy.read_addresses()
            assert site.used() == left
            assert await ask(session, proxy) == 200
            proxy.process.send_signal(signal.SIGTERM)
            assert await proxy.ended() == 0
        assert site.used() == {"rpd": 3, "budget": left["budget"] + SPENT}


async def test_a_budget_that_is_used_up_stays_so(path: Path) -> None:
    for status, calls in ((200, 1), (429, 0)):
        answer = says_hello("messages", streamed=False)
        async with let_in(
            "messages",
            answer,
            tenants=[tenant(limits=TenantLimits(budget=Budget(SPENT)))],
            prices=[PRICE],
            limits_file=path,
        ) as (
            proxy,
            backend,
        ):
            assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer()))[0] == status
            assert len(backend.asked) == calls


async def test_a_second_process_does_not_start(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = upstream("messages", "http://127.0.0.1:9")
    settings = Settings({"backend": to}, (route("*", to),), limits_file=path)
    lock = LimitsFile(path)
    assert await serve(Loaded(settings)) == 1
    lock.close()
    assert capsys.readouterr().err == (
        f"dragoman: another process keeps its limits in {path}: give each its own state.limits_file\n"
    )
