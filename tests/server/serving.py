"""The proxy on a real socket in the test's own loop, and what backends of each protocol say."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from fnmatch import translate

import aiohttp
import orjson
from aiohttp import web
from pydantic import SecretStr

from proxy.server.admin import Admin
from proxy.server.app import App
from proxy.server.connections import Server
from proxy.server.gateway import Gateway
from proxy.server.reloading import Reloading
from proxy.server.runtime import Runtime
from proxy.settings import (
    Loaded,
    LossPolicy,
    ModelRoute,
    ProfileEntry,
    ProtocolName,
    RouteTarget,
    Settings,
    Timeouts,
    Upstream,
)
from proxy.settings.tenants import Tenant
from proxy.telemetry.logs import AccessLog
from tests.upstream.scripted import Scripted, Step, reply, stream

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "completions": "/v1/completions",
}

# A request for the least there is, and the reply to it, in each protocol.
REQUESTS: dict[str, dict[str, object]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]},
    "responses": {"model": "m", "input": "Say hello."},
    "messages": {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]},
    "completions": {"model": "m", "prompt": "Say hello."},
}
REPLIES: dict[str, dict[str, object]] = {
    "chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m-1",
        "status": "completed",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
    },
    "messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
}


def _event(wire: dict[str, object]) -> str:
    return f"event: {wire['type']}\ndata: {json.dumps(wire)}\n\n"


def _chunk(choice: dict[str, object] | None, **more: object) -> str:
    choices = [] if choice is None else [{"index": 0, "finish_reason": None, **choice}]
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    return f"data: {json.dumps({**base, 'choices': choices, **more})}\n\n"


_ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
_PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_BEGUN = {"type": "response.created", "sequence_number": 0}
_BEGUN["response"] = {**REPLIES["responses"], "status": "in_progress", "output": [], "usage": None}
EVENTS: dict[str, list[str]] = {
    "chat": [
        _chunk({"delta": {"role": "assistant", "content": ""}}),
        _chunk({"delta": {"content": "Hel"}}),
        _chunk({"delta": {"content": "lo"}}),
        _chunk({"delta": {}, "finish_reason": "stop"}),
        _chunk(None, usage=REPLIES["chat"]["usage"]),
        "data: [DONE]\n\n",
    ],
    "responses": [
        _event(_BEGUN),
        _event({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": _ITEM}),
        _event(
            {
                "type": "response.content_part.added",
                "sequence_number": 2,
                **_PLACE,
                "part": {"type": "output_text", "text": "", "annotations": []},
            }
        ),
        _event({"type": "response.output_text.delta", "sequence_number": 3, **_PLACE, "delta": "Hel"}),
        _event({"type": "response.output_text.delta", "sequence_number": 4, **_PLACE, "delta": "lo"}),
        _event({"type": "response.output_text.done", "sequence_number": 5, **_PLACE, "text": "Hello"}),
        _event(
            {
                "type": "response.output_item.done",
                "sequence_number": 6,
                "output_index": 0,
                "item": {
                    **_ITEM,
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
                },
            }
        ),
        _event({"type": "response.completed", "sequence_number": 7, "response": REPLIES["responses"]}),
    ],
    "messages": [
        _event(
            {
                "type": "message_start",
                "message": {
                    **REPLIES["messages"],
                    "content": [],
                    "stop_reason": None,
                    "usage": {"input_tokens": 3, "output_tokens": 0},
                },
            }
        ),
        _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}),
        _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}}),
        _event({"type": "content_block_stop", "index": 0}),
        _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
        _event({"type": "message_stop"}),
    ],
}


def says_hello(protocol: str, *, streamed: bool, **headers: str) -> list[Step]:
    """A backend's answer."""
    if streamed:
        return stream(*EVENTS[protocol], **headers)
    return [reply(200, json.dumps(REPLIES[protocol]), **headers)]


def begins(protocol: str, count: int = 2) -> list[Step]:
    """The first events of a stream that stays open."""
    return stream(*EVENTS[protocol][:count])[:-1]


def upstream(
    protocol: ProtocolName, base_url: str, *, name: str = "backend", key: str | None = "proxy-key-1", **more: object
) -> Upstream:
    """An upstream that is served by a test's backend."""
    secret = SecretStr(key) if key else None
    return Upstream(name, protocol, base_url, api_key=secret, **more)  # type: ignore[arg-type]


def route(match: str, to: Upstream, model: str | None = None, loss: LossPolicy | None = None) -> ModelRoute:
    """A model entry with one target."""
    return targets(match, RouteTarget(to, model), loss=loss)


def targets(match: str, *targets: RouteTarget, loss: LossPolicy | None = None, **more: object) -> ModelRoute:
    """A model entry. `more`: of `ModelRoute`."""
    return ModelRoute(match, re.compile(translate(match)), targets, loss or LossPolicy(), **more)  # type: ignore[arg-type]


@dataclass
class Proxy:
    """A proxy that serves."""

    url: str
    runtime: Runtime
    session: aiohttp.ClientSession
    access: "Records"

    @property
    def gateway(self) -> Gateway:
        """The configuration in force."""
        return self.runtime.gateway

    async def record(self) -> dict[str, object]:
        """The record of the one exchange that there was, once it has ended."""
        async with asyncio.timeout(5):
            await self.access.written.wait()
        (record,) = self.access.records
        return record

    async def post(
        self, path: str, wire: object, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of the reply; header names are in lower case."""
        body = wire if isinstance(wire, bytes) else json.dumps(wire).encode()
        return await self.ask("POST", path, headers, body)

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: object = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The same with any method."""
        async with self.session.request(method, self.url + path, data=body, headers=headers) as response:
            names = {name.lower(): value for name, value in response.headers.items()}
            return response.status, names, await response.read()


class Records(AccessLog):
    """Access records as a test wants them: at once, and as values."""

    def __init__(self) -> None:
        super().__init__(lambda _lines: None)
        self.records: list[dict[str, object]] = []
        self.written = asyncio.Event()

    def record(self, fields: Mapping[str, object]) -> None:
        """Keep one record, as it would be written."""
        self.records.append(json.loads(orjson.dumps(fields)))
        self.written.set()


@asynccontextmanager
async def operated(
    proxy: Proxy, drain: Callable[[], None] = lambda: None, read: Callable[[], Loaded] | None = None
) -> AsyncIterator[str]:
    """The admin listener of a proxy that serves."""
    reloading = Reloading(proxy.runtime, Loaded(proxy.gateway.settings), read)
    runner = web.ServerRunner(Server(proxy.runtime, Admin(proxy.runtime, reloading, drain)), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def before(
    protocol: ProtocolName,
    *scripts: Sequence[Step] | bytes,
    models: Iterable[tuple[str, str | None, LossPolicy]] = (("*", None, LossPolicy()),),
    timeouts: Timeouts | None = None,
    max_body: int = 32 * 2**20,
    **settings: object,
) -> AsyncIterator[tuple[Proxy, Scripted]]:
    """A proxy before one backend that says this. `models`: patterns, the backend's names for them, and policies."""
    async with Scripted(*scripts) as backend:
        to = upstream(protocol, backend.base_url, timeouts=timeouts or Timeouts(), **settings)  # type: ignore[arg-type]
        routes = [route(match, to, model, loss) for match, model, loss in models]
        async with serving(to, models=routes, timeouts=timeouts, max_body=max_body) as proxy:
            yield proxy, backend


@asynccontextmanager
async def serving(
    *upstreams: Upstream,
    models: Iterable[ModelRoute] | None = None,
    timeouts: Timeouts | None = None,
    max_body: int = 32 * 2**20,
    reasoning_cache: bool = False,
    model_profiles: Iterable[ProfileEntry] = (),
    tenants: Iterable[Tenant] | None = None,
    **more: object,
) -> AsyncIterator[Proxy]:
    """A proxy before these upstreams; without `models` the first one gets them all. `more`: of `Settings`."""
    if timeouts is not None and models is None:
        upstreams = tuple(replace(entry, timeouts=timeouts) for entry in upstreams)
    settings = Settings(
        {entry.name: entry for entry in upstreams},
        tuple(models) if models is not None else (route("*", upstreams[0]),),
        timeouts=timeouts or Timeouts(),
        max_body=max_body,
        reasoning_cache=reasoning_cache,
        model_profiles=tuple(model_profiles),
        tenants=None if tenants is None else {tenant.name: tenant for tenant in tenants},
        **more,  # type: ignore[arg-type]
    )
    access = Records()
    runtime = Runtime(settings, access)
    runtime.failed_checks = []
    runner = web.ServerRunner(Server(runtime, App(runtime)), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        try:
            yield Proxy(f"http://127.0.0.1:{runner.addresses[0][1]}", runtime, session, access)
        finally:
            await runtime.close()
            await runner.cleanup()
