"""`python -m tests.bench.state`: what it costs to keep a response, and whether its first byte waits for that.

The same proxy before the same backend, asked for the same stream, to be kept in each store or not at all.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson
import uvloop

from tests.bench.figures import Sample
from tests.bench.load import ReplyError, open_connections, request_bytes
from tests.bench.measure import CONNECTIONS, time_requests
from tests.bench.targets import StartError, Target, free_port, process, proxy_config
from tests.bench.wires import WIRES

CLIENT = WIRES["responses"]
NOT_KEPT = "not kept"
_STORE = b'"store":false'


@dataclass
class Figures:
    """Of one way to answer: what it costs, and seconds before the first byte."""

    samples: list[Sample]
    first_byte: list[float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--backend", choices=("chat", "messages"), default="messages")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with targets(options.backend) as proxies:
            figures = uvloop.run(measure(proxies, options.rounds, options.requests))
    except (StartError, ReplyError) as broken:
        print(f"no figures: {broken}", file=sys.stderr)
        return 1
    print(report(figures, f"responses>{options.backend}"))
    return 0


@contextmanager
def targets(backend: str) -> Iterator[dict[str, Target]]:
    """A proxy for each store that needs no server. The first one is asked to keep nothing."""
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        port = free_port()
        command = ["tests.bench.backend", "--protocol", backend, "--port", str(port)]
        running.enter_context(process("backend", command, port, scratch))

        def proxy(name: str, url: str) -> Target:
            own = free_port()
            config = scratch / f"{name}.yaml"
            plain = orjson.loads(proxy_config(own, backend, f"http://127.0.0.1:{port}"))
            config.write_bytes(orjson.dumps({**plain, "state": {"url": url}}))
            pid = running.enter_context(process(name, ["proxy", "serve", "--config", str(config)], own, scratch))
            return Target(name, own, pid, backend)

        yield {
            NOT_KEPT: proxy("not-kept", f"sqlite://{scratch}/none.db"),
            "sqlite": proxy("sqlite", f"sqlite://{scratch}/state.db"),
            "memory": proxy("memory", "memory:"),
        }


async def measure(proxies: dict[str, Target], rounds: int, count: int) -> dict[str, Figures]:
    """The proxies take turns in each round."""
    figures = {name: Figures([], []) for name in proxies}
    for number in range(rounds):
        order = list(proxies.items())
        for name, target in order if number % 2 == 0 else reversed(order):
            request = request_bytes(CLIENT, "burst", target.port)
            if name != NOT_KEPT:  # a blank keeps the length
                request = request.replace(_STORE, b'"store": true')
            connections = await open_connections(target.port, CONNECTIONS)
            try:
                sample = await time_requests(target, CLIENT, "burst", connections, request, count)
                figures[name].samples.append(sample)
            finally:
                for connection in connections:
                    connection.transport.abort()
            figures[name].first_byte += [await first_byte(target.port, request) for _ in range(max(count // 20, 1))]
    return figures


async def first_byte(port: int, request: bytes) -> float:
    """Seconds until a stream that is asked for alone begins."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.perf_counter()
    writer.write(request)
    await reader.readexactly(1)
    taken = time.perf_counter() - began
    writer.transport.abort()
    return taken


def report(figures: dict[str, Figures], pair: str) -> str:
    base = figures[NOT_KEPT]
    lines = [f"{pair}, streams: CPU ms for 1,000, against not keeping them within each round, ms to the first byte"]
    for name, own in figures.items():
        ratio = median(sample.cpu_ns / other.cpu_ns for sample, other in zip(own.samples, base.samples, strict=True))
        cpu = median(each.cpu_ns / each.requests / 1000 for each in own.samples)
        lines.append(f"{name:>9} {cpu:8.1f} ms {ratio:6.3f} x {median(own.first_byte) * 1000:6.2f} ms")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
