"""What the model backend serves beside answers: its models, counts of tokens, embeddings."""

import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.harness.model_replies import CREATED, INPUT_TOKENS
from tests.harness.wire import Json, Protocol

MODELS: dict[Protocol, tuple[str, ...]] = {
    "chat": ("local-model",),
    "responses": ("gpt-5.5",),
    "messages": ("claude-opus-5-5", "claude-sonnet-4-6"),
}
VECTOR = [0.25, -0.5]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_resources(protocol: Protocol, router: web.UrlDispatcher, allowed: Callable[[web.Request], bool]) -> None:
    """allowed: whether a request brings the right key."""

    def guarded(reply: Callable[[Json], Json]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if not allowed(request):
                return web.json_response({"error": {"message": "Incorrect API key provided."}}, status=401)
            return web.json_response(reply(json.loads(await request.read() or b"{}")))

        return handle

    router.add_get("/v1/models", guarded(lambda _: _models(protocol)))
    if protocol == "messages":
        router.add_post("/v1/messages/count_tokens", guarded(lambda _: {"input_tokens": INPUT_TOKENS}))
        return
    router.add_post("/v1/embeddings", guarded(_embeddings))
    if protocol == "responses":
        counted: Json = {"object": "response.input_tokens", "input_tokens": INPUT_TOKENS}
        router.add_post("/v1/responses/input_tokens", guarded(lambda _: counted))


def _models(protocol: Protocol) -> Json:
    names = MODELS[protocol]
    if protocol == "messages":
        at = "2026-01-01T00:00:00Z"
        models = [{"type": "model", "id": name, "display_name": name, "created_at": at} for name in names]
        return {"data": models, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    owned = [{"id": name, "object": "model", "created": CREATED, "owned_by": "test"} for name in names]
    return {"object": "list", "data": owned}


def _embeddings(body: Json) -> Json:
    entry: Json = {"object": "embedding", "index": 0, "embedding": VECTOR}
    usage: Json = {"prompt_tokens": INPUT_TOKENS, "total_tokens": INPUT_TOKENS}
    return {"object": "list", "data": [entry], "model": body["model"], "usage": usage}
