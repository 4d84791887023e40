"""`python -m tests.bench.collector --port N`: takes spans by OTLP and forgets them."""

import argparse
import asyncio

from aiohttp import web


async def take(request: web.BaseRequest) -> web.Response:
    """Any request, read to its end."""
    await request.read()
    return web.Response(content_type="application/x-protobuf")


async def serve(port: int) -> None:
    runner = web.ServerRunner(web.Server(take), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))
