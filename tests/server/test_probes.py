"""Probes, greetings, and the admin listener."""

import json

import pytest

from proxy import __version__
from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.target import Target
from proxy.server.admin import is_local
from proxy.server.self_test import failed_translations
from proxy.translation.pair import Peek
from tests.server.serving import before, operated


@pytest.mark.parametrize(
    ("method", "path", "wire"),
    [
        ("GET", "/healthz", {"status": "ok"}),
        ("GET", "/readyz", {"status": "ready"}),
        ("GET", "/", {"service": "dragoman"}),
        ("HEAD", "/", None),
        ("HEAD", "/api/hello", None),
        ("GET", "/api/hello", {"service": "dragoman"}),
    ],
)
async def test_whoever_asks_whether_we_are_there_is_told(
    method: str, path: str, wire: dict[str, object] | None
) -> None:
    async with before("chat", []) as (proxy, _):
        status, headers, body = await proxy.ask(method, path)
    assert (status, json.loads(body) if body else None) == (200, wire)
    assert (headers["content-type"], headers["server"]) == ("application/json", "dragoman")


async def test_one_that_is_not_ready_says_why() -> None:
    async with before("chat", []) as (proxy, _):
        proxy.runtime.failed_checks = ["chat>messages"]
        proxy.runtime.draining = True
        status, _, body = await proxy.ask("GET", "/readyz")
        healthy, _, _ = await proxy.ask("GET", "/healthz")
    assert (status, json.loads(body)) == (503, {"status": "not ready", "failed": ["chat>messages", "draining"]})
    assert healthy == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "wire"),
    [
        ("GET", "/healthz", 200, {"status": "ok"}),
        ("GET", "/readyz", 200, {"status": "ready"}),
        ("GET", "/admin/version", 200, {"version": __version__}),
        ("POST", "/admin/drain", 200, {"status": "draining", "in_flight": 0}),
        ("GET", "/admin/drain", 405, {"error": {"message": "GET is not allowed here."}}),
        ("POST", "/metrics", 405, {"error": {"message": "POST is not allowed here."}}),
        ("POST", "/healthz", 405, {"error": {"message": "POST is not allowed here."}}),
        ("POST", "/v1/messages", 404, {"error": {"message": "There is no /v1/messages here."}}),
    ],
)
async def test_the_admin_listener_has_these_and_no_others(
    method: str, path: str, status: int, wire: dict[str, object]
) -> None:
    drained: list[None] = []
    async with (
        before("chat", []) as (proxy, _),
        operated(proxy, lambda: drained.append(None)) as url,
        proxy.session.request(method, url + path) as response,
    ):
        seen = response.status, json.loads(await response.read())
    assert seen == (status, wire)
    assert len(drained) == (1 if (method, path) == ("POST", "/admin/drain") else 0)


@pytest.mark.parametrize(
    ("remote", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("fe80::1", False),
        ("", False),
        (None, False),
    ],
)
def test_who_is_on_this_machine(remote: str | None, local: bool) -> None:
    assert is_local(remote) == local


async def test_draining_is_begun_from_this_machine_by_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    drained: list[None] = []
    async with before("chat", []) as (proxy, _), operated(proxy, lambda: drained.append(None)) as url:
        async with proxy.session.post(f"{url}/admin/drain", headers={"origin": "http://elsewhere.example"}) as response:
            seen = [response.status]
        monkeypatch.setattr("proxy.server.admin.is_local", lambda _remote: False)
        async with proxy.session.post(f"{url}/admin/drain") as response:
            seen.append(response.status)
    assert (seen, drained) == ([403, 403], [])


@pytest.mark.parametrize(("method", "path"), [("POST", "/healthz"), ("DELETE", "/"), ("PUT", "/api/hello")])
async def test_a_probe_is_only_asked(method: str, path: str) -> None:
    async with before("chat", []) as (proxy, _):
        status, headers, _ = await proxy.ask(method, path)
    assert (status, headers["allow"]) == (405, "GET")


def test_every_client_can_be_translated_to_every_backend() -> None:
    assert failed_translations() == []


def test_a_translation_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seen: Peek, target: Target, _options: object) -> None:
        if (seen.client, target.protocol) == ("chat", "messages"):
            raise Rejected(Error(ErrorClass.INVALID, "broken"))

    monkeypatch.setattr("proxy.translation.pair.prepare", refuse)
    assert failed_translations() == ["chat>messages"]
