"""One process with every kind of secret meets all that may go wrong, and shows none of them to anybody."""

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from proxy.cli import main
from proxy.settings import Settings, load
from tests.harness.http_wire import body_pieces, read_head
from tests.harness.redis_server import RedisServer
from tests.server.holding import Process, process_of
from tests.server.serving import PATHS, REQUESTS
from tests.server.tenancy import a_key
from tests.upstream.listening import Listening
from tests.upstream.scripted import LAST, chunk, head, reply

PROMPT, ANSWER = "the purple walrus whispers", "a crimson teapot replies"
SAID = ("ok", "refused", "bad", "limited", "broken", "page", "stream", "cut", "within", "crash")
TELLING = ("authorization", "x-api-key", "x-gateway")
PROTOCOLS = {"env": "chat", "filed": "messages", "mapped": "responses", "own": "chat"}

# What a bug would be like: it says all that it knows.
CRASHING = """
import sys, proxy.translation.pair as pair
prepare = pair.prepare
def crashing(seen, *more):
    if seen.model.endswith("crash"):
        raise RuntimeError("It broke with " + %r)
    return prepare(seen, *more)
pair.prepare = crashing
import proxy.cli
sys.exit(proxy.cli.main())
"""


class Secrets:
    """One of each kind, made for this run; those of no known shape, so that nothing but knowledge finds them."""

    def __init__(self) -> None:
        self.carrier = secrets.token_bytes(32)
        names = ("env", "file", "header", "pepper", "token", "redis", "mapped", "mappedfile", "byok")
        self.of = {name: f"{name}-{secrets.token_urlsafe(24)}" for name in names}
        self.of["quoted"] = 'quo"ted\\' + secrets.token_urlsafe(20)
        self.of["carrier"] = base64.b64encode(self.carrier).decode()
        self.keys: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What the process gets in its environment."""
        return {
            "THE_KEY": self.of["env"],
            "THE_HEADER": self.of["header"],
            "THE_PEPPER": self.of["pepper"],
            "THE_QUOTED": self.of["quoted"],
            "DRAGOMAN_CARRIER_KEY": self.of["carrier"],
        }

    @property
    def ours(self) -> list[str]:
        """What the proxy can know to be secret: not what a caller brings, nor what the digest of a key looks like."""
        kept = [secret for name, secret in self.of.items() if name != "byok" and not name.startswith("hash")]
        return [*kept, *self.keys.values()]

    def shown_in(self, text: str, *, known_to: str = "") -> list[str]:
        """Which of them stand in a text, in whatever form. `known_to`: whose own secret does not count."""
        every = {**self.of, "carrier hex": self.carrier.hex()}
        for tenant, key in self.keys.items():
            every[f"key of {tenant}"], every[f"secret of {tenant}"] = key, key[17:60]
        lower = text.lower()
        return [
            name
            for name, secret in every.items()
            if name != known_to and any(form.lower() in lower for form in _forms(secret))
        ]


def _forms(secret: str) -> Iterator[str]:
    """Case is left out of account."""
    raw = secret.encode()
    yield from (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], raw.hex(), secret[::-1])
    for padding in range(3):  # wherever in a longer text it stood when that was encoded
        whole = base64.b64encode(b"=" * padding + raw).decode()
        yield whole[4:-4]


class Echo(Listening):
    """A backend that tells whatever it was told, in every place that it can. What it does is the end of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """Whatever is asked."""
        asked = await read_head(reader)
        body = b"".join([piece async for piece in body_pieces(reader, asked, to_end=False)])
        values = [value for name, value in asked.headers if name.lower() in TELLING]
        # Without its scheme, by which any bearer's key is known.
        told = " and ".join(value.removeprefix("Bearer ") for value in values)
        self.heard += told
        wire = json.loads(body) if body else {}
        path = asked.line.split()[1]
        path = path.partition("?")[0]
        for answer in _answers(path, str(wire.get("model")), told, streamed=wire.get("stream") is True):
            writer.write(answer)
        return True


def _answers(path: str, model: str, told: str, *, streamed: bool) -> Sequence[bytes]:
    plain = told.encode("ascii", "replace").decode()
    headers = {
        "x_request_id": plain.replace(" ", "_"),
        "request_id": plain.replace(" ", "_"),
        "x_ratelimit_limit_requests": plain,
        "anthropic_ratelimit_requests_limit": plain,
        "openai_version": plain,
        "content_disposition": plain,
    }
    text = f"Key {told} in {told}: {ANSWER}"
    error: dict[str, object] = {"type": "error", "error": {"type": told, "code": told, "param": told, "message": text}}
    mode = model.rpartition("-")[2]
    if path.endswith("/models"):
        return [reply(200, json.dumps({"data": [{"id": "listed", "owned_by": told, "display_name": text}]}), **headers)]
    match mode:
        case "refused":
            return [reply(401, json.dumps(error), **headers)]
        case "bad":
            return [reply(400, json.dumps(error), **headers)]
        case "limited":
            return [reply(429, json.dumps(error), retry_after="1", **headers)]
        case "broken":
            return [reply(500, f'{{"detail": "{told}', **headers)]
        case "page":
            return [reply(502, f"<html>{text}</html>", f"text/html; x={plain}", **headers)]
        case "stream" if streamed:
            event = f"event: error\ndata: {json.dumps(error)}\n\n"
            return [head(**headers) + chunk(event) + LAST]
        case "cut" if streamed:
            return [head(**headers) + chunk(f"data: {told}\n\n") + LAST]
        case "within":
            return [reply(200, json.dumps(error), **headers)]
        case _:
            return [reply(200, json.dumps(_whole(path)), **headers)]


def _whole(path: str) -> object:
    if path.endswith("/embeddings"):
        return {"data": [], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    content = [{"type": "text", "text": ANSWER}]
    if path.endswith("/messages"):
        usage = {"input_tokens": 3, "output_tokens": 1}
        return {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "usage": usage}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "odd", "message": {"role": "assistant", "content": ANSWER}}],
    }


def write(folder: Path, known: Secrets, backend: str, redis: str, **more: object) -> Path:
    """The configuration, with each secret where it belongs."""
    (folder / "key").write_text(known.of["file"] + "\n")
    (folder / "mapped").write_text(known.of["mappedfile"] + "\n")
    headers = {"x-gateway": "${THE_HEADER}"}
    upstreams: list[dict[str, object]] = [
        {"name": "env", "api_key": "${THE_KEY}", "headers": headers},
        {"name": "filed", "api_key_file": str(folder / "key")},
        {"name": "mapped", "api_key": "${THE_QUOTED}"},
        {"name": "own"},
    ]
    for each in upstreams:
        each["retries"] = {"share": 0, "free": 0}  # it fails all the time
    tenants: list[dict[str, object]] = []
    for name, upstream in (
        ("team-shared", {}),
        ("team-mapped", {"mode": "map", "map": {"env": {"api_key": known.of["mapped"]}}}),
        ("team-mapped-file", {"mode": "map", "map": {"mapped": {"api_key_file": str(folder / "mapped")}}}),
        ("team-own", {"mode": "byok", "byok_header": "x-api-key"}),
    ):
        if name not in known.keys:
            known.keys[name], entry = a_key(pepper=known.of["pepper"].encode())
            known.of[f"hash of {name}"] = entry.digest.hex()
        kid = known.keys[name][4:16]
        keys = [{"kid": kid, "hash": f"hmac-sha256:{known.of[f'hash of {name}']}"}]
        tenants.append({"name": name, "keys": keys, "upstream": upstream, "limits": {"rpm": 60_000}})
    config = {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "admin_token": known.of["token"],
        "drain": {"lame_duck": "0s"},
        "key_pepper": "${THE_PEPPER}",
        "state": {"url": redis, "on_failure": "local"},
        "upstreams": [{"protocol": PROTOCOLS[str(each["name"])], "base_url": backend, **each} for each in upstreams],
        "models": [{"match": f"{name}-*", "upstream": name} for name in PROTOCOLS],
        "tenants": tenants,
        **more,
    }
    file = folder / "dragoman.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


class Told:
    """All that anybody has been shown: by where it came from."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, str]] = []

    def add(self, where: str, text: str, known_to: str = "") -> None:
        """`known_to`: the one secret that whoever reads it brought."""
        self.texts.append((where, text, known_to))

    def leaks(self, known: Secrets) -> list[tuple[str, list[str]]]:
        """What should not have been there."""
        found = [(where, known.shown_in(text, known_to=known_to)) for where, text, known_to in self.texts]
        return [(where, names) for where, names in found if names]


async def drive(proxy: Process, known: Secrets, told: Told) -> set[int]:
    """All that clients may do, and what comes of it."""
    statuses = set()
    for tenant, upstream in (
        *(("team-shared", upstream) for upstream in ("env", "filed", "mapped")),
        ("team-mapped", "env"),
        ("team-mapped-file", "mapped"),
        ("team-own", "own"),
    ):
        headers = {"authorization": f"Bearer {known.keys[tenant]}"}
        if tenant == "team-own":
            headers["x-api-key"] = known.of["byok"]
        for mode in SAID:
            for client in ("chat", "messages", "responses"):
                for stream in (False, True):
                    wire = json.loads(json.dumps(REQUESTS[client]).replace("Say hello.", PROMPT))
                    wire |= {"model": f"{upstream}-{mode}", "stream": stream}
                    statuses.add(await show(proxy, "POST", PATHS[client], told, headers, json.dumps(wire)))
        for path in ("/v1/embeddings", "/v1/messages/count_tokens", "/v1/responses/input_tokens"):
            for mode in ("ok", "bad", "refused"):
                wire = {"model": f"{upstream}-{mode}", "input": PROMPT}
                if path.startswith("/v1/messages"):
                    wire = {**REQUESTS["messages"], "model": f"{upstream}-{mode}"}
                statuses.add(await show(proxy, "POST", path, told, headers, json.dumps(wire)))
        for path in ("/v1/models", "/v1/models/env-ok", "/v1/files/one", "/v1/nowhere"):
            statuses.add(await show(proxy, "GET", path, told, headers))
        statuses.add(await show(proxy, "POST", PATHS["chat"], told, headers, '{"model": "' + PROMPT))
        statuses.add(await show(proxy, "POST", PATHS["chat"], told, headers, json.dumps({"model": "unknown"})))
    for key in ("", "sk-of-nobody-1234567890", known.keys["team-own"][:-1] + "x", known.of["token"]):
        statuses.add(await show(proxy, "POST", PATHS["chat"], told, {"authorization": f"Bearer {key}"}, "{}"))
    return statuses


async def show(
    proxy: Process, method: str, path: str, told: Told, headers: Mapping[str, str], body: str | None = None
) -> int:
    """Ask, and keep what is answered."""
    sent = {**headers, "content-type": "application/json"} if body is not None else headers
    async with proxy.session.request(method, proxy.clients + path, headers=sent, data=body) as response:
        try:
            text = await response.text()
        except Exception as error:  # noqa: BLE001  a stream that breaks is one of the things that happen
            text = repr(error)
        answered = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
        known_to = "byok" if "x-api-key" in headers else ""
        told.add(f"{method} {path} {(body or '')[:90]}", f"{answered}\n\n{text}", known_to)
        return response.status


async def operate(proxy: Process, known: Secrets, told: Told) -> None:
    """All that the admin listener says, to operators and to others."""
    for headers in ({}, {"authorization": f"Bearer {known.of['token']}"}, {"authorization": "Bearer wrong"}):
        for path in ("config", "tenants", "tenants/team-mapped", "tenants/nobody", "version"):
            async with proxy.session.get(f"{proxy.admin}/admin/{path}", headers=headers) as response:
                told.add(f"/admin/{path}", await response.text())
        for path in ("metrics", "readyz", "healthz"):
            async with proxy.session.get(f"{proxy.admin}/{path}") as response:
                told.add(path, await response.text())


async def reload(proxy: Process, known: Secrets, told: Told) -> int:
    headers = {"authorization": f"Bearer {known.of['token']}"}
    async with proxy.session.post(f"{proxy.admin}/admin/reload", headers=headers) as response:
        told.add("/admin/reload", await response.text())
        return response.status


def broken(folder: Path, known: Secrets, echo: str, redis: str) -> Iterator[None]:
    """The file with each secret in places where it does not belong, one after the other."""
    for secret in known.ours:
        for more in (
            {"models": [{"match": "*", "upstream": secret}, {"match": "[" + secret, "upstream": "own"}]},
            {"listen": secret, "max_body": secret, "prices": [{"match": "*", "input": secret, "output": 1}]},
            {"trusted_proxies": [secret], "tenant_defaults": {"limits": {"timezone": secret}, "loss": secret}},
        ):
            write(folder, known, echo, redis, **more)
            yield
    (folder / "key").unlink()
    yield


def command(told: Told, capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    """Run one, and keep what it prints."""
    code = main(arguments)
    shown = capsys.readouterr()
    told.add(" ".join(arguments[:2]), shown.out + shown.err)
    return code


async def test_no_secret_is_ever_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known, told = Secrets(), Told()
    for name, value in known.environment.items():
        monkeypatch.setenv(name, value)
    with RedisServer(known.of["redis"]) as redis:
        async with Echo() as echo:
            file = write(tmp_path, known, echo.base_url, redis.url)
            crash = " ".join(known.ours)
            output = tmp_path / "output"
            async with process_of(file, output, dict(os.environ), CRASHING % crash) as proxy:
                statuses = await drive(proxy, known, told)
                await operate(proxy, known, told)
                rejected = set()
                for _ in broken(tmp_path, known, echo.base_url, redis.url):
                    rejected.add(await reload(proxy, known, told))
                    told.add("/admin/config", await _config(proxy, known))
                    assert command(told, capsys, "check", str(file)) == 1
                write(tmp_path, known, echo.base_url, redis.url)
                assert await reload(proxy, known, told) == 200
                redis.kill()
                redis.password = "another password altogether"
                statuses |= await drive(proxy, known, told)
                redis.start()
                statuses |= await drive(proxy, known, told)
                await operate(proxy, known, told)
                proxy.process.terminate()
                assert proxy.process.stderr is not None
                told.add("stderr", proxy.told + (await proxy.process.stderr.read()).decode())
            log = output.read_text()
            assert command(told, capsys, "check", str(file)) == 0
            for tenant in known.keys:
                assert command(told, capsys, "policy", "show", "--config", str(file), tenant) == 0
            assert command(told, capsys, "keys", "list", "--config", str(file)) == 0
            assert command(told, capsys, "keys", "list", "--json", "--config", str(file)) == 0
            assert command(told, capsys, "config", "schema") == 0
            settings: Settings = load(file, os.environ)
            told.add("settings", repr(settings) + str(settings))
    for line in log.splitlines():
        told.add("log", line)
    assert told.leaks(known) == []
    assert (PROMPT in log, ANSWER in log) == (False, False)
    # All that should have happened did: else nothing is proven.
    assert {200, 400, 401, 404, 429, 500, 502} <= statuses
    assert rejected == {409}
    heard = ("env", "file", "header", "mapped", "mappedfile", "byok", "quoted")
    assert [name for name in heard if known.of[name] not in echo.heard] == []
    records = [json.loads(line) for line in log.splitlines()]
    assert {record["log"] for record in records} == {"access", "audit", "app"}
    audit = [(record["action"], record["actor"]) for record in records if record["log"] == "audit"]
    assert (audit[0], audit[-1]) == (("config.load", "process"), ("drain.start", "SIGTERM"))
    assert any("It broke with" in record.get("traceback", "") for record in records)
    assert any("the shared store of limits does not answer" in record.get("message", "") for record in records)


async def _config(proxy: Process, known: Secrets) -> str:
    headers = {"authorization": f"Bearer {known.of['token']}"}
    async with proxy.session.get(f"{proxy.admin}/admin/config", headers=headers) as response:
        return await response.text()
