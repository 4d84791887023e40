"""`python -m tests.bench.translate`: what the pure translation costs, without sockets.

Each figure stands beside the time that orjson needs to load the same bytes and dump them again, taken in the same
turn, since a busy machine slows both alike.
"""

import statistics
import sys
import time
from collections.abc import Callable

import orjson

from proxy.canonical.loss import LossReport
from proxy.canonical.reply import ReplyContext
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect, Target
from proxy.server.lifecycle import settle_memory
from proxy.translation import pair
from proxy.translation.prepared import Prepared
from tests.bench.content import Phase
from tests.bench.conversations import conversation, reply
from tests.bench.wires import WIRES

TURNS = 7
LEAST = 0.03  # seconds that one figure is taken over


def main() -> int:
    settle_memory()  # the collector as the server has it
    print(f"{'client>backend':20} {'request':>24} {'reply':>24} {'stream event':>24}")
    print(f"{'':20} " + " ".join(f"{'us':>12} {'x json':>11}" for _ in range(3)))
    for client in WIRES:
        for backend in WIRES:
            print(f"{client + '>' + backend:20} " + " ".join(figures(client, backend)), flush=True)
    return 0


def figures(client: str, backend: str) -> list[str]:
    return [
        figure(request_task(client, backend, "agent"), WIRES[client].write_request(conversation("agent"))),
        figure(reply_task(client, backend), WIRES[backend].write_reply(reply("small"))),
        figure(*stream_task(client, backend)),
    ]


def figure(task: Callable[[], object], loaded: object, events: int = 1) -> str:
    """The median of several turns, in microseconds, and as a multiple of loading and dumping the same JSON."""
    raw = loaded if isinstance(loaded, list) else [orjson.dumps(loaded)]

    def json_alone() -> None:
        for text in raw:  # nothing is kept, as in the proxy: memory that grows costs more than the JSON
            orjson.dumps(orjson.loads(text))

    samples = [(timed(task), timed(json_alone)) for _ in range(TURNS)]
    cost = statistics.median(cost for cost, _ in samples) / events
    ratio = statistics.median(cost / base for cost, base in samples)
    return f"{cost * 1e6:12.2f} {ratio:11.2f}"


def timed(task: Callable[[], object]) -> float:
    """Seconds of processor time that one call takes."""
    calls = 1
    while True:
        start = time.process_time()
        for _ in range(calls):
            task()
        spent = time.process_time() - start
        if spent >= LEAST:
            return spent / calls
        calls *= 4


def prepared(client: str, backend: str, phase: Phase) -> Prepared:
    raw = orjson.dumps(WIRES[client].write_request(conversation(phase)))
    target = Target(backend, f"bench-{phase}", Dialect())  # type: ignore[arg-type]
    return pair.prepare(pair.peek(client, raw), target, pair.Options())  # type: ignore[arg-type]


def request_task(client: str, backend: str, phase: Phase) -> Callable[[], object]:
    raw = orjson.dumps(WIRES[client].write_request(conversation(phase)))
    target = Target(backend, f"bench-{phase}", Dialect())  # type: ignore[arg-type]
    return lambda: pair.prepare(pair.peek(client, raw), target, pair.Options())  # type: ignore[arg-type]


def reply_task(client: str, backend: str) -> Callable[[], object]:
    raw = orjson.dumps(WIRES[backend].write_reply(reply("small")))
    asked = prepared(client, backend, "small")
    return lambda: asked.reply(raw)


def stream_task(client: str, backend: str) -> tuple[Callable[[], object], list[bytes], int]:
    """One whole stream, fed as it comes from a socket that is full: some events at once."""
    events = WIRES[backend].write_stream(reply("burst"))
    chunks = [b"".join(events[start : start + 16]) for start in range(0, len(events), 16)]
    context = ReplyContext("req_1", "bench-burst", include_usage=True)
    target = Target(backend, "bench-burst", Dialect())  # type: ignore[arg-type]
    spelling = None if client == backend else Spelling()

    def task() -> None:
        asked = Prepared(client, target, b"", True, True, context, LossReport(), spelling)  # type: ignore[arg-type]
        translation = asked.translation()
        for chunk in chunks:
            translation.feed(chunk)
        translation.end()

    payloads = [event.partition(b"data: ")[2] for event in events]
    return task, [payload for payload in payloads if payload.startswith(b"{")], len(events)


if __name__ == "__main__":
    sys.exit(main())
