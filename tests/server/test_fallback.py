"""Which target a request goes to, and what its client sees of it when that is another one (operations.md 11)."""

import asyncio
import json
from dataclasses import replace

import anthropic
import openai
import pytest
from pydantic import SecretBytes, SecretStr

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.settings import Breaker, ProtocolName, Retries
from proxy.settings.telemetry import Traces
from proxy.settings.tenants import Budget, Price, TenantLimits, UpstreamKeys
from proxy.tenancy.memory import MemoryLimiter
from tests.harness.otlp import Receiver
from tests.server.falling import Target, before_all, metrics, says, told
from tests.server.serving import PATHS, REPLIES, REQUESTS, Proxy, operated, says_hello
from tests.server.tenancy import PEPPER, bearer, tenant
from tests.upstream.scripted import CUT, HOLD, Scripted, Step, reply

DOWN = says(529)


class Clock:
    """Time that stands still until it is told."""

    def __init__(self, proxy: Proxy) -> None:
        self.now = 1000.0
        proxy.runtime.clock = lambda: self.now


def whole(protocol: ProtocolName) -> list[Step]:
    return says_hello(protocol, streamed=False)


HELLO = whole("messages")


def asked(backends: list[Scripted]) -> list[int]:
    return [len(backend.asked) for backend in backends]


# ---- what clients see


@pytest.mark.parametrize(("first", "second"), [("chat", "messages"), ("messages", "responses"), ("responses", "chat")])
@pytest.mark.parametrize("streamed", [False, True])
async def test_openais_sdk_never_notices(first: ProtocolName, second: ProtocolName, streamed: bool) -> None:
    hello = says_hello(second, streamed=streamed)
    async with before_all(Target(first, [[CUT]]), Target(second, [hello])) as (proxy, _):
        sdk = openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0)
        messages = [{"role": "user", "content": "Say hello."}]
        async with sdk:
            if streamed:
                text = ""
                async for chunk in await sdk.chat.completions.create(model="m", messages=messages, stream=True):  # type: ignore[call-overload]
                    text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            else:
                text = (await sdk.chat.completions.create(model="m", messages=messages)).choices[0].message.content  # type: ignore[arg-type]
            raw = await sdk.responses.with_raw_response.create(model="m", input="hi")
    assert text == "Hello"
    assert raw.headers["dragoman-fallback"] == "1"


@pytest.mark.parametrize(("first", "second"), [("chat", "messages"), ("messages", "responses"), ("messages", "chat")])
@pytest.mark.parametrize("streamed", [False, True])
async def test_anthropics_sdk_never_notices(first: ProtocolName, second: ProtocolName, streamed: bool) -> None:
    hello = says_hello(second, streamed=streamed)
    async with before_all(Target(first, [DOWN]), Target(second, [hello])) as (proxy, _):
        sdk = anthropic.AsyncAnthropic(base_url=proxy.url, api_key="k", max_retries=0)
        request = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Say hello."}]}
        async with sdk:
            if streamed:
                async with sdk.messages.stream(**request) as stream:  # type: ignore[arg-type]
                    text = await stream.get_final_text()
            else:
                text = (await sdk.messages.create(**request)).content[0].text  # type: ignore[call-overload]
    assert text == "Hello"


async def test_each_target_is_asked_in_its_protocol_by_its_name_from_the_clients_own_request() -> None:
    request = {**REQUESTS["chat"], "max_tokens": 7, "stop": ["x"], "logit_bias": {"1": 1}}
    those = [
        Target("messages", [DOWN], model="claude"),
        Target("responses", [DOWN], model="gpt"),
        Target("chat", [whole("chat")], model="llama"),
    ]
    async with before_all(*those) as (proxy, backends):
        status, headers, _ = await proxy.post(PATHS["chat"], request)
        record = await proxy.record()
        series = await metrics(proxy, "fallbacks")
    bodies = [json.loads(backend.asked[0].body) for backend in backends]
    assert [body["model"] for body in bodies] == ["claude", "gpt", "llama"]
    assert bodies[0]["stop_sequences"] == ["x"]
    assert bodies[2] == {**request, "model": "llama"}  # nothing of the translations before is left
    assert (status, told(headers), headers["dragoman-upstream-model"]) == (200, ("3", "1", "three"), "llama")
    assert "dragoman-loss" not in headers  # of the targets that did not answer
    assert (record["backend"], record["upstream_model"], record["fallback_from"]) == ("chat", "llama", "one")
    assert series == {("one", "two", "failed"): 1, ("two", "three", "ok"): 1}


async def test_strict_mode_refuses_one_target_and_takes_the_next() -> None:
    request = {**REQUESTS["chat"], "logit_bias": {"1": 1}}
    strict = {"dragoman-strict": "1"}
    async with before_all(Target("messages", [whole("messages")]), Target("chat", [whole("chat")])) as (
        proxy,
        backends,
    ):
        status, headers, _ = await proxy.post(PATHS["chat"], request, strict)
    assert (status, told(headers), asked(backends)) == (200, ("1", "1", "two"), [0, 1])


async def test_where_all_targets_refuse_the_first_ones_reason_is_told() -> None:
    request = {**REQUESTS["chat"], "logit_bias": {"1": 1}}
    async with before_all(Target("messages", [whole("messages")]), Target("responses", [whole("responses")])) as (
        proxy,
        backends,
    ):
        status, headers, body = await proxy.post(PATHS["chat"], request, {"dragoman-strict": "1"})
    assert (status, json.loads(body)["error"]["param"], asked(backends)) == (400, "logit_bias", [0, 0])
    assert headers["dragoman-upstream"] == "one"


async def test_what_a_backend_said_counts_more_than_that_another_would_not_do() -> None:
    request = {**REQUESTS["chat"], "logit_bias": {"1": 1}}
    async with before_all(Target("chat", [DOWN]), Target("messages", [whole("messages")])) as (proxy, backends):
        status, headers, body = await proxy.post(PATHS["chat"], request, {"dragoman-strict": "1"})
        record = await proxy.record()
    assert (status, asked(backends), headers["dragoman-upstream"]) == (529, [1, 0], "one")
    assert (b"No." in body, record["upstream"], record["outcome"]) == (True, "one", "upstream_error")


async def test_endpoints_that_nobody_translates_fall_back_among_those_that_have_them() -> None:
    vectors = reply(200, json.dumps({"object": "list", "data": []}))
    async with before_all(
        Target("chat", [DOWN]), Target("messages", [whole("messages")]), Target("responses", [vectors], model="e")
    ) as (proxy, backends):
        status, headers, _ = await proxy.post("/v1/embeddings", {"model": "m", "input": "x"})
    assert (status, told(headers), asked(backends)) == (200, ("2", "1", "three"), [1, 0, 1])
    assert json.loads(backends[2].asked[0].body) == {"model": "e", "input": "x"}


async def test_a_request_that_is_too_long_goes_where_such_requests_go() -> None:
    long = says(400, "invalid_request_error", "context_length_exceeded")
    beside = Target("messages", [whole("messages")], model="large")
    async with before_all(Target("chat", [long]), Target("chat", [whole("chat")]), beside=beside) as (proxy, backends):
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, told(headers), asked(backends)) == (200, ("2", "1", "three"), [1, 0, 1])


async def test_a_request_that_is_too_long_takes_no_state_along() -> None:
    long = says(400, "invalid_request_error", "context_length_exceeded")
    request = {**REQUESTS["responses"], "previous_response_id": "resp_1"}
    beside = Target("responses", [whole("responses")])
    async with before_all(Target("responses", [long]), beside=beside) as (proxy, backends):
        status, _, body = await proxy.post(PATHS["responses"], request)
    assert (status, json.loads(body)["error"]["code"], asked(backends)) == (400, "context_length_exceeded", [1, 0])


@pytest.mark.parametrize("streamed", [False, True])
async def test_choices_that_are_answers_of_their_own_are_asked_elsewhere_together(streamed: bool) -> None:
    request = {**REQUESTS["chat"], "n": 2, "stream": streamed}
    hello = says_hello("responses", streamed=streamed)
    async with before_all(Target("messages", [DOWN]), Target("responses", [hello]), entry={"fan_out": 2}) as (
        proxy,
        backends,
    ):
        status, headers, body = await proxy.post(PATHS["chat"], request)
    assert (status, headers["dragoman-upstream"], len(backends[1].asked)) == (200, "two", 2)
    assert b'"index":1' in body


# ---- what only one backend knows


@pytest.mark.parametrize("more", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
async def test_what_one_backend_keeps_pins_the_request_to_it(more: dict[str, object]) -> None:
    request = {**REQUESTS["responses"], **more}
    those = [Target("responses", [DOWN]), Target("responses", [whole("responses")]), Target("messages", [HELLO])]
    async with before_all(*those) as (proxy, backends):
        status, headers, body = await proxy.post(PATHS["responses"], request)
    error = json.loads(body)["error"]
    assert (status, error["code"], error["param"]) == (400, "dragoman_state_not_portable", next(iter(more)))
    assert (headers["dragoman-reason"], asked(backends)) == ("state_not_portable", [1, 0, 0])


async def test_it_goes_to_the_one_that_can_know_it() -> None:
    """A backend of another protocol can't, whatever stands first."""
    request = {**REQUESTS["responses"], "previous_response_id": "resp_1"}
    async with before_all(Target("messages", [HELLO]), Target("responses", [whole("responses")])) as (proxy, backends):
        status, headers, _ = await proxy.post(PATHS["responses"], request)
    assert (status, asked(backends), "dragoman-fallback" in headers) == (200, [0, 1], False)


async def test_one_account_at_two_addresses_of_a_model_knows_the_same() -> None:
    request = {**REQUESTS["responses"], "previous_response_id": "resp_1"}
    async with before_all(Target("responses", [DOWN, whole("responses")], model="a"), Target("messages", [HELLO])) as (
        proxy,
        _,
    ):
        again = proxy.gateway.settings.models[0].targets[0]
        route = replace(proxy.gateway.settings.models[0], targets=(again, replace(again, model="b")))
        settings = replace(proxy.gateway.settings, models=(route,))
        proxy.runtime.take(proxy.runtime.make_ready(settings, ""))
        status, headers, _ = await proxy.post(PATHS["responses"], request)
    assert (status, headers["dragoman-upstream-model"]) == (200, "b")


# ---- weights, affinity, health


async def test_the_same_prompt_goes_to_the_same_target_until_that_is_cool() -> None:
    cools = says(429, "requests", "rate_limit_exceeded", retry_after="30")
    those = [Target("chat", [whole("chat")], weight=1), Target("chat", [whole("chat")], weight=1)]
    async with before_all(*those) as (proxy, backends):
        clock = Clock(proxy)
        for number in range(8):
            turn = {"role": "user", "content": f"Question {number}"}
            await proxy.post(PATHS["chat"], {"model": "m", "messages": [SYSTEM, turn]})
        home = asked(backends).index(8)
        assert sorted(asked(backends)) == [0, 8]
        for number in range(40):
            await proxy.post(PATHS["chat"], {"model": "m", "prompt_cache_key": str(number), **REQUESTS["chat"]})
        assert all(count > 10 for count in asked(backends))
        backends[home]._scripts = [[cools]]
        before = asked(backends)
        request = {"model": "m", "messages": [SYSTEM]}
        seen = [told((await proxy.post(PATHS["chat"], request))[1]) for _ in range(3)]
        other = ("one", "two")[1 - home]
        assert seen == [("2", "1", other), ("1", "1", other), ("1", "1", other)]
        assert asked(backends)[home] == before[home] + 1
        backends[home]._scripts = [whole("chat")]
        clock.now += 31
        assert told((await proxy.post(PATHS["chat"], request))[1]) == ("1", None, ("one", "two")[home])


SYSTEM: dict[str, object] = {"role": "system", "content": "Be brief."}


async def test_a_full_target_leaves_the_rest_to_the_other() -> None:
    goes_on = asyncio.Event()
    slow: list[Step] = [goes_on, *whole("chat")]
    first = Target("chat", [slow], weight=1000, more={"max_connections": 1})
    async with before_all(first, Target("chat", [whole("chat")], weight=0.001)) as (proxy, backends):
        waiting = asyncio.create_task(proxy.post(PATHS["chat"], REQUESTS["chat"]))
        await backends[0].got_one.wait()
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        goes_on.set()
        await waiting
    assert headers["dragoman-upstream"] == "two"


async def test_a_breaker_opens_lets_one_through_and_closes() -> None:
    """Time is the test's own."""
    those = [Target("chat", [*[DOWN] * 6, whole("chat")]), Target("chat", [whole("chat")])]
    async with before_all(*those) as (proxy, backends):
        clock = Clock(proxy)
        for _ in range(5):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert (asked(backends), await circuits(proxy)) == ([5, 5], {"one": 2.0, "two": 0.0})
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert (told(headers), asked(backends)) == (("1", "1", "two"), [5, 6])
        clock.now += 13
        assert await circuits(proxy) == {"one": 1.0, "two": 0.0}
        await proxy.post(PATHS["chat"], REQUESTS["chat"])  # the trial fails
        assert (asked(backends), await circuits(proxy)) == ([6, 7], {"one": 2.0, "two": 0.0})
        clock.now += 13
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert asked(backends) == [6, 8]  # the pause is twice as long
        clock.now += 13
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert (told(headers), await circuits(proxy)) == (("1", None, "one"), {"one": 0.0, "two": 0.0})


async def test_one_request_at_a_time_tries_a_backend_again() -> None:
    goes_on = asyncio.Event()
    slow: list[Step] = [goes_on, *whole("chat")]
    those = [Target("chat", [*[DOWN] * 5, slow]), Target("chat", [whole("chat")])]
    async with before_all(*those) as (proxy, backends):
        clock = Clock(proxy)
        for _ in range(5):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        clock.now += 13
        backends[0].got_one.clear()
        trial = asyncio.create_task(proxy.post(PATHS["chat"], REQUESTS["chat"]))
        await backends[0].got_one.wait()
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert headers["dragoman-upstream"] == "two"
        goes_on.set()
        assert (await trial)[1]["dragoman-upstream"] == "one"


@pytest.mark.parametrize("script", [[HOLD], says(400, "invalid_request_error"), says(429, retry_after="0")])
async def test_clients_that_leave_and_4xx_open_nothing(script: list[Step] | bytes) -> None:
    once: dict[str, object] = {"retries": Retries(share=0, free=0)}
    async with before_all(Target("chat", [script], more=once), Target("chat", [DOWN])) as (proxy, backends):
        Clock(proxy)
        for _ in range(6):
            backends[0].got_one.clear()
            asking = asyncio.create_task(proxy.post(PATHS["chat"], REQUESTS["chat"]))
            if script == [HOLD]:
                await backends[0].got_one.wait()
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            else:
                await asking
        assert (await circuits(proxy))["one"] == 0


async def test_where_all_are_open_the_one_that_opened_first_is_tried() -> None:
    once: dict[str, object] = {"breaker": Breaker(failures=1)}
    async with before_all(Target("chat", [DOWN, whole("chat")], more=once), Target("chat", [DOWN], more=once)) as (
        proxy,
        backends,
    ):
        clock = Clock(proxy)
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert await circuits(proxy) == {"one": 2.0, "two": 2.0}
        clock.now += 1
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-upstream"], asked(backends)) == (200, "one", [2, 1])


async def test_an_outage_is_not_amplified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three a second are sent twice, and no more of so few; an open breaker ends even that."""
    monkeypatch.setattr("proxy.upstream.health.FIRST_PAUSE", 0.0001)
    async with before_all(Target("chat", [says(500)], more={"breaker": None})) as (proxy, backends):
        Clock(proxy)
        for _ in range(20):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert asked(backends) == [20 + 3 + 4]
    async with before_all(Target("chat", [says(500)])) as (proxy, backends):
        Clock(proxy)
        for _ in range(20):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        assert asked(backends) == [20 + 2]


async def circuits(proxy: Proxy) -> dict[str, float]:
    """As they are scraped."""
    async with operated(proxy) as admin, proxy.session.get(f"{admin}/metrics") as response:
        lines = (await response.text()).splitlines()
    found = [line for line in lines if line.startswith("dragoman_circuit_state{")]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in found}


# ---- keys


@pytest.mark.parametrize("refusal", [says(401), says(429, "insufficient_quota", "insufficient_quota"), says(403)])
async def test_another_key_takes_over_until_the_configuration_is_read_again(refusal: bytes) -> None:
    keys: dict[str, object] = {"key": "key-1-0123456789", "spare_keys": (SecretStr("key-2-0123456789"),)}
    async with before_all(Target("chat", [refusal, whole("chat")], more=keys)) as (proxy, backends):
        Clock(proxy)
        seen = [told((await proxy.post(PATHS["chat"], REQUESTS["chat"]))[1]) for _ in range(2)]
        assert await metrics(proxy, "retries") == {("one", "credential"): 1}
        counted = await metrics(proxy, "errors")
        assert counted == ({} if b"quota" in refusal else {("upstream", "upstream_auth", "one"): 1})
        proxy.runtime.take(proxy.runtime.make_ready(proxy.gateway.settings, ""))
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
        shown = json.dumps(proxy.access.records)
    assert seen == [("2", None, "one"), ("1", None, "one")]
    used = [each.headers["authorization"][-len("key-1-0123456789") :][:5] for each in backends[0].asked]
    assert used == ["key-1", "key-2", "key-2", "key-1"]
    assert "0123456789" not in shown


async def test_a_key_at_its_limit_rests_while_another_is_used() -> None:
    keys: dict[str, object] = {"key": "key-1-0123456789", "spare_keys": (SecretStr("key-2-0123456789"),)}
    limit = says(429, "requests", "rate_limit_exceeded", retry_after="30")
    async with before_all(Target("chat", [limit, whole("chat")], more=keys)) as (proxy, backends):
        clock = Clock(proxy)
        for _ in range(2):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        clock.now += 31
        await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert [each.headers["authorization"][7:12] for each in backends[0].asked] == ["key-1", "key-2", "key-2", "key-1"]


async def test_each_key_has_one_turn() -> None:
    """Their limits are over before the next one has met its own."""
    spare = (SecretStr("key-2-0123456789"), SecretStr("key-3-0123456789"))
    keys: dict[str, object] = {"key": "key-1-0123456789", "spare_keys": spare, "retries": Retries(share=0, free=0)}
    limit = says(429, "requests", "rate_limit_exceeded", retry_after_ms="0.001")
    async with before_all(Target("chat", [limit], more=keys)) as (proxy, backends):
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, len(backends[0].asked) <= 3) == (429, True)


async def test_when_no_key_is_of_use_the_client_need_not_try_again() -> None:
    async with before_all(Target("chat", [says(401)])) as (proxy, _):
        status, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, headers["dragoman-reason"], headers["x-should-retry"]) == (502, "upstream_auth", "false")


async def test_a_clients_own_key_is_its_own_affair() -> None:
    """It is not tried elsewhere, and no other takes its place."""
    async with before_all(Target("chat", [says(401)], more={"key": None}), Target("chat", [whole("chat")])) as (
        proxy,
        backends,
    ):
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer("sk-own"))
    assert (status, asked(backends)) == (401, [1, 0])


# ---- tenants


PRICES = (Price("dear", 9_000_000, 9_000_000, 0, 0, 0, 0), Price("cheap", 1_000_000, 2_000_000, 0, 0, 0, 0))
LIMITED = TenantLimits(tpd=10**6, budget=Budget(10**6), concurrency=5)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tenant_is_charged_once_for_the_target_that_answered(streamed: bool) -> None:
    hello = says_hello("messages", streamed=streamed)
    settled: list[tuple[int, int]] = []
    async with before_all(
        Target("chat", [says(500)], model="dear"),
        Target("messages", [hello], model="cheap"),
        tenants=[tenant(limits=LIMITED)],
        key_pepper=SecretBytes(PEPPER),
        prices=PRICES,
    ) as (proxy, _):
        limiter = proxy.runtime.limiter
        assert isinstance(limiter, MemoryLimiter)
        settle = limiter.settle

        def watched(lease: object, tokens: int, cost: int) -> None:
            settled.append((tokens, cost))
            settle(lease, tokens, cost)  # type: ignore[arg-type]

        limiter.settle = watched  # type: ignore[method-assign]
        status, _, _ = await proxy.post(PATHS["chat"], {**REQUESTS["chat"], "stream": streamed}, bearer())
        record = await proxy.record()
        assert limiter.reserved_tokens == 0
    assert (status, settled) == (200, [(4, 5)])
    assert (record["cost_usd"], record["usage_source"]) == (5e-06, "reported")


async def test_a_tenant_that_leaves_between_two_attempts_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstream.health.FIRST_PAUSE", 30.0)
    async with before_all(
        Target("chat", [says(500)], model="cheap"),
        tenants=[tenant(limits=LIMITED)],
        key_pepper=SecretBytes(PEPPER),
        prices=PRICES,
    ) as (proxy, backends):
        asking = asyncio.create_task(proxy.post(PATHS["messages"], REQUESTS["messages"], bearer()))
        await backends[0].got_one.wait()
        asking.cancel()
        record = await proxy.record()
        assert proxy.runtime.limiter.reserved_tokens == 0
    assert record["outcome"] == "cancelled"


async def test_only_targets_that_a_tenants_keys_open_are_asked() -> None:
    keys = UpstreamKeys("byok", byok_upstreams=frozenset({"two"}))
    who = tenant(upstream=keys)
    headers = {"x-api-key": bearer()["authorization"][7:], "authorization": "Bearer own-key-0123456789"}
    async with before_all(
        Target("chat", [whole("chat")]),
        Target("chat", [whole("chat")], more={"key": None}),
        tenants=[who],
        key_pepper=SecretBytes(PEPPER),
    ) as (proxy, backends):
        status, told_headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], headers)
    assert (status, asked(backends), "dragoman-fallback" in told_headers) == (200, [0, 1], False)


async def test_what_a_vendor_stores_goes_to_no_target_whose_key_is_shared() -> None:
    """The policy opens `stored` to a tenant's own key alone; a fallback must not lead around it."""
    who = tenant(upstream=UpstreamKeys("map", {"one": SecretStr("own-key-0123456789")}))
    async with before_all(
        Target("responses", [DOWN]),
        Target("responses", [whole("responses")]),
        tenants=[who],
        key_pepper=SecretBytes(PEPPER),
    ) as (proxy, backends):
        stored = await proxy.post("/v1/responses/resp_1/more", {"model": "m"}, bearer())
        generated = await proxy.post(PATHS["responses"], REQUESTS["responses"], bearer())
    assert (stored[0], generated[0], asked(backends)) == (529, 200, [2, 1])


async def test_a_process_that_ends_asks_nobody_else() -> None:
    """Its requests are told that it does; the backends are well."""
    draining = Error(ErrorClass.OVERLOADED, "The proxy ends.", reason=Reason.DRAINING)
    async with before_all(Target("chat", [[HOLD]]), Target("chat", [whole("chat")])) as (proxy, backends):
        asking = asyncio.create_task(proxy.post(PATHS["chat"], REQUESTS["chat"]))
        await backends[0].got_one.wait()
        (exchange,) = proxy.runtime.open
        exchange.watch.end(draining)
        status, headers, _ = await asking
    assert (status, headers["dragoman-reason"], asked(backends)) == (503, "draining", [1, 0])


async def test_an_answer_that_is_not_as_wanted_is_an_answer() -> None:
    """It has been paid for: nobody is asked for another, and the backend is not to blame."""
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "required": ["a"]}}}
    request = {**REQUESTS["chat"], "response_format": shape}
    entry: dict[str, object] = {"validate_output": "error"}
    vague: dict[str, object] = {"breaker": Breaker(failures=1)}
    async with before_all(
        Target("messages", [HELLO], model="claude-2", more=vague), Target("messages", [HELLO]), entry=entry
    ) as (proxy, backends):
        status, _, _ = await proxy.post(PATHS["chat"], request)
        assert await circuits(proxy) == {"one": 0.0, "two": 0.0}
    assert (status, asked(backends)) == (502, [1, 0])


async def test_the_limit_of_output_is_set_as_each_target_wants_it() -> None:
    who = tenant(limits=TenantLimits(max_output_tokens=50))
    async with before_all(
        Target("chat", [DOWN]),
        Target("chat", [whole("chat")], more={"dialect": "vllm"}),
        tenants=[who],
        key_pepper=SecretBytes(PEPPER),
    ) as (proxy, backends):
        await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
    bodies = [json.loads(backend.asked[0].body) for backend in backends]
    alone = [{name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} for body in bodies]
    assert [list(each.values()) for each in alone] == [[50], [50]]


# ---- records


async def test_spans_tell_of_each_attempt_and_why_there_was_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstream.health.FIRST_PAUSE", 0.001)
    async with Receiver() as receiver:
        traces = Traces(f"{receiver.url}/v1/traces", {}, 1.0, "trusted")
        those = [Target("chat", [says(500)], model="a"), Target("messages", [HELLO], model="b")]
        async with before_all(*those, traces=traces) as (proxy, _):
            await proxy.post(PATHS["chat"], REQUESTS["chat"])
        server, *calls = await receiver.wait_for(4)
    seen = [
        (call.name, call.failed, call.attributes["dragoman.upstream"], call.attributes.get("http.request.resend_count"))
        for call in calls
    ]
    assert seen == [("chat a", True, "one", None), ("chat a", True, "one", 1), ("chat b", False, "two", None)]
    assert ("dragoman.retry", {"dragoman.attempt": 2}) in server.events
    cause = {"dragoman.fallback.from": "one", "dragoman.fallback.to": "two", "dragoman.reason": "server_error"}
    assert ("dragoman.fallback", cause) in server.events
    assert calls[2].attributes["gen_ai.usage.input_tokens"] == REPLIES["messages"]["usage"]["input_tokens"]  # type: ignore[index]


async def test_series_are_there_before_anything_fails() -> None:
    async with before_all(Target("chat", [whole("chat")]), Target("chat", [whole("chat")])) as (proxy, _):
        traffic = proxy.runtime.metrics.traffic
        fallbacks = {tuple(sample.labels.values()) for sample in traffic.fallbacks.collect().samples}
        assert fallbacks == {
            (one, other, result) for one, other in (("one", "two"), ("two", "one")) for result in ("ok", "failed")
        }
        retries = [sample.labels for sample in traffic.retries.collect().samples]
        assert {labels["reason"] for labels in retries if labels["upstream"] == "one"} >= {"connection", "credential"}
        assert await circuits(proxy) == {"one": 0.0, "two": 0.0}
