"""What a backend can do wrong before its answer has begun: a real error for the client, and no secret in it."""

import gzip
import json

import pytest

from proxy.server.gateway import secrets_of
from proxy.settings import ProtocolName, Settings
from tests.server.serving import EVENTS, PATHS, REPLIES, REQUESTS, before, says_hello, serving, upstream
from tests.upstream.scripted import CUT, HOLD, LAST, Scripted, Step, chunk, head, reply

PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "responses", "messages")
PAIRS = [(client, backend) for client in (*PROTOCOLS, "completions") for backend in PROTOCOLS]

# (status of Messages, its error type), (status of OpenAI's protocols, type, code)
BAD_GATEWAY = ((502, "api_error"), (502, "server_error", "dragoman_upstream_error"))


def told(client: str, status: int, body: bytes) -> tuple[object, ...]:
    """The status and the names of the error; the shape is the client's."""
    wire = json.loads(body)
    error = wire["error"]
    if client == "messages":
        assert (wire["type"], set(error) - {"details"}) == ("error", {"type", "message"})
        return status, error["type"]
    assert set(error) == {"message", "type", "param", "code"}
    return status, error["type"], error["code"]


def expected(client: str, both: tuple[tuple[object, ...], tuple[object, ...]]) -> tuple[object, ...]:
    return both[0] if client == "messages" else both[1]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param([reply(200, "<html><body>Welcome</body></html>", "text/html")], id="a page"),
        pytest.param([reply(200, "\n <!doctype html>", "application/json")], id="a page that claims to be JSON"),
        pytest.param([reply(200, "")], id="nothing"),
        pytest.param([reply(200, " \n\n")], id="blanks"),
        pytest.param([reply(200, '{"id": "1", "choi')], id="half an object"),
        pytest.param([reply(200, "[]")], id="a list"),
        pytest.param([reply(200, '"fine"')], id="a string"),
        pytest.param([reply(200, b'{"id": "\xff\xfe"}')], id="invalid UTF-8"),
        pytest.param([reply(200, "OK", "text/plain")], id="plain text"),
        pytest.param([reply(200, b"\x00\x01\x02", "application/octet-stream")], id="bytes"),
        pytest.param([head(), chunk("data: nonsense\n\n"), LAST], id="an event that is not JSON"),
        pytest.param([head(), chunk("data: [1]\n\n"), LAST], id="an event that is no object"),
        pytest.param([head(), chunk(b"data: {\xff}\n\n"), LAST], id="an event that is not UTF-8"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", CUT], id="a cut"),
        pytest.param([b"SMTP ready\r\n\r\n"], id="no HTTP"),
        pytest.param([reply(302, "", location="https://elsewhere.example/login")], id="a redirect"),
        pytest.param([reply(200, "x", content_encoding="zstd")], id="an unknown encoding"),
        pytest.param([reply(502, "<html>Bad gateway</html>", "text/html")], id="a page of its own gateway"),
    ],
)
async def test_an_answer_that_is_none_is_a_bad_gateway(
    client: str, backend_protocol: ProtocolName, script: list[Step], stream: bool
) -> None:
    async with before(backend_protocol, script) as (proxy, _):
        status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    assert (told(client, status, body), headers["content-type"]) == (expected(client, BAD_GATEWAY), "application/json")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_backend_that_is_not_there_is_unreachable(
    client: str, backend_protocol: ProtocolName, stream: bool
) -> None:
    async with Scripted([]) as backend:
        gone = backend.base_url
    async with serving(upstream(backend_protocol, gone)) as proxy:
        status, headers, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    both = ((502, "api_error"), (502, "server_error", "dragoman_upstream_unreachable"))
    assert (told(client, status, body), headers["dragoman-reason"]) == (expected(client, both), "upstream_unreachable")
    assert b"127.0.0.1" not in body


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_refusal_of_the_proxys_own_key_is_not_the_clients_fault(
    client: str, backend_protocol: ProtocolName, status: int
) -> None:
    wire = '{"error":{"message":"Incorrect API key provided: proxy-key-1","type":"authentication_error"}}'
    async with before(backend_protocol, reply(status, wire)) as (proxy, _):
        got, headers, body = await proxy.post(PATHS[client], REQUESTS[client])
    both = ((502, "api_error"), (502, "server_error", "dragoman_upstream_auth"))
    assert (told(client, got, body), headers["dragoman-reason"]) == (expected(client, both), "upstream_auth")
    assert b"proxy-key" not in body


@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_a_refusal_of_the_clients_own_key_is(client: str, backend_protocol: ProtocolName) -> None:
    wire = json.dumps({"type": "error", "error": {"message": "No such key.", "type": "authentication_error"}})
    async with before(backend_protocol, reply(401, wire), key=None) as (proxy, _):
        status, headers, _ = await proxy.post(PATHS[client], REQUESTS[client], {"authorization": "Bearer mine"})
    assert (status, "dragoman-reason" in headers) == (401, False)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_passes_through_its_own_protocol_with_all_it_says(stream: bool) -> None:
    error = {"type": "rate_limit_error", "message": "slow down", "details": {"error_code": "ramp"}, "future": 1}
    wire = {"type": "error", "error": error, "request_id": "req_vendor", "more": True}
    script = reply(429, json.dumps(wire), retry_after="7", request_id="req_vendor")
    async with before("messages", script) as (proxy, _):
        status, headers, body = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "stream": stream})
    assert (status, json.loads(body)) == (429, {**wire, "request_id": headers["request-id"]})
    shown = {name: headers.get(name) for name in ("retry-after", "retry-after-ms", "dragoman-reason")}
    assert shown == {"retry-after": "7", "retry-after-ms": "7000", "dragoman-reason": None}
    assert headers["dragoman-upstream-request-id"] == "req_vendor"


async def test_a_secret_in_such_an_error_does_not() -> None:
    wire = '{"error":{"message":"bad request with proxy-key-1 and sk-proj-abcdefgh1234"}}'
    async with before("chat", reply(400, wire)) as (proxy, _):
        status, _, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, json.loads(body)) == (400, {"error": {"message": "bad request with [secret] and [secret]"}})


@pytest.mark.parametrize(
    ("headers", "wire", "told_headers"),
    [
        ({"retry-after": "5"}, {"message": "x"}, {"retry-after": "5", "retry-after-ms": "5000"}),
        ({"retry-after-ms": "250"}, {"message": "x"}, {"retry-after": "1", "retry-after-ms": "250"}),
        ({}, {"message": "Please try again in 20s."}, {"retry-after": "20", "retry-after-ms": "20000"}),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"},
            {"message": "x"},
            {"retry-after": "120", "retry-after-ms": "120000", "dragoman-retry-after": "360"},
        ),
        ({}, {"message": "x"}, {}),
        ({"x-should-retry": "false"}, {"message": "x"}, {"x-should-retry": "false"}),
        ({}, {"message": "x", "code": "insufficient_quota"}, {"x-should-retry": "false"}),
    ],
)
async def test_whether_and_when_to_try_again_is_told(
    headers: dict[str, str], wire: dict[str, str], told_headers: dict[str, str]
) -> None:
    async with before("chat", reply(429, json.dumps({"error": wire}), **headers)) as (proxy, _):
        _, got, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    names = ("retry-after", "retry-after-ms", "dragoman-retry-after", "x-should-retry")
    assert {name: got[name] for name in names if name in got} == told_headers


@pytest.mark.parametrize(
    ("client", "backend_protocol", "sent", "got"),
    [
        ("messages", "chat", {"x-ratelimit-limit-requests": "5"}, {"anthropic-ratelimit-requests-limit": "5"}),
        ("chat", "messages", {"anthropic-ratelimit-requests-limit": "5"}, {"x-ratelimit-limit-requests": "5"}),
        ("responses", "chat", {"x-ratelimit-reset-tokens": "6m0s"}, {"x-ratelimit-reset-tokens": "6m0s"}),
        (
            "messages",
            "messages",
            {"anthropic-ratelimit-unified-status": "allowed", "anthropic-priority-input-tokens-limit": "7"},
            {"anthropic-ratelimit-unified-status": "allowed", "anthropic-priority-input-tokens-limit": "7"},
        ),
        ("chat", "messages", {"anthropic-organization-id": "o", "set-cookie": "a=b", "cf-ray": "1"}, {}),
        ("chat", "chat", {"openai-organization": "o", "set-cookie": "a=b", "cf-ray": "1", "server": "nginx"}, {}),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_limits_of_the_backend_are_told_in_the_clients_family(
    client: str, backend_protocol: ProtocolName, sent: dict[str, str], got: dict[str, str], stream: bool
) -> None:
    script = says_hello(backend_protocol, streamed=stream, **sent)
    async with before(backend_protocol, script) as (proxy, _):
        _, headers, _ = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    ours = ("dragoman-", "content-", "x-request-id", "request-id", "date", "transfer-", "cache-", "x-accel-")
    assert {name: value for name, value in headers.items() if not name.startswith(ours)} == {
        "server": "dragoman",
        **got,
    }


async def test_limits_of_a_pool_are_not_told() -> None:
    script = says_hello("chat", streamed=False, **{"x-ratelimit-limit-requests": "5"})
    async with before("chat", script, ratelimit_headers="drop") as (proxy, _):
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert "x-ratelimit-limit-requests" not in headers


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", PATHS)
async def test_an_error_inside_a_success_is_an_error(client: str, stream: bool) -> None:
    wire = {"error": {"message": "Provider is overloaded", "code": 503, "type": "overloaded_error"}}
    async with before("chat", reply(200, json.dumps(wire))) as (proxy, _):
        status, _, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    both = ((529, "overloaded_error"), (503, "service_unavailable_error", "server_is_overloaded"))
    assert told(client, status, body) == expected(client, both)


@pytest.mark.parametrize("client", PATHS)
async def test_an_error_as_the_first_event_is_a_real_error(client: str) -> None:
    event = 'data: {"error":{"message":"Provider is overloaded","code":503}}\n\n'
    async with before("chat", [head(), chunk(event), LAST]) as (proxy, _):
        status, _, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": True})
    both = ((529, "overloaded_error"), (503, "service_unavailable_error", "server_is_overloaded"))
    assert told(client, status, body) == expected(client, both)


async def test_a_content_type_that_lies_is_not_believed() -> None:
    for content_type in ("text/html", "text/event-stream", "application/octet-stream", "nonsense"):
        script = reply(200, json.dumps(REPLIES["chat"]), content_type)
        async with before("chat", script) as (proxy, _):
            status, headers, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
        assert (status, headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "backend_protocol"), PAIRS)
async def test_nor_in_one_that_ends_a_stream(client: str, backend_protocol: ProtocolName, stream: bool) -> None:
    wire = {"type": "error", "error": {"type": "api_error", "message": "no proxy-key-1", "code": "proxy-key-1"}}
    error = f"event: error\ndata: {json.dumps(wire)}\n\n"
    script = [head(), *map(chunk, EVENTS[backend_protocol][:4]), chunk(error), LAST]
    async with before(backend_protocol, script) as (proxy, _):
        _, _, body = await proxy.post(PATHS[client], {**REQUESTS[client], "stream": stream})
    assert (b"no [secret]" in body, b"proxy-key" in body) == (True, False)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("blanks", [[b" " * 1_000_000], [b"\n" * 50_000] * 3])
async def test_an_endless_nothing_is_not_waited_for(blanks: list[bytes], stream: bool) -> None:
    script = [head(content_encoding="gzip"), *map(chunk, map(gzip.compress, blanks)), HOLD]
    if len(blanks) > 1:
        script = [head(), *map(chunk, blanks), HOLD]
    async with before("chat", script) as (proxy, _):
        status, _, body = await proxy.post(PATHS["messages"], {**REQUESTS["messages"], "stream": stream})
    assert (status, b"nothing but blanks" in body) == (502, True)


@pytest.mark.parametrize("rest", [[b"x" * 2_000_000], [b"{", CUT]])
async def test_the_status_of_an_error_counts_whatever_its_body_is(rest: list[Step]) -> None:
    length = b"HTTP/1.1 429 Said\r\nretry-after: 7\r\ncontent-length: 2000000\r\n\r\n"
    async with before("chat", [length, *rest]) as (proxy, _):
        status, headers, _ = await proxy.post(PATHS["messages"], REQUESTS["messages"])
    assert (status, headers["retry-after"]) == (429, "7")


async def test_nor_in_its_headers() -> None:
    told = {"x-request-id": "proxy-key-1", "x-ratelimit-limit-requests": "proxy-key-1"}
    async with before("chat", says_hello("chat", streamed=False, **told)) as (proxy, _):
        _, headers, _ = await proxy.post(PATHS["chat"], REQUESTS["chat"])
        record = await proxy.record()
    assert headers["x-ratelimit-limit-requests"] == headers["dragoman-upstream-request-id"] == "[secret]"
    assert "proxy-key-1" not in json.dumps(record)


def test_where_a_backend_of_ours_is_stays_inside() -> None:
    def hidden(base_url: str) -> set[str]:
        return set(secrets_of(Settings({"one": upstream("chat", base_url)}, ()))) - {"proxy-key-1"}

    assert hidden("http://worker-7.internal:8000/v1") == {"worker-7.internal"}
    assert hidden("http://inference:8000/v1") == {"inference:8000"}
    assert hidden("https://api.openai.com/v1") == set()


async def test_a_key_of_digits_is_taken_out_of_numbers_too() -> None:
    wire = '{"error":{"message":"no","type":"server_error","number":1234567890}}'
    async with before("chat", reply(500, wire), key="1234567890") as (proxy, _):
        status, _, body = await proxy.post(PATHS["chat"], REQUESTS["chat"])
    assert (status, json.loads(body)["error"]["message"], b"1234567890" in body) == (500, "no", False)
