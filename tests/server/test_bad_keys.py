"""Keys that are none, and requests that try to bring one otherwise: all are told the same, the log alone knows more."""

import asyncio
import base64
import json
import time
from dataclasses import replace
from ipaddress import ip_network

import pytest
from multidict import CIMultiDict

from proxy.settings.tenants import Tenant
from proxy.tenancy.keys import PREFIX, _checksum
from tests.server.serving import PATHS, REQUESTS, Proxy, says_hello
from tests.server.tenancy import ENTRY, KEY, OTHER_KEY, a_key, bearer, let_in, tenant

HELLO = says_hello("chat", streamed=False)
EXPIRED, EXPIRED_ENTRY = a_key(expires_at=time.time() - 3600)
EARLY, EARLY_ENTRY = a_key(not_before=time.time() + 3600)
DISABLED, DISABLED_ENTRY = a_key()
LATE_TENANT, LATE_ENTRY = a_key()
TENANTS = (
    tenant(keys=(ENTRY, EXPIRED_ENTRY, EARLY_ENTRY)),
    Tenant("disabled", keys=(DISABLED_ENTRY,), disabled=True),
    Tenant("late", keys=(LATE_ENTRY,), expires_at=time.time() - 3600),
)


def with_secret_of(kid_of: str, secret_of: str) -> str:
    """A well-formed key that takes its public part from one key and its secret from another."""
    head = f"{PREFIX}{kid_of[4:16]}_{secret_of[17:60]}"
    return f"{head}_{_checksum(head)}"


# What is presented, and what the log says of it.
BAD: dict[str, tuple[list[tuple[str, str]], str]] = {
    "unknown": ([("authorization", f"Bearer {OTHER_KEY}")], "auth_unknown"),
    "malformed": ([("authorization", "Bearer drg_x")], "auth_unknown"),
    "cut": ([("authorization", f"Bearer {KEY[:-1]}")], "auth_unknown"),
    "longer": ([("authorization", f"Bearer {KEY}0")], "auth_unknown"),
    "mistyped": ([("authorization", f"Bearer {KEY[:-1]}{'A' if KEY[-1] != 'A' else 'B'}")], "auth_unknown"),
    "in capitals": ([("authorization", f"Bearer {KEY.upper()}")], "auth_unknown"),
    "with another's secret": ([("authorization", f"Bearer {with_secret_of(KEY, DISABLED)}")], "auth_unknown"),
    "with another's kid": ([("authorization", f"Bearer {with_secret_of(DISABLED, KEY)}")], "auth_unknown"),
    "expired": ([("x-api-key", EXPIRED)], "auth_expired"),
    "not valid yet": ([("x-api-key", EARLY)], "auth_expired"),
    "of a disabled tenant": ([("api-key", DISABLED)], "auth_disabled"),
    "of an expired tenant": ([("api-key", LATE_TENANT)], "auth_expired"),
    "foreign": ([("authorization", "Bearer sk-proj-0123456789")], "auth_unknown"),
    "two that disagree": ([("authorization", f"Bearer {KEY}"), ("x-api-key", OTHER_KEY)], "auth_unknown"),
    "a good and a foreign": ([("authorization", f"Bearer {KEY}"), ("x-api-key", "sk-0123456789")], "auth_unknown"),
    "two lines": ([("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {OTHER_KEY}")], "auth_unknown"),
    "two lines, the good one last": ([("x-api-key", OTHER_KEY), ("x-api-key", KEY)], "auth_unknown"),
    "two in one line": ([("authorization", f"Bearer {KEY}, Bearer {KEY}")], "auth_unknown"),
    "in quotes": ([("authorization", f'Bearer "{KEY}"')], "auth_unknown"),
    "with its scheme in a bare header": ([("x-api-key", f"Bearer {KEY}")], "auth_unknown"),
    "not ASCII": ([("authorization", f"Bearer {KEY}é")], "auth_unknown"),
}
VARYING = ("date", "x-request-id", "request-id", "dragoman-trace-id")


@pytest.mark.parametrize("client", PATHS)
async def test_all_bad_keys_are_told_the_same(client: str) -> None:
    """Byte by byte, apart from ids: nobody learns which keys there are, were, or will be."""
    answers = set()
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, backend):
        for headers, _ in BAD.values():
            body = json.dumps(REQUESTS[client])
            url = proxy.url + PATHS[client]
            async with proxy.session.post(url, data=body, headers=CIMultiDict(headers)) as response:
                told = [(name.lower(), value) for name, value in response.headers.items()]
                told = [header for header in told if header[0] not in VARYING]
                raw = (await response.read()).replace(response.headers["x-request-id"].encode(), b"ID")
                answers.add((response.status, tuple(told), raw))
        reasons = [record["reason"] for record in proxy.access.records]
    assert len(answers) == 1
    assert next(iter(answers))[0] == 401
    assert ("dragoman-reason", "auth_unknown") in next(iter(answers))[1]
    assert reasons == [reason for _, reason in BAD.values()]
    assert backend.asked == []


async def test_the_log_names_the_public_part_of_a_key_and_never_the_key() -> None:
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, _):
        for key in (KEY, EXPIRED, OTHER_KEY, DISABLED, with_secret_of(KEY, DISABLED)):
            await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer(key))
        records = proxy.access.records
    kids = [key[4:16] for key in (KEY, EXPIRED, OTHER_KEY, DISABLED, KEY)]
    assert [record["key_id"] for record in records] == kids
    assert [record["tenant"] for record in records] == ["team-a", None, None, None, None]
    for key in (KEY, EXPIRED, OTHER_KEY, DISABLED):
        assert key[17:60] not in json.dumps(records)


@pytest.mark.parametrize("query", ["api_key", "api-key", "key", "access_token", "x-api-key", "authorization"])
async def test_no_key_comes_in_the_query(query: str) -> None:
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, backend):
        for value in (KEY, f"Bearer%20{KEY}"):
            status, headers, _ = await proxy.post(f"{PATHS['chat']}?{query}={value}", REQUESTS["chat"])
            assert (status, headers["dragoman-reason"]) == (401, "auth_missing")
        assert KEY not in json.dumps(proxy.access.records)
    assert backend.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"bearer {KEY}")],
        [("authorization", f"BEARER   {KEY}  ")],
        [("x-api-key", KEY)],
        [("api-key", KEY)],
        [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)],
        [("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {KEY}")],
        [("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", KEY)],  # of a proxy on the way
        [("authorization", "Bearer "), ("x-api-key", KEY)],
    ],
    ids=range(8),
)
async def test_a_key_may_come_as_clients_send_it(headers: list[tuple[str, str]]) -> None:
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, backend):
        url = proxy.url + PATHS["chat"]
        async with proxy.session.post(url, json=REQUESTS["chat"], headers=CIMultiDict(headers)) as response:
            assert response.status == 200
    sent = backend.asked[0].headers
    assert sent["authorization"] == "Bearer proxy-key-1"
    assert not {"x-api-key", "api-key"} & sent.keys()


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: KEY",
        "Authorization: Basic BASE64",
        "Authorization: Basic KEY",
        "Authorization: Token KEY",
        "Authorization: Bearer:KEY",
        "Authorization: Bearer\tKEY",
        "Authorization: Bearer",
        "Authorization:",
        "Proxy-Authorization: Bearer KEY",
        "x_api_key: KEY",
        "X_Api_Key: KEY",
        "api_key: KEY",
        "Cookie: x-api-key=KEY",
        "X-Forwarded-Authorization: Bearer KEY",
        # not HTTP
        "Authorization : Bearer KEY",
        "Authorization: Bearer KEY\x00",
        "\x00Authorization: Bearer KEY",
        "Authorization: Bearer KEY\rX: y",
        "X: y\r\n Authorization: Bearer KEY",
        "Authorization:\r\n Bearer KEY",
        "X: y\nAuthorization: Bearer KEY",
        " Authorization: Bearer KEY",
    ],
)
async def test_no_key_is_smuggled_in(line: str) -> None:
    line = line.replace("BASE64", base64.b64encode(KEY.encode()).decode()).replace("KEY", KEY)
    body = json.dumps(REQUESTS["chat"])
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, backend):
        status = await _sent_raw(proxy, f"{line}\r\n", body)
    assert (status in (400, 401), backend.asked) == (True, [])


async def test_what_is_sent_raw_is_let_in_when_it_is_right() -> None:
    """Else the refusals above would show nothing."""
    async with let_in("chat", HELLO, tenants=TENANTS) as (proxy, _):
        assert await _sent_raw(proxy, f"Authorization: Bearer {KEY}\r\n", json.dumps(REQUESTS["chat"])) == 200


async def _sent_raw(proxy: Proxy, lines: str, body: str) -> int:
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {PATHS['chat']} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write((head + body).encode("latin-1"))
    await writer.drain()
    status = (await reader.readline()).split()[1]
    writer.close()
    return int(status)


# ---- where a request comes from

INSIDE = (
    "10.1.2.3",
    "::ffff:10.1.2.3",
    "10.1.2.3:4711",
    "8.8.8.8, 10.1.2.3",
    "garbage, 10.1.2.3",
    "10.1.2.3, 127.0.0.1",
)
OUTSIDE = (
    "8.8.8.8",
    "10.1.2.3, 8.8.8.8",
    "10.1.2.3, garbage",
    "10.1.2.3,",
    "10.1.2.3, unknown",
    "",
    "127.0.0.1",
    "10.1.2.3, 8.8.8.8, 127.0.0.1",
    "010.001.002.003",
    "10.1.2.3" + ", 127.0.0.1" * 40,
)


@pytest.mark.parametrize("trusted", [False, True])
async def test_only_trusted_proxies_are_believed_where_a_request_comes_from(trusted: bool) -> None:
    who = tenant(ip_allow=(ip_network("10.0.0.0/8"),))
    proxies = (ip_network("127.0.0.0/8"),) if trusted else ()
    async with let_in("chat", HELLO, tenants=[who], trusted_proxies=proxies) as (proxy, backend):
        for told in (*INSIDE, *OUTSIDE):
            let = trusted and told in INSIDE
            before = len(backend.asked)
            status, headers, _ = await proxy.post(
                PATHS["chat"], REQUESTS["chat"], {**bearer(), "x-forwarded-for": told}
            )
            asked = len(backend.asked) - before
            assert (status, headers.get("dragoman-reason"), asked) == (
                (200, None, 1) if let else (403, "ip_denied", 0)
            ), told


@pytest.mark.parametrize("name", ["x-real-ip", "forwarded", "true-client-ip", "cf-connecting-ip", "x_forwarded_for"])
async def test_no_other_header_says_where_a_request_comes_from(name: str) -> None:
    who = tenant(ip_allow=(ip_network("10.0.0.0/8"),))
    async with let_in("chat", HELLO, tenants=[who], trusted_proxies=(ip_network("127.0.0.0/8"),)) as (proxy, backend):
        value = "for=10.1.2.3" if name == "forwarded" else "10.1.2.3"
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], {**bearer(), name: value})
    assert (status, backend.asked) == (403, [])


async def test_all_lines_of_a_header_count() -> None:
    who = tenant(ip_allow=(ip_network("10.0.0.0/8"),))
    lines = CIMultiDict([*bearer().items(), ("x-forwarded-for", "10.1.2.3"), ("x-forwarded-for", "8.8.8.8")])
    async with let_in("chat", HELLO, tenants=[who], trusted_proxies=(ip_network("127.0.0.0/8"),)) as (proxy, _):
        async with proxy.session.post(proxy.url + PATHS["chat"], json=REQUESTS["chat"], headers=lines) as response:
            assert response.status == 403
        assert proxy.access.records[0]["client_ip"] == "8.8.8.8"


async def test_a_key_that_is_taken_away_is_unknown_at_once() -> None:
    async with let_in("chat", HELLO, tenants=[tenant()]) as (proxy, backend):
        assert (await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer()))[0] == 200
        runtime = proxy.runtime
        settings = replace(runtime.gateway.settings, tenants={"team-a": tenant(keys=())})
        runtime.take(runtime.make_ready(settings, "new"))
        status, _, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"], bearer())
    assert (status, len(backend.asked)) == (401, 1)
