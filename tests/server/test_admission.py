"""That nothing reaches a backend without having been admitted, whatever a handler forgets."""

import logging

import pytest
from aiohttp.web import StreamResponse

from proxy.server import app
from proxy.server.admission import admit
from proxy.server.app import Endpoint
from proxy.server.bodies import read_json
from proxy.server.exchange import Exchange
from proxy.settings.tenants import TenantLimits
from tests.server.policy_rules import RULES
from tests.server.serving import REQUESTS
from tests.server.tenancy import bearer, let_in, tenant
from tests.upstream.scripted import reply


async def forgetful(exchange: Exchange) -> StreamResponse:
    """An endpoint whose author has not heard of tenants."""
    (served,) = exchange.gateway.served.values()
    backend = served.backend
    answer = await exchange.ask(backend, backend.address("/forgotten"), backend.headers.copy(), b"{}")  # type: ignore[arg-type]
    answer.close()
    return exchange.respond(200, b"{}")


async def greedy(exchange: Exchange) -> StreamResponse:
    """One that admits its request twice, of which one lease could not be settled."""
    raw = await read_json(exchange)
    await admit(exchange, raw)
    await admit(exchange, raw)
    return await forgetful(exchange)


@pytest.mark.parametrize("handler", [forgetful, greedy])
async def test_a_handler_that_is_not_admitted_once_asks_no_backend(
    handler: app.Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(app._TABLE, ("POST", "/v1/new"), Endpoint("chat", handler, "generate"))  # type: ignore[arg-type]
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        who = tenant(limits=TenantLimits(concurrency=5))
        async with let_in("chat", reply(200, "{}"), tenants=[who]) as (proxy, backend):
            status, headers, _ = await proxy.post("/v1/new", REQUESTS["chat"], bearer())
            (standing,) = await proxy.runtime.limiter.standings(who)
    assert (status, headers["dragoman-reason"], backend.asked, standing.used) == (500, "internal", [], 0)


@pytest.mark.parametrize("name", ["no key", "another's key", "a disabled tenant", "ip_allow", "protocols", "endpoints"])
async def test_a_new_route_is_closed_to_whom_it_is_not_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its handler runs, which can't forget that."""
    rule = RULES[name]
    monkeypatch.setitem(app._TABLE, ("POST", "/v1/new"), Endpoint("chat", _never, "generate"))  # type: ignore[arg-type]
    async with let_in("chat", reply(200, "{}"), tenants=[tenant(**rule.fields)]) as (proxy, _):
        _, headers, _ = await proxy.post("/v1/new", REQUESTS["chat"], rule.headers)
    assert headers["dragoman-reason"] == rule.reason


async def _never(_exchange: Exchange) -> StreamResponse:
    raise AssertionError("it was asked")
