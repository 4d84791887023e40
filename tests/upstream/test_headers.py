"""What a backend is told of a client: its key only where the proxy has none, and little else."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr

from proxy import __version__
from proxy.settings import ProtocolName, Upstream
from proxy.upstream.account import SHARED, Account
from proxy.upstream.backend import Backend
from proxy.upstream.headers import client_account, request_headers

URL = "https://backend.example/v1"
FIXED = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"dragoman/{__version__}",
    "Content-Type": "application/json",
    "X-Client-Request-Id": "req_1",
}
MESSAGES = {**FIXED, "Anthropic-Version": "2023-06-01"}

# All that a client may say about itself and its way here.
TALKATIVE = {
    "Authorization": "Bearer client-key",
    "Host": "proxy.example",
    "Cookie": "session=1",
    "Forwarded": "for=1.2.3.4",
    "X-Forwarded-For": "1.2.3.4",
    "X-Stainless-Lang": "python",
    "User-Agent": "OpenAI/Python 3.57.0",
    "Accept-Encoding": "gzip, br",
    "Connection": "keep-alive",
    "Dragoman-Strict": "1",
    "Traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
    "Anthropic-Version": "2026-10-21",
    "Anthropic-Beta": "effort-2025-11-24",
    "OpenAI-Beta": "responses=v1",
    "OpenAI-Organization": "org-1",
    "Idempotency-Key": "once",
}


def sent(
    protocol: ProtocolName,
    client: dict[str, str],
    *,
    key: str | None = None,
    same_protocol: bool = False,
    dialect: str | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, str]:
    """The headers that the backend gets."""
    upstream = Upstream(
        "backend",
        protocol,
        URL,
        api_key=SecretStr(key) if key else None,
        dialect=dialect,
        headers={name: SecretStr(value) for name, value in (headers or {}).items()},
    )
    seen = CIMultiDictProxy(CIMultiDict(client))
    backend = Backend(upstream)
    account = client_account(backend, seen)
    return dict(request_headers(backend, seen, "req_1", account=account, same_protocol=same_protocol))


@pytest.mark.parametrize(
    ("protocol", "dialect", "told"),
    [
        ("chat", None, {**FIXED, "Authorization": "Bearer proxy-key"}),
        ("responses", None, {**FIXED, "Authorization": "Bearer proxy-key"}),
        ("chat", "azure", {**FIXED, "Api-Key": "proxy-key"}),
        ("messages", None, {**MESSAGES, "X-Api-Key": "proxy-key"}),
    ],
)
def test_to_another_protocol_goes_the_proxys_key_and_nothing_of_the_client(
    protocol: ProtocolName, dialect: str | None, told: dict[str, str]
) -> None:
    assert sent(protocol, TALKATIVE, key="proxy-key", dialect=dialect) == told


def test_within_a_protocol_the_vendors_own_headers_go_too() -> None:
    assert sent("messages", TALKATIVE, key="proxy-key", same_protocol=True) == {
        **FIXED,
        "X-Api-Key": "proxy-key",
        "Anthropic-Version": "2026-10-21",
        "Anthropic-Beta": "effort-2025-11-24",
        "Idempotency-Key": "once",
    }


@pytest.mark.parametrize(
    ("client", "protocol", "same_protocol", "told"),
    [
        ({"Authorization": "Bearer mine"}, "chat", True, {**FIXED, "Authorization": "Bearer mine"}),
        ({"Authorization": "bearer  mine "}, "messages", False, {**MESSAGES, "X-Api-Key": "mine"}),
        ({"X-Api-Key": "mine"}, "chat", False, {**FIXED, "Authorization": "Bearer mine"}),
        ({"Api-Key": "mine"}, "responses", False, {**FIXED, "Authorization": "Bearer mine"}),
        ({"X-Api-Key": "mine"}, "messages", True, {**MESSAGES, "X-Api-Key": "mine"}),
        ({"Authorization": "Bearer mine"}, "messages", True, {**MESSAGES, "Authorization": "Bearer mine"}),
        (
            {"X-Api-Key": "mine", "Authorization": "Bearer other"},
            "chat",
            False,
            {**FIXED, "Authorization": "Bearer mine"},
        ),
        ({"Authorization": "Basic bWluZQ=="}, "chat", False, FIXED),
        ({}, "chat", False, FIXED),
    ],
)
def test_without_a_key_of_the_proxys_the_clients_own_goes_on(
    client: dict[str, str], protocol: ProtocolName, same_protocol: bool, told: dict[str, str]
) -> None:
    assert sent(protocol, client, same_protocol=same_protocol) == told


def test_whom_to_bill_goes_only_with_the_clients_own_key() -> None:
    client = {"Authorization": "Bearer mine", "OpenAI-Organization": "org-1"}
    assert "OpenAI-Organization" not in sent("chat", client, key="proxy-key", same_protocol=True)
    assert sent("chat", client, same_protocol=True)["OpenAI-Organization"] == "org-1"


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_what_one_vendor_calls_its_own_the_other_never_gets(protocol: ProtocolName) -> None:
    anthropic = {"Anthropic-Workspace-Id": "w", "Anthropic-User-Profile-Id": "u", "Anthropic-Beta": "b"}
    openai = {"OpenAI-Organization": "o", "OpenAI-Project": "p", "OpenAI-Beta": "b"}
    told = sent(protocol, {"X-Api-Key": "mine", **anthropic, **openai}, same_protocol=True)
    vendors = {name: value for name, value in told.items() if name in anthropic or name in openai}
    assert vendors == (anthropic if protocol == "messages" else openai)


@pytest.mark.parametrize(
    ("protocol", "dialect", "openai_client", "told"),
    [
        ("chat", "openai", True, True),
        ("responses", "azure", True, True),
        ("responses", "openai", False, False),
        ("chat", "mistral", True, False),
        ("chat", None, True, False),
        ("messages", "anthropic", True, False),
    ],
)
def test_a_translated_request_keeps_its_idempotency_key_at_its_own_vendor(
    protocol: ProtocolName, dialect: str | None, openai_client: bool, told: bool
) -> None:
    backend = Backend(Upstream("u", protocol, URL, dialect=dialect))
    client = CIMultiDictProxy(CIMultiDict(TALKATIVE))
    got = request_headers(backend, client, "req_1", account=SHARED, same_protocol=False, openai_client=openai_client)
    assert ("Idempotency-Key" in got, "OpenAI-Beta" in got) == (told, False)


def test_headers_of_the_settings_replace_and_add() -> None:
    told = sent("chat", {}, headers={"x-team": "blue", "user-agent": "ours"})
    others = {name: value for name, value in FIXED.items() if name != "User-Agent"}
    assert told == {**others, "user-agent": "ours", "x-team": "blue"}


@pytest.mark.parametrize(
    ("said", "told"),
    [(None, "mcp-1"), ("files-1", "files-1,mcp-1"), ("mcp-1, files-1", "mcp-1,files-1")],
)
def test_features_that_a_translated_request_uses(said: str | None, told: str) -> None:
    upstream = Upstream("u", "messages", URL, headers={"anthropic-beta": SecretStr(said)} if said else {})
    got = request_headers(
        Backend(upstream),
        CIMultiDictProxy(CIMultiDict()),
        "req_1",
        account=SHARED,
        same_protocol=False,
        betas=("mcp-1",),
    )
    assert got.getall("Anthropic-Beta") == [told]


@pytest.mark.parametrize(
    ("came_in", "goes_in", "value"),
    [
        ("authorization", "Authorization", "Bearer own-key"),
        ("x-api-key", "X-Api-Key", "own-key"),
        ("x-own-key", "X-Api-Key", "own-key"),
    ],
)
def test_a_callers_own_key_goes_in_a_header_that_messages_backends_read(came_in: str, goes_in: str, value: str) -> None:
    backend = Backend(Upstream("backend", "messages", URL))
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    told = request_headers(backend, headers, "req_1", account=Account("own-key", came_in), same_protocol=True)
    assert dict(told) == {**MESSAGES, goes_in: value}
