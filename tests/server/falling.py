"""A proxy with several targets, and what backends say that can't answer."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from proxy.settings import ProtocolName, RouteTarget, Timeouts
from tests.server.serving import Proxy, serving, targets, upstream
from tests.upstream.scripted import Scripted, Step, reply

HEADERS = ("dragoman-attempts", "dragoman-fallback", "dragoman-upstream")


@dataclass
class Target:
    """What a backend speaks and says. Without `scripts` nobody listens there. `more`: of `Upstream`."""

    protocol: ProtocolName
    scripts: Sequence[Sequence[Step] | bytes]
    model: str | None = None
    weight: float | None = None
    timeouts: Timeouts | None = None
    more: dict[str, object] | None = None


@asynccontextmanager
async def before_all(
    *those: Target, beside: Target | None = None, entry: dict[str, object] | None = None, **more: object
) -> AsyncIterator[tuple[Proxy, list[Scripted]]]:
    """A proxy whose one model has these targets, which are called `one`, `two` and so on. `beside`: another one, for
    requests that are too long. `entry`: of `ModelRoute`; `more`: of `Settings`."""
    all_targets = (*those, beside) if beside is not None else those
    async with AsyncExitStack() as stack:
        backends: list[Scripted] = []
        found: list[RouteTarget] = []
        for name, each in zip(("one", "two", "three", "four"), all_targets, strict=False):
            backend = await stack.enter_async_context(Scripted(*(each.scripts or [b""])))
            address = backend.base_url if each.scripts else f"http://127.0.0.1:{closed_port()}/v1"
            settings = {"timeouts": each.timeouts or Timeouts(), **(each.more or {})}
            to = upstream(each.protocol, address, name=name, **settings)  # type: ignore[arg-type]
            backends.append(backend)
            found.append(RouteTarget(to, each.model, each.weight))
        long = found[-1] if beside is not None else None
        route = targets("*", *found[: len(those)], on_context_length=long, **(entry or {}))
        upstreams = {target.upstream.name: target.upstream for target in found}.values()
        proxy = await stack.enter_async_context(serving(*upstreams, models=[route], **more))  # type: ignore[arg-type]
        yield proxy, backends


def closed_port() -> int:
    """A port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def says(
    status: int, kind: str = "server_error", code: str | None = None, message: str = "No.", **headers: str
) -> bytes:
    """An error as OpenAI's backends write it."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return reply(status, json.dumps({"error": error}), **headers)


def told(headers: dict[str, str]) -> tuple[str | None, ...]:
    """What a reply says of its attempts: how many, whether elsewhere, and who answered."""
    return tuple(headers.get(name) for name in HEADERS)


async def metrics(proxy: Proxy, name: str) -> dict[tuple[str, ...], float]:
    """The series of one metric that are not 0, by the values of their labels."""
    family = getattr(proxy.runtime.metrics.traffic, name).collect()
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if sample.value}
