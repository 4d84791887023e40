"""The list of models, read by the SDKs of both vendors."""

import json
from contextlib import AsyncExitStack

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from proxy.server.models import shown
from proxy.settings import LossPolicy, Timeouts
from tests.server.serving import PATHS, REQUESTS, Proxy, before, route, says_hello, serving, upstream
from tests.upstream.scripted import HOLD, Scripted, reply

OPENAI = {
    "object": "list",
    "data": [
        {"id": "gpt-5.4", "object": "model", "created": 1_790_000_000, "owned_by": "openai", "future": 1},
        {"id": "text-embedding-3", "object": "model", "created": 1, "owned_by": "openai"},
    ],
}
ANTHROPIC = {
    "data": [
        {
            "type": "model",
            "id": "claude-sonnet-4-5",
            "display_name": "Claude Sonnet 4.5",
            "created_at": "2025-09-29T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": 200000,
            "max_tokens": 64000,
            "capabilities": {"batch": {"supported": True}},
        }
    ],
    "has_more": False,
    "first_id": "claude-sonnet-4-5",
    "last_id": "claude-sonnet-4-5",
}
ANY = LossPolicy()


async def listed(proxy: Proxy, path: str = "/v1/models", headers: dict[str, str] | None = None) -> list[object]:
    _, _, body = await proxy.ask("GET", path, headers)
    return [model["id"] for model in json.loads(body)["data"]]


async def test_both_sdks_read_the_one_list_of_two_vendors() -> None:
    async with AsyncExitStack() as stack:
        openai_backend = await stack.enter_async_context(Scripted(reply(200, json.dumps(OPENAI))))
        anthropic_backend = await stack.enter_async_context(Scripted(reply(200, json.dumps(ANTHROPIC))))
        claude = upstream("messages", anthropic_backend.base_url, name="claude")
        gpt = upstream("chat", openai_backend.base_url, name="gpt")
        routes = [route("fast", claude, "claude-sonnet-4-5"), route("claude-*", claude), route("gpt-*", gpt)]
        proxy = await stack.enter_async_context(serving(claude, gpt, models=routes))
        openai = await stack.enter_async_context(AsyncOpenAI(base_url=proxy.url + "/v1", api_key="k"))
        anthropic = await stack.enter_async_context(AsyncAnthropic(base_url=proxy.url, api_key="k"))

        by_openai = [(m.id, m.object, m.created, m.owned_by) async for m in openai.models.list()]
        by_anthropic = [
            (m.id, m.type, m.display_name, m.created_at.isoformat(), m.max_tokens)
            async for m in anthropic.models.list()
        ]
        one_by_openai = (await openai.models.retrieve("fast")).id
        one_by_anthropic = (await anthropic.models.retrieve("claude-sonnet-4-5")).display_name
    assert by_openai == [
        ("fast", "model", 1_759_104_000, "claude"),
        ("claude-sonnet-4-5", "model", 1_759_104_000, "claude"),
        ("gpt-5.4", "model", 1_790_000_000, "openai"),
    ]
    assert by_anthropic == [
        ("fast", "model", "Claude Sonnet 4.5", "2025-09-29T00:00:00+00:00", 64000),
        ("claude-sonnet-4-5", "model", "Claude Sonnet 4.5", "2025-09-29T00:00:00+00:00", 64000),
        ("gpt-5.4", "model", "gpt-5.4", "2026-09-21T14:13:20+00:00", None),
    ]
    assert (one_by_openai, one_by_anthropic) == ("fast", "Claude Sonnet 4.5")
    assert [asked.line for asked in anthropic_backend.asked] == ["GET /v1/models?limit=1000 HTTP/1.1"]


async def test_what_a_backend_says_beyond_both_vendors_stays() -> None:
    async with before("chat", reply(200, json.dumps(OPENAI))) as (proxy, _):
        _, _, body = await proxy.ask("GET", "/v1/models/gpt-5.4")
    assert json.loads(body) == {
        "id": "gpt-5.4",
        "object": "model",
        "type": "model",
        "created": 1_790_000_000,
        "created_at": "2026-09-21T14:13:20Z",
        "owned_by": "openai",
        "display_name": "gpt-5.4",
        "lifecycle": "active",
        "max_input_tokens": None,
        "max_tokens": None,
        "capabilities": None,
        "future": 1,
    }


async def test_a_backend_in_pages_is_asked_for_all_of_them() -> None:
    pages = [
        {"data": [{"id": "a"}, {"id": "b"}], "has_more": True, "last_id": "b/1"},
        {"data": [{"id": "c"}], "has_more": False, "last_id": "c"},
    ]
    async with before("messages", *(reply(200, json.dumps(page)) for page in pages)) as (proxy, backend):
        assert await listed(proxy) == ["a", "b", "c"]
    assert backend.asked[1].line == "GET /v1/models?limit=1000&after_id=b%2F1 HTTP/1.1"


async def test_a_backend_is_not_asked_again_within_the_minute() -> None:
    async with before("chat", reply(200, json.dumps(OPENAI))) as (proxy, backend):
        for _ in range(3):
            await listed(proxy)
    assert len(backend.asked) == 1


async def test_but_once_for_each_client_that_brings_its_own_key() -> None:
    async with before("chat", reply(200, json.dumps(OPENAI)), key=None) as (proxy, backend):
        for key in ("one", "two", "one"):
            await listed(proxy, headers={"authorization": f"Bearer {key}"})
    assert [asked.headers["authorization"] for asked in backend.asked] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("query", "ids", "has_more"),
    [
        ("limit=2", ["m0", "m1"], True),
        ("limit=2&after_id=m1", ["m2", "m3"], True),
        ("limit=100&after_id=m20", ["m21", "m22", "m23", "m24"], False),
        ("limit=2&before_id=m2", ["m0", "m1"], False),
        ("limit=2&before_id=m5", ["m3", "m4"], True),
        ("after_id=unknown", [], False),
        ("", [f"m{number}" for number in range(20)], True),
    ],
)
async def test_a_messages_client_may_turn_pages(query: str, ids: list[str], has_more: bool) -> None:
    script = reply(200, json.dumps({"data": [{"id": f"m{number}"} for number in range(25)]}))
    async with before("chat", script) as (proxy, _):
        _, _, body = await proxy.ask("GET", f"/v1/models?{query}", {"anthropic-version": "2023-06-01"})
        everything = await listed(proxy, f"/v1/models?{query}")
    page = json.loads(body)
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (ids, has_more)
    assert (page["first_id"], page["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
    assert len(everything) == 25


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "many", "²", ""])
async def test_a_page_of_a_wrong_size_is_refused(limit: str) -> None:
    async with before("chat", reply(200, json.dumps(OPENAI))) as (proxy, _):
        headers = {"anthropic-version": "2023-06-01"}
        status, _, body = await proxy.ask("GET", f"/v1/models?limit={limit}", headers)
    assert (status, json.loads(body)["error"]["message"]) == (400, "limit: expected a number from 1 to 1000.")


@pytest.mark.parametrize(
    "script",
    [
        reply(200, "<html>"),
        reply(200, "[]"),
        reply(200, "{}"),
        reply(200, '{"data": {"id": "x"}}'),
        reply(500, "{}"),
        reply(401, "{}"),
        reply(302, "", location="/"),
        b"no http\r\n\r\n",
        [HOLD],
    ],
)
async def test_a_backend_that_can_t_list_leaves_a_gap_but_no_error(
    script: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.server.models._WITHIN", 0.05)
    models = [("fast", "x", ANY), ("*", None, ANY)]
    async with before("chat", script, models=models) as (proxy, _):
        assert await listed(proxy) == ["fast"]


async def test_with_nothing_to_list_the_failure_is_told() -> None:
    async with before("chat", reply(500, "{}")) as (proxy, _):
        status, _, _ = await proxy.ask("GET", "/v1/models")
    assert status == 502


@pytest.mark.parametrize(
    ("headers", "wire"),
    [
        (
            {},
            {
                "error": {
                    "message": "The model 'none/such' does not exist or you do not have access to it.",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "model_not_found",
                }
            },
        ),
        (
            {"anthropic-version": "2023-06-01"},
            {
                "type": "error",
                "error": {
                    "type": "not_found_error",
                    "message": "The model 'none/such' does not exist or you do not have access to it.",
                },
            },
        ),
    ],
)
async def test_an_unknown_model_is_not_found_in_the_callers_shape(
    headers: dict[str, str], wire: dict[str, object]
) -> None:
    scripts = [reply(200, json.dumps(OPENAI)), reply(404, "{}")]
    async with before("chat", *scripts) as (proxy, backend):
        status, _, body = await proxy.ask("GET", "/v1/models/none%2Fsuch", headers)
    seen = json.loads(body)
    seen.pop("request_id", None)
    assert (status, seen) == (404, wire)
    assert backend.asked[1].line == "GET /v1/models/none%2Fsuch HTTP/1.1"


async def test_a_model_that_a_backend_knows_but_does_not_list_is_found() -> None:
    scripts = [reply(200, json.dumps(ANTHROPIC)), reply(200, '{"id":"claude-sonnet-4-5-20250929","type":"model"}')]
    async with before("messages", *scripts, timeouts=Timeouts()) as (proxy, _):
        _, _, body = await proxy.ask("GET", "/v1/models/claude-sonnet-latest")
    assert json.loads(body)["id"] == "claude-sonnet-latest"


@pytest.mark.parametrize("entry", [None, [], "m", {}, {"id": 7}, {"id": ""}])
def test_an_entry_without_an_id_is_none(entry: object) -> None:
    assert shown(entry, "backend") is None


@pytest.mark.parametrize(
    ("told", "created"),
    [
        ({"created": 1_790_000_000_000}, 1_790_000_000),
        ({"created": 1.5}, 1),
        ({"created": -5}, 0),
        ({"created": True}, 0),
        ({"created": float("inf")}, 253402300799),
        ({"created": "yesterday", "created_at": 7}, 0),
        ({"created_at": "2025-09-29T00:00:00Z"}, 1_759_104_000),
        ({"created_at": "0001-01-01T00:00:00Z"}, 0),
    ],
)
def test_when_a_model_was_made_is_read_from_either_field(told: dict[str, object], created: int) -> None:
    model = shown({"id": "m", **told}, "backend")
    assert model is not None
    assert model["created"] == created


async def test_what_a_messages_backend_says_of_its_models_is_trusted_once_it_was_read() -> None:
    entry = {"type": "model", "id": "claude-of-tomorrow", "display_name": "Tomorrow", "max_tokens": 16_000}
    listing = reply(200, json.dumps({"data": [entry], "has_more": False}))
    (hello,) = says_hello("messages", streamed=False)
    asked = {**REQUESTS["chat"], "model": "claude-of-tomorrow"}
    async with before("messages", [hello], listing, [hello]) as (proxy, backend):
        await proxy.post(PATHS["chat"], asked)
        await proxy.ask("GET", "/v1/models")
        await proxy.post(PATHS["chat"], asked)
    assert [json.loads(backend.asked[index].body)["max_tokens"] for index in (0, 2)] == [8192, 16_000]
