"""Replicas of the product as processes, with tenants, and what can be known of them from outside."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from redis import Redis

from proxy.tenancy.keys import NewKey, new_key
from tests.harness.proxy_process import SERVE, ProxyProcess
from tests.harness.wire import Json

PEPPER = "a pepper of the tests"
# US dollars a million tokens.
PRICES = [{"match": "*", "input": 3, "output": 15, "cache_read": 0.3}]
TIMEOUTS = {
    "connect": "2s",
    "first_event": "0.6s",
    "idle": "0.4s",
    "total": "5s",
    "commit_after": "0.2s",
    "heartbeat": "0.1s",
}
_SAMPLE = re.compile(r"^(dragoman_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Tenants:
    """`limits`: as the configuration has them, by tenant. `keys`: what their clients send."""

    def __init__(self, limits: Mapping[str, Json]) -> None:
        made = {name: new_key(PEPPER.encode()) for name in limits}
        self.keys = {name: key.text for name, key in made.items()}
        self.entries = [{"name": name, "keys": [_entry(made[name])], "limits": asked} for name, asked in limits.items()]


def _entry(key: NewKey) -> Json:
    return {"kid": key.kid, "hash": key.hash}


class Replica(ProxyProcess):
    """`chat-*` models are at the backend's Chat, `messages-*` at its Messages."""

    async def standings(self, tenant: str) -> dict[str, int]:
        """How much of each limit is used, as the operator is told; of a budget, in micro-dollars."""
        _, told = await get(self.admin_port, f"/admin/tenants/{tenant}")
        used = {limit["dimension"]: limit["used"] for limit in json.loads(told)["limits"]}
        return {dimension: round(count * (1e6 if dimension == "budget" else 1)) for dimension, count in used.items()}

    async def in_flight(self, tenant: str) -> int:
        """How many of a tenant's requests are open here."""
        _, told = await get(self.admin_port, f"/admin/tenants/{tenant}")
        return int(json.loads(told)["in_flight"])

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        _, told = await get(self.admin_port, "/metrics")
        return sum(
            float(value)
            for found, having, value in _SAMPLE.findall(told)
            if found == name and labels.items() <= dict(_LABEL.findall(having)).items()
        )

    def records(self) -> list[dict[str, Any]]:
        """All access records that have been written, of all its lives."""
        lines = (json.loads(line) for line in self.output.splitlines() if line.startswith("{"))
        return [line for line in lines if line["log"] == "access"]

    def messages(self) -> list[str]:
        """What it has said beside, warnings and worse."""
        lines = (json.loads(line) for line in self.output.splitlines() if line.startswith("{"))
        return [line["message"] for line in lines if line["log"] == "app" and line["level"] != "info"]


@asynccontextmanager
async def replicas(
    count: int,
    tenants: Tenants,
    backend_url: str,
    redis_url: str | None,
    *,
    command: tuple[str, ...] = SERVE,
    **more: Json,
) -> AsyncIterator[Sequence[Replica]]:
    """So many that serve, with one configuration. `more` of it: in place of what is here."""
    async with AsyncExitStack() as stack:
        made = [
            Replica(
                "chat", backend_url, command=command, more={**configuration(tenants, backend_url, redis_url), **more}
            )
            for _ in range(count)
        ]
        for replica in made:
            stack.push_async_callback(replica.stop)
        await asyncio.gather(*(replica.start() for replica in made))
        yield made


def configuration(tenants: Tenants, backend_url: str, redis_url: str | None) -> dict[str, Json]:
    upstream = {"base_url": backend_url, "api_key": "upstream-key"}
    state: dict[str, Json] = {"carrier_keys": ["00" * 32]}
    if redis_url is not None:
        # A store that can't answer in time admits nothing, so that whatever was admitted is in its books.
        state |= {"url": redis_url, "on_failure": "closed"}
    return {
        "upstreams": [
            {"name": "chat", "protocol": "chat", **upstream},
            {"name": "messages", "protocol": "messages", **upstream},
        ],
        "models": [{"match": "chat-*", "upstream": "chat"}, {"match": "messages-*", "upstream": "messages"}],
        "timeouts": TIMEOUTS,
        "drain": {"lame_duck": "0.1s", "max_stream": "2s"},
        "state": state,
        "key_pepper": PEPPER,
        "prices": PRICES,
        "tenants": tenants.entries,
    }


async def get(port: int, path: str) -> tuple[int, str]:
    """(status, body)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        return int(head[9:12]), body.decode()
    finally:
        writer.close()


class Books:
    """What Redis itself holds."""

    def __init__(self, url: str) -> None:
        self._redis: Any = Redis.from_url(url)

    def close(self) -> None:
        self._redis.close()

    def account(self, tenant: str) -> dict[str, str]:
        told = self._redis.hgetall(f"dragoman:{{{tenant}}}:account")
        return {name.decode(): value.decode() for name, value in told.items()}

    def leases(self) -> list[bytes]:
        """Of all tenants, streams twice."""
        keys = [*self._redis.scan_iter("*:leases"), *self._redis.scan_iter("*:streams")]
        return [lease for key in keys for lease in self._redis.zrange(key, 0, -1)]

    def kept_for_ever(self) -> list[bytes]:
        return [key for key in self._redis.scan_iter("*") if self._redis.ttl(key) < 0]


async def until(true: Callable[[], bool], within: float = 10.0) -> None:
    """Wait for what no one tells. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while True:
            if true():
                return
            await asyncio.sleep(0.02)
