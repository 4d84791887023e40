"""A configuration takes another's place: what stays, what is told, and how little others notice."""

import asyncio
import gc
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.server.gateway import Gateway
from proxy.server.lifecycle import settle_memory
from proxy.server.reloading import Reloading
from proxy.server.runtime import Runtime
from proxy.settings import Loaded, ProtocolName, Settings, load_with_sources
from tests.server.serving import PATHS, REQUESTS, Proxy, Records, before, begins, operated, route, says_hello, upstream
from tests.server.tenancy import bearer, let_in, tenant
from tests.upstream.scripted import Scripted, reply

BASE = {"upstreams": [{"name": "a", "protocol": "chat", "base_url": "http://127.0.0.1:9", "api_key": "a-key-of-a"}]}
CERTIFICATE = Path(__file__).parent.parent / "upstream" / "certificate.pem"
REFUSED = reply(401, json.dumps({"error": {"message": "Incorrect API key provided."}}))


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    made = Runtime(Settings({}, ()), Records(), "0" * 16)
    yield made
    await made.close()


def put(file: Path, **settings: object) -> None:
    """Write it as editors do: a new file in the place of the old one."""
    new = file.with_name("new")
    new.write_text(json.dumps({**BASE, **settings}))  # which is YAML too
    new.replace(file)


@asynccontextmanager
async def of_file(file: Path, **settings: object) -> AsyncIterator[tuple[Runtime, Reloading]]:
    """What a file configures, and its reloading."""
    put(file, **settings)
    loaded = load_with_sources(file, {})
    runtime = Runtime(loaded.settings, Records(), loaded.digest)
    try:
        yield runtime, Reloading(runtime, loaded, lambda: load_with_sources(file, {}), look_every=0.01)
    finally:
        await runtime.close()


async def until(settled: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not settled():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.005)


async def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.yaml"
    async with of_file(file) as (runtime, reloading):
        with reloading.begun():
            put(file, max_body=1000)
            await until(lambda: runtime.gateway.settings.max_body == 1000)
            file.write_text("max_body: none")
            await until(lambda: reloading.status()["last_reload"]["result"] == "rejected")  # type: ignore[index]
            assert runtime.gateway.settings.max_body == 1000


async def test_a_fault_in_reading_leaves_all_as_it_was(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Loaded:
        raise RecursionError("sk-a-secret-0123456789")

    before = runtime.gateway
    reloading = Reloading(runtime, Loaded(runtime.gateway.settings), read)
    assert not await reloading.reload("test")
    last = reloading.status()["last_reload"]
    assert isinstance(last, dict)
    assert (runtime.gateway is before, last["mistakes"]) == (True, ["It can't be read: RecursionError"])
    assert "Reading the configuration failed" in caplog.text


async def test_who_asks_for_a_reload_and_leaves_gets_it_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.yaml"
    async with of_file(file) as (runtime, reloading):
        put(file, max_body=1000)
        task = asyncio.create_task(reloading.reload("test"))
        await asyncio.sleep(0)
        task.cancel()
        await until(lambda: runtime.gateway.settings.max_body == 1000)
        actions = [record["action"] for record in runtime.access.records]  # type: ignore[attr-defined]
    assert actions == ["config.load", "config.reload"]


async def test_what_was_not_read_from_a_file_is_not_read_again(runtime: Runtime) -> None:
    reloading = Reloading(runtime, Loaded(runtime.gateway.settings), None)
    with reloading.begun():
        assert not await reloading.reload("test")
    last = reloading.status()["last_reload"]
    assert isinstance(last, dict)
    assert last["mistakes"] == ["The configuration did not come from a file."]


async def test_a_mistake_quotes_no_secret_that_is_known(tmp_path: Path) -> None:
    """Whoever puts a key in the wrong place has the right one at hand."""
    file = tmp_path / "dragoman.yaml"
    async with of_file(file) as (_, reloading):
        other = [{**BASE["upstreams"][0], "api_key": "another-key-of-a"}]
        put(file, upstreams=other, models=[{"match": "*", "upstream": "a-key-of-a"}])
        assert not await reloading.reload("test")
        status = json.dumps(reloading.status())
    assert ("no upstream is called '[secret]'" in status, "a-key-of-a" in status) == (True, False)


def rekeyed(proxy: Proxy, backend: Scripted, protocol: ProtocolName, key: str) -> Gateway:
    """The same with another key."""
    to = upstream(protocol, backend.base_url, key=key)
    return proxy.runtime.make_ready(Settings({to.name: to}, (route("*", to),)), "2")


# Everything that is asked with the upstream's key: (method, path, body).
ASKED = {
    "whole": ("POST", PATHS["chat"], REQUESTS["chat"]),
    "stream": ("POST", PATHS["chat"], {**REQUESTS["chat"], "stream": True}),
    "translated": ("POST", PATHS["messages"], REQUESTS["messages"]),
    "passed": ("POST", "/v1/embeddings", {"model": "m", "input": "a"}),
    "models": ("GET", "/v1/models", None),
}


@pytest.mark.parametrize("asked", ASKED)
async def test_the_key_before_is_tried_where_the_new_one_is_refused(asked: str) -> None:
    method, path, wire = ASKED[asked]
    body = None if wire is None else json.dumps(wire).encode()
    good = says_hello("chat", streamed=asked == "stream")
    if asked == "models":
        good = [reply(200, '{"object": "list", "data": [{"id": "m"}]}')]
    async with before("chat", REFUSED, good, REFUSED, REFUSED) as (proxy, backend):
        proxy.runtime.take(rekeyed(proxy, backend, "chat", "proxy-key-2"))
        status, _, _ = await proxy.ask(method, path, None, body)
        older = proxy.gateway.served["backend"].backend.older
        assert older is not None
        keys = [question.headers["authorization"] for question in backend.asked]
        assert (status, keys) == (200, ["Bearer proxy-key-2", "Bearer proxy-key-1"])
        assert 290 < older.until - time.monotonic() <= 300


async def test_the_key_before_is_tried_for_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with before("chat", REFUSED) as (proxy, backend):
        monkeypatch.setattr("proxy.server.gateway._KEYS_OVERLAP", -1.0)
        proxy.runtime.take(rekeyed(proxy, backend, "chat", "proxy-key-2"))
        status, headers, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-reason"], len(backend.asked)) == (502, "upstream_auth", 1)
    assert b"proxy-key" not in body


async def test_two_keys_that_are_refused() -> None:
    async with before("chat", REFUSED) as (proxy, backend):
        proxy.runtime.take(rekeyed(proxy, backend, "chat", "proxy-key-2"))
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-reason"], len(backend.asked)) == (502, "upstream_auth", 2)


async def test_a_clients_own_key_has_none_before_it() -> None:
    async with before("chat", REFUSED, key=None) as (proxy, backend):
        proxy.runtime.take(rekeyed(proxy, backend, "chat", "proxy-key-2"))
        to = upstream("chat", backend.base_url, key=None)
        proxy.runtime.take(proxy.runtime.make_ready(Settings({to.name: to}, (route("*", to),)), "3"))
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], {"authorization": "Bearer sk-the-clients-own"})
    assert (status, len(backend.asked)) == (401, 1)


async def test_what_is_open_for_a_tenant_that_has_gone_leaves_no_metric() -> None:
    async with let_in("chat", [*begins("chat"), *says_hello("chat", streamed=True)[3:]], tenants=[tenant()]) as (
        proxy,
        backend,
    ):
        wire = {**REQUESTS["chat"], "stream": True}
        async with proxy.session.post(proxy.url + PATHS["chat"], json=wire, headers=bearer()) as response:
            to = upstream("chat", backend.base_url)
            settings = Settings({to.name: to}, (route("*", to),), tenants={})
            proxy.runtime.take(proxy.runtime.make_ready(settings, "2"))
            await response.read()
            assert response.status == 200
        await until(lambda: not proxy.runtime.open)
        async with operated(proxy) as url, proxy.session.get(f"{url}/metrics") as response:
            told = await response.text()
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
    assert ("dragoman_auth_total" in told, "team-a" in told, status) == (True, False, 401)


async def test_an_old_configuration_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the help of the collector, which looks at nothing that was there when the process began."""
    monkeypatch.setattr("proxy.server.reloading._RETIRED_EVERY", 0.01)
    file = tmp_path / "dragoman.yaml"
    async with of_file(file) as (runtime, reloading):
        await reloading.reload("test")
        gc.collect()
        gc.disable()
        try:
            known = [gateway for gateway in gc.get_objects() if isinstance(gateway, Gateway)]
            assert runtime.gateway in known
            count = len(known)
            del known
            for _ in range(5):
                assert await reloading.reload("test")
            await until(lambda: sum(isinstance(each, Gateway) for each in gc.get_objects()) <= count)
        finally:
            gc.enable()


async def test_a_secret_of_before_is_still_no_text_to_show(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.yaml"
    async with of_file(file) as (runtime, reloading):
        put(file, admin_token="a-token-of-operators")
        assert await reloading.reload("test")
        put(file)
        assert await reloading.reload("test")
        assert runtime.scrub("a-key-of-a a-token-of-operators") == "[secret] [secret]"


async def test_an_upstream_with_certificates_keeps_its_connections_until_they_change(tmp_path: Path) -> None:
    file, authority = tmp_path / "dragoman.yaml", tmp_path / "ca.pem"
    shutil.copy(CERTIFICATE, authority)
    upstreams = [{**BASE["upstreams"][0], "ca_file": "ca.pem"}]
    async with of_file(file, upstreams=upstreams) as (runtime, reloading):
        first = runtime.gateway.served["a"].backend
        assert await reloading.reload("test")
        second = runtime.gateway.served["a"].backend
        shutil.copy(CERTIFICATE, tmp_path / "new.pem")
        (tmp_path / "new.pem").replace(authority)
        assert await reloading.reload("test")
        third = runtime.gateway.served["a"].backend
    assert (second is first, third is first, third.tls is first.tls) == (True, False, False)


@pytest.mark.parametrize(("most", "shared"), [(2, True), (3, False), (None, False)])
async def test_connections_are_bounded_over_a_reload_too(tmp_path: Path, most: int | None, shared: bool) -> None:
    file = tmp_path / "dragoman.yaml"
    one = {**BASE["upstreams"][0], "max_connections": 2}
    async with of_file(file, upstreams=[one]) as (runtime, reloading):
        first = runtime.gateway.served["a"].backend.slots
        put(file, upstreams=[{**one, "api_key": "another-key-of-a", "max_connections": most}])
        assert await reloading.reload("test")
        assert (runtime.gateway.served["a"].backend.slots is first) == shared


async def test_ten_thousand_tenants_are_taken_while_others_are_served(tmp_path: Path) -> None:
    """Reading them takes a second or two; nobody else waits for much of it. What is measured is the processor's time
    between two turns of the loop's thread, since other processes may hold up both."""
    file = tmp_path / "dragoman.yaml"
    tenants = [
        {"name": f"team-{number}", "keys": [{"kid": f"a{number:011d}", "hash": f"sha256:{number:064x}"}]}
        for number in range(10_000)
    ]
    more = {"tenants": tenants, "state": {"carrier_keys": ["ab" * 32]}}
    async with of_file(file, **more) as (_, reloading):
        settle_memory()
        try:
            pauses: list[float] = []
            reloaded = asyncio.create_task(reloading.reload("test"))
            while not reloaded.done():
                began = time.process_time()
                await asyncio.sleep(0.001)
                pauses.append(time.process_time() - began)
            assert await reloaded
        finally:
            gc.unfreeze()
            gc.set_threshold(700, 10, 10)
    # One turn may meet the collector, or a thread that was given the processor in its place.
    *others, second, longest = sorted(pauses)
    assert (second < 0.1, longest < 0.5) == (True, True), (second, longest)
    assert len(others) > 50
