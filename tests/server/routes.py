"""Every route that the application has, as its own tables say, and what a test asks there."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretBytes

from proxy.server import app, passthrough
from proxy.settings import ProtocolName
from proxy.settings.tenants import EndpointClass, Tenant
from tests.server.serving import REPLIES, REQUESTS, Proxy, route, serving, upstream
from tests.server.tenancy import PEPPER
from tests.upstream.scripted import HOLD, Scripted, reply

PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "responses", "messages")
TRANSLATED = app.generate, app.count_tokens
# An endpoint behind each beginning that pass-through knows, and one more where a class of its own is.
_BEHIND = {
    "/responses/": ("/responses/resp_1", "/responses/compact"),
    "/chat/completions/": ("/chat/completions/chatcmpl-1",),
    "/audio/": ("/audio/speech",),
    "/images/": ("/images/generations",),
}
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
BATCHES = ("/batches", "/messages/batches")


@dataclass(frozen=True)
class Route:
    """One endpoint as one client asks it. `backend`: the protocol of the backend that answers, None: all are asked."""

    method: str
    path: str
    client: str
    kind: EndpointClass | None
    backend: ProtocolName | None
    handler: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} ({self.client} before {self.backend})"

    @property
    def passed(self) -> bool:
        """Whether nobody translates it."""
        return self.handler == "pass_through"

    @property
    def translated(self) -> bool:
        """Whether the request is read and written anew."""
        return self.handler in ("generate", "count_tokens") and self.client != self.backend

    @property
    def has_body(self) -> bool:
        return self.method in _WITH_BODY

    @property
    def names_model(self) -> bool:
        """Whether the request says which model is asked."""
        return (self.has_body and self.path != "/batches") or self.handler == "one_model"

    @property
    def in_batch(self) -> bool:
        return self.has_body and self.path in BATCHES

    @property
    def headers(self) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} if self.client == "messages" else {}

    def address(self, model: str) -> str:
        """The path with its version; `{model}` stands for the model."""
        return "/v1" + self.path.format(model=model)

    def body(self, model: str | None, **members: object) -> bytes | None:
        """A request for the model. `members`: what else the request says, in a batch each of its requests."""
        if not self.has_body:
            return None
        if self.path == "/batches":
            return json.dumps({"input_file_id": "file_1", "endpoint": "/v1/responses"}).encode()
        wire: dict[str, object] = {"input": "hello"}
        if self.handler in ("generate", "count_tokens"):
            wire = dict(REQUESTS[self.client])
        elif self.path == "/messages/batches":
            wire = dict(REQUESTS["messages"])
        wire.pop("model", None)
        wire |= {"model": model} if model is not None else {}
        wire |= members
        if self.path == "/messages/batches":
            return json.dumps({"requests": [{"custom_id": "a", "params": wire}]}).encode()
        return json.dumps(wire).encode()


def all_routes() -> list[Route]:
    """From the application's tables, so that a new endpoint is among them at once."""
    return [*_fixed(), *_passed()]


def _fixed() -> Iterator[Route]:
    for (method, path), endpoint in app.ENDPOINTS.items():
        name = getattr(endpoint.handle, "__name__", "")
        if endpoint.handle in TRANSLATED:
            assert endpoint.client is not None
            for backend in PROTOCOLS:
                yield Route(method, path, endpoint.client, endpoint.kind, backend, name)
        else:
            yield Route(method, path, "chat", endpoint.kind, None, name)
            yield Route(method, path, "messages", endpoint.kind, None, name)
    one = app._ONE_MODEL
    yield Route("GET", "/models/{model}", "chat", one.kind, None, "one_model")


def _passed() -> Iterator[Route]:
    for beginning, owners in passthrough._OWNERS:
        for path in _BEHIND.get(beginning, (beginning,)):
            for method in sorted(passthrough._METHODS):
                if path == "/responses/compact" and method not in _WITH_BODY:
                    continue  # it is about no stored response, and makes none without a request
                client = "messages" if path.startswith("/messages") else owners[0]
                client = "responses" if path.startswith(("/responses", "/conversations")) else client
                kind = passthrough.class_of(path)
                yield Route(method, path, client, kind, owners[0], "pass_through")
                if beginning == "/files":
                    yield Route(method, path, "messages", kind, "messages", "pass_through")


# What a backend of each protocol answers to whatever it is asked: it is read as a reply, as a list of models, as a
# count. It tells of many tokens, so that a limit of tokens is used up by one.
_USED = {
    "chat": {"prompt_tokens": 3000, "completion_tokens": 1, "total_tokens": 3001},
    "responses": {"input_tokens": 3000, "output_tokens": 1, "total_tokens": 3001},
    "messages": {"input_tokens": 3000, "output_tokens": 1},
}


def _says(protocol: str) -> bytes:
    listed = [{"id": f"{protocol}-listed"}]
    return reply(200, json.dumps({**REPLIES[protocol], "usage": _USED[protocol], "data": listed, "input_tokens": 3000}))


@dataclass
class Site:
    """A proxy before one backend of each protocol, by its protocol, and maybe one that never answers."""

    proxy: Proxy
    backends: Mapping[str, Scripted]
    slow: Scripted

    @property
    def asked(self) -> int:
        """How often any backend was asked."""
        return sum(len(backend.asked) for backend in (*self.backends.values(), self.slow))

    async def hold(self, headers: Mapping[str, str]) -> None:
        """Ask for a stream that does not begin."""
        body = {"model": "on-slow", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        await self.proxy.post("/v1/chat/completions", body, dict(headers))

    async def all_over(self) -> None:
        """Wait until nothing is open."""
        async with asyncio.timeout(5):
            while self.proxy.runtime.open:  # noqa: ASYNC110  the end of an exchange rings no bell
                await asyncio.sleep(0)

    async def ask(
        self, to: Route, headers: Mapping[str, str], *, model: str | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of what is answered there. `model`: by default the one of the route's backend."""
        model = model or model_of(to)
        raw = to.body(model) if body is None else body
        sent = {**({"content-type": "application/json"} if raw else {}), **to.headers, **headers}
        return await self.proxy.ask(to.method, to.address(model), sent, raw)


def model_of(to: Route) -> str:
    return f"on-{to.backend or 'chat'}"


@asynccontextmanager
async def site(*tenants: Tenant, slow: bool = False, dialect: str | None = None, **more: object) -> AsyncIterator[Site]:
    """`on-chat` and the like are models of these backends, `on-slow` of the one that never answers, if wanted."""
    async with AsyncExitStack() as stack:
        backends = {name: await stack.enter_async_context(Scripted(_says(name))) for name in PROTOCOLS}
        silent = await stack.enter_async_context(Scripted([HOLD]))
        tos = [
            upstream(
                name,
                backends[name].base_url,
                name=name,
                key=f"shared-key-of-{name}",
                dialect=None if name == "messages" else dialect,
            )
            for name in PROTOCOLS
        ]
        if slow:
            tos.append(upstream("chat", silent.base_url, name="slow"))
        models = [route(pattern, to) for to in tos for pattern in (f"on-{to.name}", f"{to.name}-listed")]
        proxy = await stack.enter_async_context(
            serving(*tos, models=models, tenants=tenants, key_pepper=SecretBytes(PEPPER), **more)  # type: ignore[arg-type]
        )
        yield Site(proxy, backends, silent)
