"""The floors: a bare aiohttp reverse proxy that translates nothing, in three depths.

The floor itself loads and dumps the JSON of requests and replies: what any translating proxy on this stack pays before
its first line of translation. A stream is forwarded as it comes, unsplit; with `--depth events` it is split and each
event loaded and dumped, the floor of a proxy that has to look into them. With `--depth plain` nothing is looked at, the
floor of a proxy whose two sides speak the same protocol.
"""

import argparse
import asyncio
from typing import Literal, get_args

import aiohttp
import orjson
import uvloop
from aiohttp import web
from yarl import URL

from tests.bench.wires import WIRES

Depth = Literal["plain", "bodies", "events"]

JSON_HEADERS = {"content-type": "application/json"}
STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8"}
DONE = b"data: [DONE]"


class Floor:
    def __init__(self, session: aiohttp.ClientSession, backends: list[str], depth: Depth) -> None:
        self.session = session
        self.urls = {
            wire.path: URL(backend + wire.path) for wire, backend in zip(WIRES.values(), backends, strict=True)
        }
        self.headers = {wire.path: {**JSON_HEADERS, **wire.headers} for wire in WIRES.values()}
        self.depth = depth

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.Response()
        body = self.looked_at(await request.read())
        path = request.path
        async with self.session.post(self.urls[path], data=body, headers=self.headers[path]) as upstream:
            if upstream.headers["content-type"].startswith("text/event-stream"):
                return await self.forward_stream(request, upstream)
            whole = self.looked_at(await upstream.read())
            return web.Response(body=whole, status=upstream.status, headers=JSON_HEADERS)

    def looked_at(self, body: bytes) -> bytes:
        return body if self.depth == "plain" else orjson.dumps(orjson.loads(body))

    async def forward_stream(self, request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers=STREAM_HEADERS)
        await response.prepare(request)
        pending = b""
        while chunk := await upstream.content.readany():
            if self.depth == "events":
                *whole, pending = (pending + chunk).split(b"\n\n")
                chunk = b"".join(map(rewrite_event, whole))
            await response.write(chunk)
        await response.write_eof()
        return response


def rewrite_event(event: bytes) -> bytes:
    if event == DONE:
        return event + b"\n\n"
    start = event.find(b"data: ") + len(b"data: ")
    return event[:start] + orjson.dumps(orjson.loads(event[start:])) + b"\n\n"


async def serve(port: int, backends: list[str], depth: Depth) -> None:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=600),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        runner = web.ServerRunner(web.Server(Floor(session, backends, depth).handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=256).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backends", nargs=len(WIRES), required=True, metavar="URL", help=f"of {', '.join(WIRES)}")
    parser.add_argument("--depth", choices=get_args(Depth), default="bodies", help="what is loaded and dumped")
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.port, arguments.backends, arguments.depth))
