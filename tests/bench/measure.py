"""Rounds of phases over all targets.

Neighbours on the machine move absolute CPU times by half and more, so each round times the floors and
every pair right after another, and a ratio is always taken within one round.
"""

import asyncio
import os
import sys
import time
from collections.abc import Collection

from tests.bench.carriers import history
from tests.bench.content import DELTAS_IN_A_BURST, DELTAS_IN_A_PACED_STREAM, PHASES, STREAMED, Phase, Wire
from tests.bench.cost import cost_of, cpu_ns
from tests.bench.figures import Figures, Row, Sample
from tests.bench.first_byte import time_first_bytes
from tests.bench.load import Connection, open_connections, request_bytes, send, verify
from tests.bench.starts import time_start
from tests.bench.targets import Target, Targets
from tests.bench.wires import WIRES

CONNECTIONS = 16
PACED_STREAMS = 20
STARTS_IN_A_ROUND = 2  # of fresh processes; in three rounds each pair has had its turn
SETTLE_S = 0.02  # for what a proxy does after the last byte of a reply: counters, access records

FIRST_BYTE = "first-byte"
START = "start"
PARTS = (*PHASES, FIRST_BYTE, START)  # what a run may be made of

BODIES: tuple[Phase, ...] = tuple(phase for phase in PHASES if phase != "carriers")
STREAMS: tuple[Phase, ...] = ("burst", "thinking", "arguments", "paced")
SAME: tuple[Phase, ...] = ("small", "agent", "burst")  # that are timed where both sides speak one protocol
OF_PEERS: tuple[Phase, ...] = ("small", "agent", "burst")  # of clients of other protocols than Chat the first


def rows_of(targets: Targets, pairs: list[tuple[str, str]]) -> list[Row]:
    """Of all phases, but those that need a history: see `with_histories`."""
    protocols = [name for name in WIRES if not pairs or any(name in pair for pair in pairs)]
    floor, plain, events = (targets.floors[name] for name in ("floor", "plain", "events-floor"))
    return [
        *(Row(floor, name, name, ("small", "agent", "burst")) for name in protocols),
        *(Row(plain, name, name, SAME) for name in protocols),
        *(Row(events, name, name, STREAMS) for name in protocols),
        *(
            Row(targets.proxies[backend], client, backend, SAME if client == backend else BODIES)
            for client, backend in pairs
        ),
        *(
            Row(targets.peers[backend], client, backend, OF_PEERS if client == "chat" else OF_PEERS[:1])
            for client, backend in pairs
            if backend in targets.peers
        ),
    ]


async def with_histories(targets: Targets, pairs: list[tuple[str, str]]) -> list[Row]:
    """A row for the proxy and one for the floor, with the same bytes, for each pair that needs carriers."""
    rows = []
    for client, backend in pairs:
        if client != backend:
            talk = await history(WIRES[client], targets.proxies[backend])
            rows += [
                Row(target, client, backend, ("carriers",), talk)
                for target in (targets.floors["floor"], targets.proxies[backend])
            ]
    return rows


async def measure(
    targets: Targets, pairs: list[tuple[str, str]], rounds: int, requests: int, parts: Collection[str] = PARTS
) -> Figures:
    """Time every row in every phase of `parts`, `rounds` times; the order of the rows turns round by round.

    Raises ReplyError when a reply is not what the backend's script means.
    """
    figures = Figures(rows_of(targets, pairs))
    if "carriers" in parts:
        figures.rows += await with_histories(targets, pairs)
    cross = [pair for pair in pairs if pair[0] != pair[1]]
    for number in range(rounds):
        figures.loads.append(os.getloadavg()[0])
        print(f"round {number + 1} of {rounds}, load average {figures.loads[-1]:.1f}", file=sys.stderr, flush=True)
        for phase in (phase for phase in PHASES if phase in parts):
            for row in figures.rows if number % 2 == 0 else reversed(figures.rows):
                if phase in row.phases:
                    driver = targets.backends[row.target.backend or row.client]
                    sample = await time_phase(row, phase, max(requests // row.target.slowness, 1), driver)
                    figures.samples[row.label, phase].append(sample)
        if FIRST_BYTE in parts:
            for client, backend in cross:
                waits = await time_first_bytes(WIRES[client], targets, backend, max(requests // 12, 5))
                figures.first_bytes[f"{client}>{backend}"].append(waits)
        if START in parts:
            for client, backend in in_turn(cross, number, STARTS_IN_A_ROUND):
                figures.starts.append(await time_start(WIRES[client], targets, backend, streams=min(requests, 1000)))
    figures.loads.append(os.getloadavg()[0])
    return figures


def in_turn(pairs: list[tuple[str, str]], number: int, count: int) -> list[tuple[str, str]]:
    """The next so many of `pairs`, beginning anew at their end; each once at most."""
    start = number * count
    return [pairs[at % len(pairs)] for at in range(start, start + min(count, len(pairs)))]


def requests_in(phase: Phase, requests: int) -> int:
    """Agent requests cost three small ones, streams six: fewer of them give the same precision."""
    if phase == "paced":
        return PACED_STREAMS
    share = {"small": 1, "agent": 2, "carriers": 2}.get(phase, 8)
    return max(requests // share, CONNECTIONS)


def units_in(phase: Phase) -> int:
    """What a request counts as: an event for each delta of a stream, else one."""
    if phase not in STREAMED:
        return 1
    return DELTAS_IN_A_PACED_STREAM if phase == "paced" else DELTAS_IN_A_BURST


async def time_phase(row: Row, phase: Phase, requests: int, backend: Target) -> Sample:
    wire = WIRES[row.client]
    request = request_bytes(wire, phase, row.target.port, row.talk)
    connections = await open_connections(row.target.port, PACED_STREAMS if phase == "paced" else CONNECTIONS)
    try:
        count = requests_in(phase, requests)
        return await time_requests(row.target, wire, phase, connections, request, count, backend)
    finally:
        for connection in connections:
            connection.transport.abort()


async def time_requests(
    target: Target,
    wire: Wire,
    phase: Phase,
    connections: list[Connection],
    request: bytes,
    count: int,
    backend: Target | None = None,
) -> Sample:
    """`backend`: the one behind the target, to be looked at as well."""
    await warm_up(target, wire, phase, connections, request, count)
    await asyncio.sleep(SETTLE_S)
    driven = cpu_ns(backend.pid) if backend else 0
    began, loaded, before = time.perf_counter(), time.process_time_ns(), cost_of(target.pid)
    replies = await send(connections, request, count)
    wall_s, load_ns = time.perf_counter() - began, time.process_time_ns() - loaded
    await asyncio.sleep(SETTLE_S)
    after = cost_of(target.pid)
    verify(wire, phase, replies, loosely=target.is_peer)
    return Sample(
        units=count * units_in(phase),
        requests=count,
        cpu_ns=after.cpu_ns - before.cpu_ns,
        minor_faults=after.minor_faults - before.minor_faults,
        rss_kb=after.rss_kb,
        wall_s=wall_s,
        backend_ns=cpu_ns(backend.pid) - driven if backend else 0,
        load_ns=load_ns,
    )


async def warm_up(
    target: Target, wire: Wire, phase: Phase, connections: list[Connection], request: bytes, count: int
) -> None:
    if phase == "paced":  # takes its time; another stream on each connection warms as well
        phase, request = "first", request_bytes(wire, "first", target.port)
    least = len(connections) if target.is_peer else 2 * len(connections)
    replies = await send(connections, request, max(least, count // 10))
    verify(wire, phase, replies, loosely=target.is_peer)
