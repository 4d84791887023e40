"""What a scrape says of requests: the catalogue of operations.md 4.2, by labels from closed sets."""

import asyncio
import os
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from proxy.server.exchange import Exchange
from proxy.settings import LossPolicy, Timeouts, load
from proxy.settings.tenants import Price, TenantLimits
from tests.server.serving import (
    EVENTS,
    PATHS,
    REQUESTS,
    Proxy,
    before,
    begins,
    operated,
    route,
    says_hello,
    serving,
    upstream,
)
from tests.server.tenancy import bearer, let_in, tenant
from tests.upstream.scripted import HOLD, Scripted, reply

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def text_of(proxy: Proxy, accept: str = "text/plain") -> str:
    async with operated(proxy) as url, proxy.session.get(f"{url}/metrics", headers={"accept": accept}) as response:
        assert response.status == 200
        return await response.text()


async def scraped(proxy: Proxy) -> Samples:
    families = read_text(await text_of(proxy))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_seen_from_all_sides(stream: bool) -> None:
    models = [("m*", "big", LossPolicy())]
    hello = says_hello("messages", streamed=stream, **{"anthropic-ratelimit-tokens-remaining": "77"})
    async with before("messages", hello, models=models) as (proxy, _):
        await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "model": "mine", "stream": stream})
        await proxy.record()
        found = await scraped(proxy)
    pair = {"client": "chat", "backend": "messages"}
    path = {**pair, "model": "m*"}
    to = {"upstream": "backend", "model": "m*"}
    assert value(found, "dragoman_requests_total", **path, code="200", outcome="ok") == 1
    duration = {**path, "stream": "true" if stream else "false"}
    assert value(found, "dragoman_request_duration_seconds_count", **duration) == 1
    assert value(found, "dragoman_overhead_seconds_count", **pair) == 1
    assert value(found, "dragoman_upstream_duration_seconds_count", **to, code="200") == 1
    assert value(found, "dragoman_upstream_attempts_total", upstream="backend", result="ok") == 1
    assert value(found, "dragoman_tokens_total", **to, type="input") == 3
    assert value(found, "dragoman_usage_source_total", source="reported") == 1
    assert value(found, "dragoman_translate_seconds_count", **pair, stage="request") == 1
    assert value(found, "dragoman_upstream_ratelimit_remaining", upstream="backend", kind="tokens") == 77
    assert value(found, "dragoman_in_flight_requests", client="chat") == 0
    assert value(found, "dragoman_request_bytes_count", client="chat") == 1
    of_streams = {
        "dragoman_time_to_first_token_seconds_count": path,
        "dragoman_upstream_time_to_first_event_seconds_count": to,
        "dragoman_stream_stall_seconds_count": {"upstream": "backend"},
        "dragoman_translate_seconds_count": {**pair, "stage": "stream"},
    }
    for name, labels in of_streams.items():
        assert value(found, name, **labels) == (1 if stream else None), name
    assert value(found, "dragoman_draining") == 0
    assert value(found, "dragoman_telemetry_dropped_total", kind="spans") == 0
    assert value(found, "dragoman_reserved_tokens") == 0
    assert {"process_cpu_seconds_total", "python_gc_collections_total", "dragoman_build_info"} <= {
        name for name, _ in found
    }


async def test_time_that_others_take_is_no_overhead() -> None:
    asked = asyncio.Event()
    async with before("messages", [asked, *says_hello("messages", streamed=True)]) as (proxy, _):
        asyncio.get_running_loop().call_later(0.3, asked.set)
        await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": True})
        record = await proxy.record()
    assert record["ms"]["total"] >= 250  # type: ignore[index]
    assert record["ms"]["upstream"] >= 250  # type: ignore[index]
    assert record["ms"]["overhead"] < 200  # type: ignore[index]


async def test_a_pause_in_a_stream_is_its_stall() -> None:
    paused = asyncio.Event()
    begun, first, *rest = says_hello("messages", streamed=True)
    async with before("messages", [begun, first, paused, *rest]) as (proxy, _):
        asyncio.get_running_loop().call_later(0.3, paused.set)
        await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": True})
        await proxy.record()
        found = await scraped(proxy)
    stall = value(found, "dragoman_stream_stall_seconds_sum", upstream="backend")
    to = {"backend": "messages", "model": "*"}
    gap = value(found, "dragoman_inter_token_seconds_sum", **to)
    assert stall is not None
    assert gap is not None
    assert stall >= 0.25
    assert value(found, "dragoman_inter_token_seconds_count", **to) == 1
    assert 0.25 <= gap * (len(EVENTS["messages"]) - 1) < 5


ENDS = {
    "client": ({"messages": 3}, [], "client_error", "client", "malformed"),
    "refused": ({}, [reply(400, '{"error": {"message": "No."}}')], "client_error", "upstream", "invalid"),
    "down": ({}, [reply(503, "{}")], "upstream_error", "upstream", "overloaded"),
}


@pytest.mark.parametrize("end", ENDS)
async def test_an_error_tells_who_said_no_and_whose_fault_it_is(end: str) -> None:
    asked, script, outcome, origin, kind = ENDS[end]
    async with before("messages", script) as (proxy, _):
        await proxy.post(PATHS["chat"], {**REQUESTS["chat"], **asked})
        record = await proxy.record()
        found = await scraped(proxy)
    assert record["outcome"] == outcome
    assert value(found, "dragoman_errors_total", origin=origin, kind=kind, upstream="backend") == 1


async def test_who_leaves_is_counted_by_when() -> None:
    async with before("messages", [*begins("messages", 3), HOLD], timeouts=Timeouts()) as (proxy, _):
        asked = {**REQUESTS["messages"], "stream": True}
        async with proxy.session.post(proxy.url + PATHS["messages"], json=asked) as response:
            await response.content.readany()
            during = await scraped(proxy)
        await proxy.record()
        found = await scraped(proxy)
    assert value(during, "dragoman_streams_active", client="messages", backend="messages") == 1
    assert value(found, "dragoman_client_disconnects_total", client="messages", phase="streaming") == 1


async def test_a_trace_that_is_kept_is_an_exemplar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "sampled_trace", "a" * 32)
    async with before("messages", says_hello("messages", streamed=False)) as (proxy, _):
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        text = await text_of(proxy, OPENMETRICS)
        plain = await text_of(proxy)
    shown = {
        family.name: sample.exemplar.labels
        for family in read_openmetrics(text)
        for sample in family.samples
        if sample.exemplar
    }
    assert shown == {
        "dragoman_request_duration_seconds": {"trace_id": "a" * 32},
        "dragoman_upstream_duration_seconds": {"trace_id": "a" * 32},
    }
    assert "trace_id" not in plain


@pytest.mark.parametrize("stream", [False, True])
async def test_what_answers_cost_is_told_without_tenants_too(stream: bool) -> None:
    price = Price("m", 1_000_000, 10_000_000, 0, 0, 0, 10_000_000)  # 1 micro-dollar a token of input, 10 of output
    async with Scripted(*[says_hello("messages", streamed=stream)] * 2) as backend:
        to = upstream("messages", backend.base_url)
        async with serving(to, prices=(price,)) as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": stream})
            record = await proxy.record()
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": stream, "model": "free"})
            found = await scraped(proxy)
    assert record["cost_usd"] == 13e-6
    assert value(found, "dragoman_cost_usd_total", model="*", upstream="backend") == pytest.approx(13e-6)


async def test_the_age_of_a_key_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("secret-in-a-file")
    os.utime(file, (time.time() - 3600,) * 2)
    text = f"upstreams: [{{name: a, protocol: chat, base_url: http://a, api_key_file: {file}}}]"
    (tmp_path / "dragoman.yaml").write_text(text)
    from_file = load(tmp_path / "dragoman.yaml", {}).upstreams["a"]
    async with serving(from_file, upstream("chat", "http://b")) as proxy:
        found = await scraped(proxy)
    assert 3600 <= (value(found, "dragoman_secret_age_seconds", upstream="a") or 0) < 3660
    assert value(found, "dragoman_secret_age_seconds", upstream="backend") is None


async def test_nothing_that_callers_make_up_makes_a_series() -> None:
    chance = random.Random(5)
    async with Scripted() as backend:
        to = upstream("messages", backend.base_url)
        async with serving(to, models=[route("known", to)]) as proxy:

            async def ask() -> None:
                word = f"w{chance.getrandbits(64):x}"
                wire = {**REQUESTS["chat"], "model": word, "tools": [{"type": word}]}
                await proxy.post(PATHS["chat"], wire, {"x-request-id": word})
                await proxy.ask(chance.choice(["GET", "PUT", word.upper()]), f"/{word}/{word}")
                await proxy.ask("GET", f"/v1/models/{word}")

            for _ in range(30):
                await ask()
            first = set(await scraped(proxy))
            for _ in range(300):
                await ask()
            assert {name for name, _ in set(await scraped(proxy)) - first} == set()


async def time_of(proxy: Proxy, url: str) -> float:
    began = time.perf_counter()
    async with proxy.session.get(url) as response:
        await response.read()
    assert response.status == 200
    return time.perf_counter() - began


async def test_scrapes_and_probes_are_answered_while_the_loop_is_full() -> None:
    async with before("messages", *[says_hello("messages", streamed=False)] * 3000) as (proxy, _):

        async def load() -> None:
            while True:
                await proxy.post(PATHS["chat"], REQUESTS["chat"])

        async with operated(proxy) as url:
            tasks = [asyncio.create_task(load()) for _ in range(32)]
            try:
                await asyncio.sleep(0.3)
                asked = [
                    f"{url}/metrics",
                    f"{url}/healthz",
                    f"{url}/readyz",
                    f"{proxy.url}/healthz",
                    f"{proxy.url}/readyz",
                ]
                took = [await time_of(proxy, each) for each in asked]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    assert max(took) < 1


async def test_what_the_configuration_has_no_more_is_not_shown() -> None:
    async with Scripted(says_hello("messages", streamed=False)) as backend:
        old, new = upstream("messages", backend.base_url, name="old"), upstream("chat", backend.base_url, name="new")
        async with serving(old, models=[route("gone", old)]) as proxy:
            await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "model": "gone"})
            assert re.search("gone|old", await text_of(proxy))
            settings = replace(proxy.gateway.settings, upstreams={"new": new}, models=(route("stays", new),))
            proxy.runtime.take(proxy.runtime.make_ready(settings, ""))
            text = await text_of(proxy)
    assert not re.findall('"(?:gone|old)"', text)
    assert 'upstream="new"' in text


async def test_no_backend_that_answers_is_a_timeout_of_its_own() -> None:
    timeouts = Timeouts(first_event_whole=0.05)
    async with before("messages", [HOLD], timeouts=timeouts) as (proxy, _):
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        found = await scraped(proxy)
    assert value(found, "dragoman_upstream_attempts_total", upstream="backend", result="timeout_first_event") == 1


@pytest.mark.parametrize("labelled", [True, False])
async def test_tenants_are_named_where_that_is_wanted(labelled: bool) -> None:
    limited = tenant("team", limits=TenantLimits(rpm=10, tpm=1000))
    hello = says_hello("messages", streamed=False)
    async with let_in("messages", hello, tenants=[limited], tenant_label=labelled) as (proxy, _):
        await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
        await proxy.runtime.sampling.look_at_limits()
        found = await scraped(proxy)
    filled = value(found, "dragoman_limit_utilization_ratio", tenant="team", dimension="rpm")
    assert (filled is not None and 0 < filled <= 1) == labelled
    assert value(found, "dragoman_tenant_requests_total", tenant="team", outcome="ok") == (1 if labelled else None)
    assert any(("tenant", "team") in labels for _, labels in found) == labelled
    assert value(found, "dragoman_settlement_error_ratio_bucket", le="+Inf") == 1
