"""What operators are told and may do, and who they must be (operations.md 6.1, 8.2, 13)."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from pydantic import SecretBytes, SecretStr

from proxy.canonical.usage import Usage
from proxy.settings.snapshot import SharedLimits
from proxy.settings.tenants import (
    Budget,
    ModelRules,
    NameRules,
    Price,
    Tenant,
    TenantKey,
    TenantLimits,
    UpstreamKeys,
)
from tests.server.serving import PATHS, REQUESTS, Proxy, before, begins, operated, says_hello
from tests.server.tenancy import ENTRY, KEY, PEPPER, a_key, bearer, let_in, tenant
from tests.upstream.scripted import HOLD

TOKEN = "a-token-of-the-operators"
GUARDED = {
    "/admin/version": "GET",
    "/admin/config": "GET",
    "/admin/tenants": "GET",
    "/admin/tenants/team-a": "GET",
    "/admin/tenants/nobody": "GET",
    "/admin/reload": "POST",
    "/admin/drain": "POST",
}
OPEN = ("/healthz", "/readyz", "/metrics")
PRICE = Price("*", 2_000_000, 10_000_000, 0, 0, 0, 10_000_000)
LIMITS = TenantLimits(rpm=60, rpd=10, tpm=6000, tpd=10_000, concurrency=5, streams=2, budget=Budget(2_000_000))
HELLO = says_hello("chat", streamed=False)


class Told(NamedTuple):
    status: int
    headers: dict[str, str]
    wire: dict[str, object]


async def ask(proxy: Proxy, url: str, path: str, method: str = "GET", **headers: str) -> Told:
    """What the admin listener at `url` answers. `_` in a header's name stands for `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with proxy.session.request(method, url + path, headers=sent) as response:
        body = await response.read()
        names = {name.lower(): value for name, value in response.headers.items()}
        return Told(response.status, names, json.loads(body) if body else {})


async def statuses(proxy: Proxy, url: str, **headers: str) -> set[int]:
    """Of all that is guarded."""
    return {(await ask(proxy, url, path, method, **headers)).status for path, method in GUARDED.items()}


def far_away(_remote: str | None) -> bool:
    return False


async def test_without_a_token_this_machine_alone_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with let_in("chat", HELLO, tenants=[tenant()]) as (proxy, _), operated(proxy) as url:
        assert await statuses(proxy, url) == {200, 404, 409}  # an unknown tenant, and a configuration of no file
        assert await statuses(proxy, url, origin="http://elsewhere.example") == {403}
        assert await statuses(proxy, url, host="elsewhere.example:9090") == {403}
        assert await statuses(proxy, url, host="localhost:9090") == {200, 404, 409}
        assert await statuses(proxy, url, authorization=f"Bearer {TOKEN}", origin="null") == {403}
        monkeypatch.setattr("proxy.server.admin.is_local", far_away)
        assert await statuses(proxy, url) == {403}
        assert {(await proxy.session.get(url + path)).status for path in OPEN} == {200}


async def test_a_token_is_asked_for_wherever_one_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        let_in("chat", HELLO, tenants=[tenant()], admin_token=SecretStr(TOKEN)) as (proxy, _),
        operated(proxy) as url,
    ):
        good = f"Bearer {TOKEN}"
        local = {path: (await ask(proxy, url, path, method)).status for path, method in GUARDED.items()}
        monkeypatch.setattr("proxy.server.admin.is_local", far_away)
        for wrong in ({}, {"authorization": "Bearer"}, {"authorization": f"Basic {TOKEN}"}, bearer(TOKEN + "x")):
            assert await statuses(proxy, url, **wrong) == {401}
        assert await statuses(proxy, url, **bearer(KEY)) == {401}
        assert await statuses(proxy, url, authorization="Bearer \xe9\x80") == {401}
        assert await statuses(proxy, url, authorization=good) == {200, 404, 409}
        assert await statuses(proxy, url, authorization=good, origin="https://console.example") == {200, 404, 409}
        assert {(await proxy.session.get(url + path)).status for path in OPEN} == {200}
    assert local == {path: 200 if path == "/admin/drain" else 401 for path in GUARDED}


@pytest.mark.parametrize("path", [*OPEN, *(path for path, method in GUARDED.items() if method == "GET")])
async def test_head_is_answered_as_get_without_a_body(path: str) -> None:
    async with let_in("chat", HELLO, tenants=[tenant()]) as (proxy, _), operated(proxy) as url:
        head = await ask(proxy, url, path, "HEAD")
        async with proxy.session.get(url + path) as response:
            status = response.status
    assert (head.status, head.wire) == (status, {})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/admin/tenants", "GET, HEAD"),
        ("DELETE", "/admin/tenants/team-a", "GET, HEAD"),
        ("GET", "/admin/reload", "POST"),
        ("HEAD", "/admin/drain", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
async def test_another_method(method: str, path: str, allowed: str) -> None:
    drained: list[None] = []
    async with (
        let_in("chat", HELLO, tenants=[tenant()]) as (proxy, _),
        operated(proxy, lambda: drained.append(None)) as url,
    ):
        told = await ask(proxy, url, path, method)
    assert (told.status, told.headers["allow"], drained) == (405, allowed, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/admin/tenants/", 404),
        ("/admin/tenants/..", 404),
        ("/admin/tenants/team-a/", 404),
        ("/admin/tenants/TEAM-A", 404),
        ("/admin/tenants/%74eam-a", 200),
        ("/admin/tenants/a%00b%0a%22%7d", 404),
        ("/admin/tenants/%ff%fe", 404),
        ("/admin/tenants/" + "x" * 3000, 404),
        ("/admin/tenant", 404),
        ("/admin", 404),
        ("/%ff", 404),
        ("/admin/tenants/${KEY}", 404),
        ("/admin/tenants?limit=0", 400),
        ("/admin/tenants?limit=1001", 400),
        ("/admin/tenants?limit=-1", 400),
        ("/admin/tenants?limit=%d9%a1", 400),
        ("/admin/tenants?limit=1&after=%00%ff", 200),
    ],
)
async def test_odd_names(path: str, status: int) -> None:
    async with let_in("chat", HELLO, tenants=[tenant()]) as (proxy, _), operated(proxy) as url:
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answered = await reader.read()
        writer.close()
        head, _, body = answered.partition(b"\r\n\r\n")
        assert (int(head.split()[1]), len(body) < 2000) == (status, True)
        assert json.loads(body)


async def test_bytes_that_are_no_text_in_a_path() -> None:
    async with (
        let_in("chat", HELLO, tenants=[tenant()], admin_token=SecretStr(TOKEN)) as (proxy, _),
        operated(proxy) as url,
    ):
        for path in (b"/\xff\xfe", b"/admin/tenants/\xff"):
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answered = await reader.read()
            writer.close()
            assert answered.split()[1] in (b"400", b"401", b"404")


async def test_a_tenant_is_told_whole() -> None:
    now = round(time.time())
    _, expiring = a_key(expires_at=now + 86400.0)
    _, expired = a_key(expires_at=now - 3600.0)
    _, coming = a_key(not_before=now + 3600.0)
    one = tenant(
        keys=(ENTRY, expiring, expired, coming), limits=LIMITS, metadata={"owner": "a@example.org"}, not_before=1.0
    )
    async with (
        let_in("chat", HELLO, [*begins("chat"), HOLD], tenants=[one], prices=[PRICE]) as (proxy, _),
        operated(proxy) as url,
    ):
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer()))[0] == 200
        wire = {**REQUESTS["chat"], "stream": True}
        async with proxy.session.post(proxy.url + PATHS["chat"], json=wire, headers=bearer()) as stream:
            await stream.content.readany()
            told = (await ask(proxy, url, "/admin/tenants/team-a")).wire
    keys = told.pop("keys")
    limits = told.pop("limits")
    assert isinstance(keys, list)
    assert isinstance(limits, list)
    assert told == {
        "name": "team-a",
        "disabled": False,
        "not_before": "1970-01-01T00:00:01Z",
        "expires_at": None,
        "metadata": {"owner": "a@example.org"},
        "in_flight": 1,
        "since_start": {
            "requests": 1,
            "outcomes": {"ok": 1},
            "limited": {},
            "tokens": {"input": 3, "output": 1, "cache_read": 0, "cache_write": 0, "reasoning": 0},
            "cost_usd": 0.000016,
        },
    }
    used_at = datetime.fromisoformat(keys[0].pop("last_used")).timestamp()
    assert now - 1 <= used_at <= time.time()
    assert [(key["kid"], key["state"]) for key in keys] == [
        (ENTRY.kid, "active"),
        (expiring.kid, "active"),
        (expired.kid, "expired"),
        (coming.kid, "not yet valid"),
    ]
    assert [key.get("last_used") for key in keys] == [None] * 4
    assert datetime.fromisoformat(keys[1]["expires_at"]).astimezone(UTC).timestamp() == now + 86400
    by_name = {limit["dimension"]: (limit["unit"], limit["limit"], limit["used"]) for limit in limits}
    (_, _, tokens), (unit, budget, spent) = by_name.pop("tpm"), by_name.pop("budget")
    assert (unit, budget, 0.000016 < spent < 0.02, tokens > 4) == ("usd", 2.0, True, True)
    assert by_name == {
        "rpm": ("requests", 60, 12),
        "rpd": ("requests", 10, 2),
        "tpd": ("tokens", 10_000, by_name["tpd"][2]),
        "concurrency": ("requests", 5, 1),
        "streams": ("requests", 2, 1),
    }


async def test_keys_that_callers_bring_leave_no_trace_among_ours() -> None:
    own = tenant(keys=(), upstream=UpstreamKeys("byok", {}, "authorization", frozenset({"backend"})))
    async with let_in("chat", HELLO, tenants=[own]) as (proxy, _), operated(proxy) as url:
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer("sk-of-somebody-else")))[0] == 200
        told = (await ask(proxy, url, "/admin/config")).wire
    assert (told["keys"], proxy.runtime.key_uses) == ({}, {})


async def test_a_key_of_ours_beside_one_of_the_callers_is_told_to_be_used() -> None:
    own = tenant(upstream=UpstreamKeys("byok", {}, "authorization", frozenset({"backend"})))
    async with let_in("chat", HELLO, tenants=[own]) as (proxy, _), operated(proxy) as url:
        headers = {**bearer("sk-of-somebody-else"), "x-api-key": KEY}
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], headers))[0] == 200
        keys = (await ask(proxy, url, "/admin/config")).wire["keys"]
    assert isinstance(keys, dict)
    assert (list(keys), keys[ENTRY.kid] is None) == ([ENTRY.kid], False)


async def test_tenants_come_page_by_page_in_the_order_of_their_names() -> None:
    names = [f"team-{number}" for number in range(25)]
    tenants = [tenant(name, keys=(), limits=TenantLimits(rpd=number + 1)) for number, name in enumerate(names)]
    async with let_in("chat", HELLO, tenants=tenants) as (proxy, _), operated(proxy) as url:
        whole = (await ask(proxy, url, "/admin/tenants")).wire
        seen: list[str] = []
        after: object = ""
        while after is not None:
            page = (await ask(proxy, url, f"/admin/tenants?limit=10&after={after}")).wire
            assert isinstance(page["tenants"], list)
            seen += [told["name"] for told in page["tenants"]]
            after = page["next"]
        one = (await ask(proxy, url, "/admin/tenants/team-7")).wire
    assert seen == sorted(names)
    assert isinstance(whole["tenants"], list)
    assert ([told["name"] for told in whole["tenants"]], whole["total"], whole["next"]) == (seen, 25, None)
    assert one["name"] == "team-7"
    assert isinstance(one["limits"], list)
    assert [(limit["dimension"], limit["limit"], limit["used"]) for limit in one["limits"]] == [("rpd", 8, 0)]


async def test_without_tenants_there_are_none() -> None:
    async with before("chat", HELLO) as (proxy, _), operated(proxy) as url:
        assert (await ask(proxy, url, "/admin/tenants")).wire == {"tenants": [], "total": 0, "next": None}
        assert (await ask(proxy, url, "/admin/tenants/team-a")).status == 404


async def test_a_store_that_is_away() -> None:
    """Nobody knows how limits stand; and where nothing is let in without it, no load balancer should send any."""
    shared = SharedLimits(SecretStr("redis://:a-password-of-the-store@127.0.0.1:1/0"), "closed")
    one, two = tenant(limits=LIMITS), tenant("team-b", keys=())
    async with (
        let_in("chat", HELLO, tenants=[one, two], prices=[PRICE], shared_limits=shared) as (proxy, _),
        operated(proxy) as url,
    ):
        ready = (await ask(proxy, url, "/readyz")).status
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
        probes = [await ask(proxy, base, "/readyz") for base in (url, proxy.url)]
        told = (await ask(proxy, url, "/admin/tenants")).wire
        healthy = (await ask(proxy, url, "/healthz")).status
        async with proxy.session.get(f"{url}/metrics") as response:
            metrics = await response.text()
    assert (ready, status, headers["dragoman-reason"], healthy) == (200, 503, "overloaded", 200)
    assert [(probe.status, probe.wire["failed"]) for probe in probes] == [(503, ["limiter"])] * 2
    assert isinstance(told["tenants"], list)
    assert [each["limits"] for each in told["tenants"]] == [None, []]
    assert 'dragoman_limiter_backend_errors_total{action="failed_closed"} 1.0' in metrics


async def test_ten_thousand_tenants_keep_nobody_waiting() -> None:
    """Neither what is told of them nor their metrics hold up what else the process does."""
    digest = b"0" * 32
    tenants = [
        Tenant(f"team-{number}", keys=(TenantKey(f"a{number:011d}", "sha256", digest),), limits=LIMITS)
        for number in range(10_000)
    ]
    async with let_in("chat", HELLO, tenants=tenants) as (proxy, _), operated(proxy) as url:
        for each in tenants:
            proxy.runtime.metrics.tenants.of(each.name).add("ok", Usage(input_fresh=1, output=1), 1)
        seconds, samples = {}, 0
        for path in ("/metrics", "/admin/tenants", "/admin/tenants?limit=1000", "/admin/config"):
            began = time.perf_counter()
            async with proxy.session.get(url + path) as response:
                body = await response.read()
            seconds[path] = time.perf_counter() - began
            if path == "/metrics":
                samples = body.count(b"\ndragoman_tenant_requests_total{")
            assert response.status == 200
        gone = {name: each for name, each in (proxy.gateway.settings.tenants or {}).items() if name.endswith("7")}
        proxy.runtime.take(proxy.runtime.make_ready(replace(proxy.gateway.settings, tenants=gone), "2"))
        async with proxy.session.get(f"{url}/metrics") as response:
            left = (await response.read()).count(b"\ndragoman_tenant_requests_total{")
    assert (samples, left) == (10_000, 1000)
    assert max(seconds.values()) < 10, seconds  # a second, on a machine with nothing else to do


async def test_nothing_that_is_told_shows_a_secret() -> None:
    shared = SharedLimits(SecretStr("redis://:a-password-of-the-store@127.0.0.1:1/0"), "open")
    mapped = tenant(upstream=UpstreamKeys("map", {"backend": SecretStr("a-key-of-the-tenants-own")}), limits=LIMITS)
    secrets = [
        TOKEN,
        KEY,
        KEY[17:60],
        PEPPER.decode(),
        "a-password-of-the-store",
        "a-key-of-the-tenants-own",
        "proxy-key",
    ]
    secrets += [ENTRY.digest.hex(), "cd" * 32]
    more = {"admin_token": SecretStr(TOKEN), "shared_limits": shared, "carrier_keys": (SecretBytes(b"\xcd" * 32),)}
    told = ""
    async with let_in("chat", HELLO, tenants=[mapped], **more) as (proxy, _), operated(proxy) as url:
        await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
        for path, method in {**GUARDED, **dict.fromkeys(OPEN, "GET")}.items():
            for headers in ({}, {"authorization": f"Bearer {TOKEN}"}):
                async with proxy.session.request(method, url + path, headers=headers) as response:
                    told += f"{response.headers}{await response.text()}"
        told += json.dumps(proxy.access.records)
        told += repr([proxy.gateway.settings, proxy.runtime, proxy.gateway])
    assert [secret for secret in secrets if secret in told] == []


async def test_what_operators_do_is_recorded_once_with_the_id_that_they_were_told() -> None:
    denying = tenant(audit_denials=True, models=ModelRules(NameRules(allow=("other",))))
    silent_key, silent_entry = a_key()
    silent = tenant("team-b", keys=(silent_entry,), models=ModelRules(NameRules(allow=("other",))))
    async with let_in("chat", HELLO, tenants=[denying, silent]) as (proxy, _), operated(proxy) as url:
        ids = [
            (await ask(proxy, url, path, method, **headers)).headers["x-request-id"]
            for path, method, headers in (
                ("/admin/tenants", "GET", {}),
                ("/admin/reload", "POST", {}),
                ("/admin/tenants/a%0ab", "GET", {"origin": "null"}),
                ("/admin/drain", "POST", {}),
            )
        ]
        denied = [(await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer(key)))[1] for key in (KEY, silent_key)]
        unknown = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer("drg_wrong"))
        audit = [record for record in proxy.access.records if record["log"] == "audit"]
    assert unknown[0] == 401
    assert len(set(ids)) == 4
    assert [
        (record["action"], record["actor"], record["target"], record["result"], record["request_id"])
        for record in audit
    ] == [
        ("config.load", "process", "config", "ok", None),
        ("config.reject", "admin at 127.0.0.1", "config", "rejected", ids[1]),
        ("admin.denied", "127.0.0.1", "GET /admin/tenants/a\nb", "denied", ids[2]),
        ("drain.start", "admin at 127.0.0.1", "process", "ok", ids[3]),
        ("request.denied", "team-a", "/chat/completions", "model_denied", denied[0]["x-request-id"]),
    ]
