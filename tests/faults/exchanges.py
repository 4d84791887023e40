"""Exchanges through the proxy of which each meets a fault, and whether what its client got is right.

A run holds one proxy with limits and prices, a backend behind faults for all protocols, and many clients at once. It
ends with a search for what was left behind.
"""

import asyncio
import gc
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import count, product
from math import inf
from random import Random
from typing import Literal

from pydantic import SecretBytes

from proxy.settings import Timeouts
from proxy.settings.tenants import Budget, Price, Tenant, TenantLimits
from proxy.tenancy.limits import Demand, Lease, Refused
from proxy.tenancy.memory import MemoryLimiter
from tests.faults.faulty import Faulty, NoTls, reset
from tests.faults.injuries import INJURIES, Good, Step
from tests.faults.sdks import seen_by_sdk
from tests.harness.assemble import assemble
from tests.harness.client import Reply
from tests.harness.digest import digest
from tests.harness.grammar import check_stream
from tests.harness.http_wire import body_pieces, read_head
from tests.harness.model_replies import Answer, Call, render, write_stream, write_whole
from tests.harness.wire import PROTOCOLS, Json, Protocol, read_events
from tests.server.serving import PATHS, REQUESTS, Proxy, route, serving, upstream
from tests.server.tenancy import KEY, PEPPER, tenant

Client = Literal["chat", "responses", "messages", "completions"]
Leaving = Literal["asked", "begun", "reset"]  # when a client goes: it has asked, the reply has begun; or that rudely

CLIENTS: tuple[Client, ...] = ("chat", "responses", "messages", "completions")
NO_TLS = "no TLS"
KINDS = (*INJURIES, NO_TLS)
SILENT = "silence"
QUICK = Timeouts(
    connect=1.0,
    first_event_stream=1.0,
    first_event_whole=1.0,
    idle=1.0,
    commit_after=0.2,
    total_stream=5.0,
    total_whole=5.0,
    heartbeat=0.1,
)
LONGEST = 10.0  # seconds for one exchange, of a machine that is busy
_AT_ONCE = 48
_EVERY = 20  # exchanges, of which one is also shown to the vendor's SDK
_LOOK_EVERY, _STANDSTILL = 0.05, 0.2  # seconds
_NOT_RIGHT = "it must be right, and is an error"
_STRAY_LINES = "not a line of an event stream"
_LOOPBACK = (ip_network("127.0.0.0/8"),)
_PRICES = (Price("*", 1_000_000, 1_000_000, 0, 0, 0, 1_000_000),)
_WHO = tenant(limits=TenantLimits(tpd=10**12, budget=Budget(10**12), concurrency=1000, streams=1000))
_TOOLS: dict[Client, Json] = {
    "chat": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}],
    "messages": [{"name": "look", "input_schema": {"type": "object"}}],
}


@dataclass(frozen=True)
class Exchange:
    """One request to make, and what becomes of its answer. `leaving`: the client does not wait for the end."""

    number: int
    client: Client
    backend: Protocol
    streamed: bool
    kind: str
    seed: int
    leaving: Leaving | None = None

    @property
    def id(self) -> str:
        return f"exchange-{self.number}"

    @property
    def answer(self) -> Answer:
        """No two say the same, so that none can be taken for another."""
        calls = (Call(f"call_{self.number}", "look", {"at": self.number}),)
        text = f"Exchange {self.number}: grüße aus 北京, said {self.number} times."
        return Answer("m-1", text, calls if self._calls else (), number=self.number)

    @property
    def _calls(self) -> bool:
        return self.client != "completions" and self.number % 3 == 0

    @property
    def request(self) -> bytes:
        wire = {**REQUESTS[self.client], "stream": self.streamed}
        wire["model"] = f"{'tls' if self.kind == NO_TLS else 'plain'}-{self.backend}"
        if self._calls:
            wire["tools"] = _TOOLS[self.client]
        return json.dumps(wire).encode()

    def steps(self, before: int) -> tuple[list[Step], bool]:
        """What its request meets that has been seen so often before."""
        injury = INJURIES[self.kind]
        good = _good(self.backend, self.answer, streamed=self.streamed)
        if before and injury.first_only:
            return list(good.framed), False
        return injury.strike(good, Random(self.seed)), injury.unread

    def __str__(self) -> str:
        how = "streamed" if self.streamed else "whole"
        left = f", left ({self.leaving})" if self.leaving else ""
        return f"{self.number} (seed {self.seed}) {self.client} to {self.backend}, {how}, {self.kind}{left}"


def _good(protocol: Protocol, answer: Answer, *, streamed: bool) -> Good:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: "
    if not streamed:
        body = json.dumps(write_whole(protocol, answer), ensure_ascii=False).encode()
        return Good(head + b"application/json", [body], streamed=False)
    pieces = [render(protocol, [event]) for event in write_stream(protocol, answer)]
    return Good(head + b"text/event-stream", pieces, streamed=True)


def all_kinds(seed: int, *, times: int = 1) -> Iterator[Exchange]:
    """Each fault in each pair of protocols and each mode, struck where chance says."""
    random, numbers = Random(seed), count(1)
    for _ in range(times):
        for kind, client, backend, streamed in product(KINDS, CLIENTS, PROTOCOLS, (False, True)):
            yield Exchange(next(numbers), client, backend, streamed, kind, random.getrandbits(32))


def at_random(seed: int, size: int) -> Iterator[Exchange]:
    """Any fault in any pair, and some clients that leave."""
    random = Random(seed)
    for number in range(1, size + 1):
        leaving: Leaving | None = random.choice(("asked", "begun", "reset")) if random.random() < 0.15 else None
        yield Exchange(
            number,
            random.choice(CLIENTS),
            random.choice(PROTOCOLS),
            random.random() < 0.6,
            random.choice(KINDS),
            random.getrandbits(32),
            leaving,
        )


@dataclass
class Outcome:
    """`problems`: what was wrong, with whom. `cancelled`: seconds from when a client left to when its backend was."""

    problems: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    cancelled: list[float] = field(default_factory=list)

    @property
    def exchanges(self) -> int:
        return self.counted.total()


@dataclass
class Run:
    """A proxy and what surrounds it."""

    proxy: Proxy
    faulty: Faulty
    plans: dict[str, Exchange]
    leases: Counter[str]
    outcome: Outcome = field(default_factory=Outcome)
    _sample: list[tuple[Exchange, Reply, bool]] = field(default_factory=list)
    stood_still: float = (
        -inf
    )  # when the loop last did, by its clock: then limits are missed that nobody made anyone miss

    async def all(self, exchanges: Iterable[Exchange], at_once: int = _AT_ONCE) -> Outcome:
        """Make them all, and look for what they left behind."""
        planned = iter(exchanges)
        looking = asyncio.create_task(self._look_at_loop())
        await asyncio.gather(*(self._client(planned) for _ in range(at_once)))
        looking.cancel()
        self._ask_sdks()
        self.outcome.problems += await left_behind(self.proxy)
        self._check_settlements()
        return self.outcome

    def _ask_sdks(self) -> None:
        for exchange, reply, right in self._sample:
            assert exchange.client != "completions"
            for problem in seen_by_sdk(exchange.client, reply, exchange.answer, right=right):
                self._note(exchange, problem)

    async def _look_at_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(_LOOK_EVERY)
            if loop.time() - began > _LOOK_EVERY + _STANDSTILL:
                self.stood_still = loop.time()

    async def _client(self, planned: Iterator[Exchange]) -> None:
        for exchange in planned:
            self.plans[exchange.id] = exchange
            await self.one(exchange)

    async def one(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        reply, left = await _ask(int(self.proxy.url.rpartition(":")[2]), exchange, self.faulty)
        took = loop.time() - began
        if took > LONGEST:
            self._note(exchange, f"it took {took:.1f} s")
        if left is not None:
            self.outcome.counted["left"] += 1
            await self._check_cancelled(exchange, left)
            return
        said = judged(exchange, reply)
        if said == [_NOT_RIGHT] and self.stood_still > began and b"took too long" in reply.body:
            said = "late"
        if isinstance(said, list):
            self.outcome.problems += [f"{exchange}: {problem}: {reply.body[-400:]!r}" for problem in said]
            self.outcome.counted["wrong"] += 1
        else:
            self.outcome.counted[said] += 1
            if exchange.number % _EVERY == 0 and exchange.client != "completions":
                self._sample.append((exchange, reply, said == "right"))

    async def _check_cancelled(self, exchange: Exchange, left: float) -> None:
        """What the backend says to who has left, or holds, must be given up."""
        deadline = asyncio.get_running_loop().time() + LONGEST
        while exchange.id in self.faulty.busy:
            if asyncio.get_running_loop().time() > deadline:
                self._note(exchange, "its backend was never left")
                return
            await asyncio.sleep(0.002)
        # What had been said in full may take its time to end.
        if exchange.kind == SILENT and (gone := self.faulty.left.get(exchange.id)) is not None:
            self.outcome.cancelled.append(gone - left)

    def _note(self, exchange: Exchange, problem: str) -> None:
        self.outcome.problems.append(f"{exchange}: {problem}")

    def _check_settlements(self) -> None:
        odd = {lease: times for lease, times in self.leases.items() if times != 1}
        if odd:
            self.outcome.problems.append(f"leases that were not settled once: {odd}")


def judged(exchange: Exchange, reply: Reply) -> str | list[str]:
    """ "right" or "error"; or what is wrong with it."""
    injury = INJURIES.get(exchange.kind)
    if reply.broken or reply.status is None:
        return [f"the reply is broken off, status {reply.status}"]
    if reply.header("x-request-id") != exchange.id:
        return [f"it is the reply to {reply.header('x-request-id')}"]
    error = _error_problems(exchange, reply)
    if not error:
        return [_NOT_RIGHT] if injury is not None and injury.harmless else "error"
    wrong = _answer_problems(exchange, reply)
    if wrong:
        return [f"neither an error ({'; '.join(error)}) nor right ({'; '.join(wrong)})"]
    if injury is None or injury.fatal:
        return ["it must be an error, and is not"]
    return "right"


def _error_problems(exchange: Exchange, reply: Reply) -> list[str]:
    """Why it is no error in the client's dialect; empty if it is."""
    if reply.streamed:
        return _stream_problems(exchange, reply, "error")
    assert reply.status is not None
    if reply.status < 400:
        return [f"status {reply.status}"]
    try:
        wire = json.loads(reply.body)
        error = wire["error"]
        names = set(error) - {"details"}
    except (ValueError, KeyError, TypeError):
        return ["no error in JSON"]
    if exchange.client == "messages":
        fits = wire["type"] == "error" and names == {"type", "message"} and "request_id" in wire
    else:
        fits = names == {"message", "type", "param", "code"}
    return [] if fits and error["message"] else [f"an error of another shape: {wire}"]


def _answer_problems(exchange: Exchange, reply: Reply) -> list[str]:
    """Why it is not the answer that the backend gave; empty if it is."""
    if reply.status != 200:
        return [f"status {reply.status}"]
    if exchange.client == "completions":
        return _completion_problems(exchange, reply)
    if exchange.streamed:
        if problems := _stream_problems(exchange, reply, "clean"):
            return problems
        whole = assemble(exchange.client, read_events(reply.body.decode()).events)
    else:
        whole = json.loads(reply.body)
    said, answer = digest(exchange.client, whole), exchange.answer
    calls = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
    return [] if (said.text, said.calls) == (answer.text, calls) else [f"it says {said}"]


def _completion_problems(exchange: Exchange, reply: Reply) -> list[str]:
    if exchange.streamed:
        stream = read_events(reply.body.decode())
        if not stream.done:
            return ["no [DONE]"]
        chunks = [event.data for event in stream.events]
    else:
        chunks = [json.loads(reply.body)]
    choices = [choice for wire in chunks for choice in wire["choices"]]
    text = "".join(choice["text"] for choice in choices)
    ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return [] if (text, ends) == (exchange.answer.text, ["stop"]) else [f"it says {text!r}, and ends {ends}"]


def _stream_problems(exchange: Exchange, reply: Reply, end: Literal["clean", "error"]) -> list[str]:
    if exchange.client == "completions":
        stream = read_events(reply.body.decode("utf-8", "replace"))
        last = stream.events[-1].data if stream.events else None
        told = isinstance(last, dict) and set(last.get("error") or ()) == {"message", "type", "param", "code"}
        return [] if told and not stream.done else ["a stream that tells no error"]
    same = exchange.client == exchange.backend
    problems = check_stream(exchange.client, reply.body, expect_end=end, passed_through=same)
    # What passes through is what came: no client minds lines that say nothing to it.
    return [problem for problem in problems if not (same and problem.startswith(_STRAY_LINES))]


async def _ask(port: int, exchange: Exchange, faulty: Faulty) -> tuple[Reply, float | None]:
    """The reply, and when the client left (the loop's clock)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reply, loop = Reply(), asyncio.get_running_loop()
    body = exchange.request
    lines = [
        f"POST {PATHS[exchange.client]} HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        f"authorization: Bearer {KEY}",
        f"x-exchange: {exchange.id}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        if exchange.leaving is None:
            await _read(reader, reply)
            return reply, None
        await _wait_to_leave(reader, exchange, faulty)
        if exchange.leaving == "reset":
            reset(writer)
        return reply, loop.time()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        reply.broken = True
        return reply, None
    finally:
        writer.close()


async def _wait_to_leave(reader: asyncio.StreamReader, exchange: Exchange, faulty: Faulty) -> None:
    if exchange.kind == SILENT:
        async with asyncio.timeout(LONGEST):
            while exchange.id not in faulty.busy:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    elif exchange.leaving == "begun":
        await asyncio.wait({asyncio.create_task(reader.read(1))}, timeout=LONGEST)
    else:
        await asyncio.sleep(Random(exchange.seed).choice((0.0, 0.001, 0.01, 0.05)))


async def _read(reader: asyncio.StreamReader, reply: Reply) -> None:
    head = await read_head(reader)
    reply.status, reply.headers = int(head.line.split(" ")[1]), head.headers
    async for piece in body_pieces(reader, head, to_end=True):
        reply.body += piece


async def left_behind(proxy: Proxy) -> list[str]:
    """What is still held for exchanges that are over, once it has had its time."""
    limiter, deadline = proxy.runtime.limiter, asyncio.get_running_loop().time() + LONGEST
    assert isinstance(limiter, MemoryLimiter)
    while (held := _held(proxy, limiter)) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    used = {standing.dimension: standing.used for standing in await limiter.standings(_WHO)}
    return [*held, *(f"{name} of the tenant: {used[name]}" for name in ("concurrency", "streams") if used[name])]


def _held(proxy: Proxy, limiter: MemoryLimiter) -> list[str]:
    runtime, pool = proxy.runtime, proxy.runtime.pool
    connectors = [session.connector for session in (pool._session, pool._fresh)]
    counts = {
        "open exchanges": len(runtime.open),
        "tokens reserved": limiter.reserved_tokens,
        "leases that ran out": limiter.expired,
        "backends' connections in use": sum(len(each._acquired) for each in connectors if each),
        "answers that linger": len(pool._lingering),
    }
    return [f"{name}: {number}" for name, number in counts.items() if number]


def open_files() -> set[str]:
    """What this process has open, each with its number."""
    gc.collect()  # what only waits to be collected is not lost
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the folder that was just listed
            found.add(f"{number}: {os.readlink(f'/proc/self/fd/{number}')}")
    return found


@asynccontextmanager
async def run() -> AsyncIterator[Run]:
    """A proxy before backends of all protocols that answer as exchanges plan it."""
    plans: dict[str, Exchange] = {}

    def steps(name: str, before: int) -> tuple[list[Step], bool]:
        exchange = plans.get(name)  # where a client left so soon that nobody knows who it was, there is none
        return (["hold"], False) if exchange is None else exchange.steps(before)

    async with Faulty(steps) as faulty, NoTls() as no_tls:
        secure = no_tls.base_url.replace("http:", "https:")
        routes = []
        for protocol in PROTOCOLS:
            plain = upstream(protocol, faulty.base_url, name=protocol, timeouts=QUICK)
            tls = upstream(protocol, secure, name=f"tls-{protocol}", timeouts=QUICK)
            routes += [route(f"plain-{protocol}", plain), route(f"tls-{protocol}", tls)]
        async with serving(
            *(target.upstream for entry in routes for target in entry.targets),
            models=routes,
            timeouts=QUICK,
            tenants=[_WHO],
            prices=_PRICES,
            key_pepper=SecretBytes(PEPPER),
            trusted_proxies=_LOOPBACK,
            trust_request_id_from=("x-exchange",),
        ) as proxy:
            yield Run(proxy, faulty, plans, _watched_leases(proxy))


def _watched_leases(proxy: Proxy) -> Counter[str]:
    """How often each lease is settled."""
    limiter, times = proxy.runtime.limiter, Counter[str]()
    reserve, settle = limiter.reserve, limiter.settle

    async def watched_reserve(who: Tenant, demand: Demand) -> Lease | Refused:
        taken = await reserve(who, demand)
        if isinstance(taken, Lease):
            times[taken.id] = 0
        return taken

    def watched_settle(lease: Lease, tokens: int, cost: int) -> None:
        times[lease.id] += 1
        settle(lease, tokens, cost)

    limiter.reserve, limiter.settle = watched_reserve, watched_settle  # type: ignore[method-assign,assignment]
    return times
