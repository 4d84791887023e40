"""A backend of Chat whose streams begin at once and end when the test says so; model `endless` flows till then."""

import asyncio
from collections import Counter

import orjson
from aiohttp import web

WORDS = ["One", " two", " three", " four"]


class HeldBackend:
    """`open`: streams that have begun, by the replica that asked. `whole`: requests answered in one piece, likewise."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()
        self.whole: Counter[str] = Counter()
        self.release = asyncio.Event()
        self._opened = asyncio.Condition()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "HeldBackend":
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_get("/v1/models", _models)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def until_open(self, count: int) -> None:
        """Wait for so many streams to have begun."""
        async with self._opened:
            await self._opened.wait_for(lambda: self.open.total() >= count)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        replica = request.headers["x-replica"]
        asked = orjson.loads(await request.read())
        if not asked.get("stream"):
            self.whole[replica] += 1
            message = {"role": "assistant", "content": "Yes."}
            return web.Response(body=orjson.dumps(_reply("chat.completion", message=message, finish_reason="stop")))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await _send(response, _reply("chat.completion.chunk", delta={"role": "assistant", "content": WORDS[0]}))
        async with self._opened:
            self.open[replica] += 1
            self._opened.notify_all()
        if asked["model"] == "endless":
            while not self.release.is_set():
                await _send(response, _reply("chat.completion.chunk", delta={"content": "word " * 2000}))
        await self.release.wait()
        for word in WORDS[1:]:
            await _send(response, _reply("chat.completion.chunk", delta={"content": word}))
        await _send(response, _reply("chat.completion.chunk", delta={}, finish_reason="stop"))
        await response.write(b"data: [DONE]\n\n")
        return response


async def _models(_request: web.Request) -> web.Response:
    model = {"id": "held-1", "object": "model", "created": 1, "owned_by": "tests"}
    return web.json_response({"object": "list", "data": [model]})


def _reply(kind: str, **choice: object) -> dict[str, object]:
    choices = [{"index": 0, "finish_reason": None, **choice}]
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", "choices": choices}


async def _send(response: web.StreamResponse, wire: dict[str, object]) -> None:
    await response.write(b"data: %b\n\n" % orjson.dumps(wire))
