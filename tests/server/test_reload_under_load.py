"""A process that serves a thousand requests at once gets ten new configurations, some of them broken, and no request
and no count is lost."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.server.holding import RUN, Holding, Mounted, Process, process_of
from tests.server.serving import PATHS, REQUESTS
from tests.server.tenancy import PEPPER, a_key, bearer

STREAMS = 950  # held open throughout
ASKING = 50  # clients that ask for one whole answer after the other
COST = 3 * 2 + 1 * 10  # micro-dollars of an answer
TOKENS = 4
# A look at the files between a change and the request to take it would be one reload more.
UNWATCHED = f"import proxy.server.reloading as r; r.Reloading.__init__.__kwdefaults__['look_every'] = 3600.0; {RUN}"


class Cluster:
    """The tenants and upstreams of the configuration, to be changed and put."""

    def __init__(self, mounted: Mounted, busy: str, calm: str) -> None:
        self._mounted = mounted
        self.keys: dict[str, str] = {}
        self.tenants: dict[str, dict[str, object]] = {}
        self.listen = "127.0.0.1:0"
        self.upstreams = [
            {"name": "busy", "protocol": "chat", "base_url": busy, "api_key": "key-of-old"},
            {"name": "calm", "protocol": "chat", "base_url": calm, "api_key": "key-of-calm"},
        ]
        for name in ("team-a", "team-b"):
            self.add(name)

    def add(self, name: str) -> None:
        """A tenant, with limits that nothing reaches."""
        self.keys[name], entry = a_key()
        keys = [{"kid": entry.kid, "hash": f"{entry.method}:{entry.digest.hex()}"}]
        limits = {"rpd": 100_000, "tpd": 10_000_000, "concurrency": 2000, "budget": {"usd": 1000}}
        self.tenants[name] = {"name": name, "keys": keys, "limits": limits}

    def put(self) -> None:
        """Write it all."""
        backends = {
            "listen": self.listen,
            "admin_listen": "127.0.0.1:0",
            "key_pepper": PEPPER.decode(),
            "state": {"carrier_keys": ["ab" * 32]},
            "upstreams": self.upstreams,
            "models": [{"match": "calm", "upstream": "calm"}, {"match": "*", "upstream": "busy"}],
            "prices": [{"match": "*", "input": 2, "output": 10}],
        }
        self._mounted.put(backends=backends, tenants={"tenants": list(self.tenants.values())})

    def break_it(self) -> None:
        """Half of it is gone, and a number is none."""
        self._mounted.put(backends="max_body: many\n", tenants={"tenants": list(self.tenants.values())})


class Clients:
    """What the tenants' clients do. `asked`: requests that were let in, by tenant; `seen`: what came of whole ones."""

    def __init__(self, proxy: Process, cluster: Cluster, stack: AsyncExitStack) -> None:
        self._proxy, self._cluster, self._stack = proxy, cluster, stack
        self._streams: list[aiohttp.ClientResponse] = []
        self.asked: Counter[str] = Counter()
        self.seen: Counter[int] = Counter()
        self.stop = False

    async def ask(self, tenant: str, model: str = "m") -> int:
        """The status of a whole answer."""
        url, wire = self._proxy.clients + PATHS["chat"], {**REQUESTS["chat"], "model": model}
        async with self._proxy.session.post(url, json=wire, headers=bearer(self._cluster.keys[tenant])) as response:
            await response.read()
        self.asked[tenant] += response.status == 200
        return response.status

    async def keep_asking(self) -> None:
        """One after the other, until told to stop."""
        while not self.stop:
            self.seen[await self.ask("team-a")] += 1
            await asyncio.sleep(0.1)

    async def hold(self, tenant: str) -> None:
        """Begin a stream."""
        url, wire = self._proxy.clients + PATHS["chat"], {**REQUESTS["chat"], "stream": True}
        response = self._proxy.session.post(url, json=wire, headers=bearer(self._cluster.keys[tenant]))
        self._streams.append(await self._stack.enter_async_context(response))
        self.asked[tenant] += 1

    async def ends(self) -> Counter[tuple[int, bool]]:
        """What came of the streams: their status, and whether they are complete."""
        told = await asyncio.gather(*(stream.read() for stream in self._streams))
        return Counter(
            (stream.status, body.endswith(b"data: [DONE]\n\n"))
            for stream, body in zip(self._streams, told, strict=True)
        )


async def used(proxy: Process, tenant: str) -> dict[str, object]:
    """A tenant's windows of a day or longer."""
    _, told = await proxy.operate("GET", f"/admin/tenants/{tenant}")
    return {limit["dimension"]: limit["used"] for limit in told["limits"]}  # type: ignore[attr-defined]


async def reloads(proxy: Process) -> dict[str, float]:
    """The metric, by result."""
    async with proxy.session.get(f"{proxy.admin}/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    return {sample.labels["result"]: sample.value for sample in families["dragoman_config_reload"].samples}


async def until(proxy: Process, settled: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """The status of the configuration, once it is so."""
    async with asyncio.timeout(20):
        while True:
            _, told = await proxy.operate("GET", "/admin/config")
            if settled(told):
                return told
            await asyncio.sleep(0.02)


async def test_nothing_is_lost_while_the_configuration_changes(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path / "mounted")
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(Holding("key-of-old"))
        calm = await stack.enter_async_context(Holding("key-of-calm"))
        cluster = Cluster(mounted, busy.base_url, calm.base_url)
        cluster.put()
        proxy = await stack.enter_async_context(process_of(mounted.folder, tmp_path / "output", code=UNWATCHED))
        clients = Clients(proxy, cluster, stack)
        _, first = await proxy.operate("GET", "/admin/config")

        for _ in range(0, STREAMS, 50):
            await asyncio.gather(
                *(clients.hold("team-a") for _ in range(45)), *(clients.hold("team-b") for _ in range(5))
            )
        asking = [asyncio.create_task(clients.keep_asking()) for _ in range(ASKING)]
        assert await clients.ask("team-a", "calm") == 200
        digests = [first["digest"]]

        # 1: somebody new is let in at once.
        cluster.add("team-c")
        cluster.put()
        status, told = await proxy.operate("POST", "/admin/reload")
        digests.append(told["digest"])
        assert (status, await clients.ask("team-c")) == (200, 200)
        # 2: who has gone is refused, and its streams go on.
        gone = cluster.tenants.pop("team-b")
        cluster.put()
        proxy.hang_up()
        told = await until(proxy, lambda status: status["digest"] not in digests)
        digests.append(told["digest"])
        assert (await clients.ask("team-b"), busy.open) == (401, STREAMS)
        # 3, 4: what is broken changes nothing, whoever asks for it.
        cluster.break_it()
        status, told = await proxy.operate("POST", "/admin/reload")
        assert (status, told["digest"]) == (409, digests[-1])
        last = told["last_reload"]
        assert isinstance(last, dict)
        assert last["result"] == "rejected"
        assert any("backends.yaml:1: max_body: " in mistake for mistake in last["mistakes"])
        proxy.hang_up()
        again = await until(proxy, lambda status: status["last_reload"]["at"] != last["at"])  # type: ignore[index]
        assert (again["digest"], again["since"]) == (told["digest"], told["since"])
        assert [await clients.ask(name) for name in ("team-a", "team-b", "team-c")] == [200, 401, 200]
        # 5: a key that the backend does not know yet; the old one serves until it does.
        cluster.upstreams[0]["api_key"] = "key-of-new"
        cluster.put()
        assert (await proxy.operate("POST", "/admin/reload"))[0] == 200
        busy.keys.clear()
        assert await clients.ask("team-c") == 200
        await clients.hold("team-c")
        assert set(busy.keys) == {"key-of-new", "key-of-old"}
        busy.good.add("key-of-new")  # beside the old one: who has just been refused with the new comes back
        busy.keys.clear()
        assert await clients.ask("team-c") == 200
        assert "key-of-new" in busy.keys
        # 6: what holds after a restart alone is told, and nothing of it is done.
        cluster.listen = "127.0.0.1:1"
        cluster.put()
        _, told = await proxy.operate("POST", "/admin/reload")
        assert (told["needs_restart"], await clients.ask("team-c")) == (["listen"], 200)
        # 7: who comes back.
        cluster.tenants["team-b"] = gone
        cluster.put()
        assert (await proxy.operate("POST", "/admin/reload"))[0] == 200
        assert await clients.ask("team-b") == 200
        # 8 to 10: all at once.
        both = await asyncio.gather(*(proxy.operate("POST", "/admin/reload") for _ in range(3)))
        assert [status for status, _ in both] == [200] * 3

        assert await clients.ask("team-a", "calm") == 200
        clients.stop = True
        await asyncio.gather(*asking)
        busy.let_go.set()
        assert await clients.ends() == {(200, True): STREAMS + 1}
        standings = {name: await used(proxy, name) for name in ("team-a", "team-b", "team-c")}
        _, config = await proxy.operate("GET", "/admin/config")
        counted = await reloads(proxy)

    assert set(clients.seen) == {200}
    assert standings == {
        name: {
            "rpd": clients.asked[name],
            "tpd": clients.asked[name] * TOKENS,
            "concurrency": 0,
            "budget": round(clients.asked[name] * COST / 1e6, 6),
        }
        for name in standings
    }
    assert counted == {"ok": 8, "rejected": 2}
    assert calm.connections == 1
    audit = [record for record in proxy.records("audit") if str(record["action"]).startswith("config.")]
    assert Counter(record["action"] for record in audit) == {"config.load": 1, "config.reload": 8, "config.reject": 2}
    assert [record["actor"] for record in audit[1:5]] == [
        "admin at 127.0.0.1",
        "SIGHUP",
        "admin at 127.0.0.1",
        "SIGHUP",
    ]
    assert [(record["before_hash"], record["after_hash"]) for record in audit[:5]] == [
        (None, digests[0]),
        (digests[0], digests[1]),
        (digests[1], digests[2]),
        (digests[2], digests[2]),
        (digests[2], digests[2]),
    ]
    assert audit[-1]["after_hash"] == config["digest"]
    assert all(bool(record["request_id"]) == str(record["actor"]).startswith("admin") for record in audit)
    assert json.dumps(audit).count("key-of") == 0
