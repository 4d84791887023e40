"""The backend of `--demo`: in process, on a loopback port of its own, in Anthropic's own protocol.

It is an upstream like any other, so a demo exercises the whole proxy; only what it says is scripted.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import orjson
from aiohttp import web

from proxy.server.demo_script import Answer, Call, answer, count_tokens

_PAUSE: Final = 0.015  # seconds between words: fast enough to read along, slow enough to see it stream
_FRAGMENT: Final = 12  # characters of arguments in one event
_MAX_BODY: Final = 64 * 2**20

_PAUSE_KEY: Final = web.AppKey("pause", float)

_MODEL: Final = {
    "type": "model",
    "id": "dragoman-demo",
    "display_name": "Dragoman's demo backend",
    "created_at": "1970-01-01T00:00:00Z",
}


@dataclass(frozen=True, slots=True)
class DemoBackend:
    """A running backend; `base_url` has no version in it."""

    base_url: str
    runner: web.AppRunner

    async def close(self) -> None:
        """Stop; what still streams is cut."""
        await self.runner.cleanup()


async def start_demo(host: str = "127.0.0.1", pause: float = _PAUSE) -> DemoBackend:
    """Start on a port that the system chooses. `pause`: seconds between the words of a stream."""
    app = web.Application(client_max_size=_MAX_BODY)
    app[_PAUSE_KEY] = pause
    app.router.add_post("/v1/messages", _messages)
    app.router.add_post("/v1/messages/count_tokens", _count_tokens)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/v1/models/{id}", _model)
    app.router.add_route("*", "/{path:.*}", _not_found)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    port = runner.addresses[0][1]
    return DemoBackend(f"http://{host}:{port}", runner)


async def _messages(request: web.Request) -> web.StreamResponse:
    body = await _read(request, "model", "max_tokens", "messages")
    said = answer(body)
    if not body.get("stream"):
        return _json(_whole(body, said))
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await response.prepare(request)
    for event in _events(body, said):
        await response.write(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event)))
        if event["type"] == "content_block_delta":
            await asyncio.sleep(request.app[_PAUSE_KEY])
    await response.write_eof()
    return response


async def _count_tokens(request: web.Request) -> web.Response:
    return _json({"input_tokens": count_tokens(await _read(request, "model", "messages"))})


async def _models(_request: web.Request) -> web.Response:
    return _json({"data": [_MODEL], "has_more": False, "first_id": _MODEL["id"], "last_id": _MODEL["id"]})


async def _model(request: web.Request) -> web.Response:
    """Any name is served, so any name is a model."""
    return _json({**_MODEL, "id": request.match_info["id"]})


async def _not_found(request: web.Request) -> web.Response:
    return _json(_error("not_found_error", f"no {request.method} {request.path} here"), status=404)


async def _read(request: web.Request, *required: str) -> dict[str, Any]:
    """The body, an object with the required members. Raises HTTPBadRequest in the protocol's shape."""
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise _bad_request("the body is not a JSON object")
    for name in required:
        if body.get(name) is None:
            raise _bad_request(f"{name}: field required")
    return body


def _bad_request(message: str) -> web.HTTPBadRequest:
    error = _error("invalid_request_error", message)
    return web.HTTPBadRequest(text=orjson.dumps(error).decode(), content_type="application/json")


def _error(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{uuid4().hex}"}


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


def _whole(body: dict[str, Any], said: Answer) -> dict[str, object]:
    content: list[dict[str, object]] = [{"type": "text", "text": "".join(said.words), "citations": None}]
    if said.call:
        content.append(_call_block(said.call, orjson.loads(said.call.arguments)))
    return _message(body, said, content, said.stop_reason, said.output_tokens)


def _message(
    body: dict[str, Any], said: Answer, content: list[dict[str, object]], stop_reason: str | None, output_tokens: int
) -> dict[str, object]:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "input_tokens": said.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        },
    }


def _call_block(call: Call, arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": f"toolu_{uuid4().hex[:24]}", "name": call.name, "input": arguments}


def _events(body: dict[str, Any], said: Answer) -> Iterator[dict[str, Any]]:
    """The whole stream, in the order that the protocol's grammar wants (messages.md 15.2)."""
    yield {"type": "message_start", "message": _message(body, said, [], None, 1)}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for word in said.words:
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    yield {"type": "content_block_stop", "index": 0}
    if said.call:
        yield {"type": "content_block_start", "index": 1, "content_block": _call_block(said.call, {})}
        for fragment in _fragments(said.call.arguments):
            delta = {"type": "input_json_delta", "partial_json": fragment}
            yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
    stop = {"stop_reason": said.stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": said.output_tokens}}
    yield {"type": "message_stop"}


def _fragments(arguments: str) -> list[str]:
    """The first is empty, as the vendor's often is."""
    return ["", *(arguments[start : start + _FRAGMENT] for start in range(0, len(arguments), _FRAGMENT))]
