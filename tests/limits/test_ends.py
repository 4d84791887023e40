"""How replicas end, and what becomes of what was open.

It is settled if they are asked to end, and charged as it was reserved if they are killed.
"""

import asyncio
import json
import signal
from math import ceil

import pytest

from proxy.translation.estimate import PROSE
from tests.harness.redis_server import RedisServer
from tests.limits.accounts import charged, contradictions
from tests.limits.adjusted import command
from tests.limits.asks import Ask, Client, Conduct, body_of
from tests.limits.backend import Backend
from tests.limits.clients import Call, Caller, Got, NobodyListens, send_once
from tests.limits.replicas import Books, Replica, Tenants, replicas, until

pytestmark = pytest.mark.timeout(180)  # processes take long to start where others are busy

TENANT = "t"
PROMPT = 39
OUTPUT = 40
MOST = 60  # one and a half times as much: what is reserved for the next once this is known
SLOW_S = 1.3  # longer than one attempt waits
PATIENT = {"heartbeat": "0.1s", "commit_after": "0.1s"}  # and else as long as users have it
LIMITS = {TENANT: {"rpd": 10**6, "tpd": 10**9, "concurrency": 1000, "streams": 1000, "budget": {"usd": 10_000}}}


async def test_what_a_killed_replica_held_is_charged_as_it_was_reserved() -> None:
    """All requests reserve the same and use the same, so that what is charged tells how many ended in which way."""
    tenants = Tenants(LIMITS)
    call = steady(tenants)
    reserved, used = PROMPT + MOST, PROMPT + OUTPUT
    with RedisServer() as redis:
        books = Books(redis.url)
        async with (
            Backend() as backend,
            replicas(2, tenants, backend.url, redis.url, command=command(life=1.5), timeouts=PATIENT) as (
                first,
                second,
            ),
        ):
            enough = asyncio.Event()
            going = asyncio.create_task(clients_that_go_on((first, second), call, enough))
            await until(lambda: len(backend.ledger) > 100)
            async with asyncio.timeout(20):
                while await first.in_flight(TENANT) < 4:
                    pass
            await first.end(signal.SIGKILL)
            await until(lambda: len(backend.ledger) > 200)
            await first.start()
            await until(lambda: len(backend.ledger) > 300)
            enough.set()
            await going
            await until(lambda: not books.leases())
            told = await second.standings(TENANT)
            expired = sum([await replica.metric("dragoman_lease_expired_total") for replica in (first, second)])
        assert 0 < expired <= 16
        assert told["tpd"] == (told["rpd"] - expired) * used + expired * reserved
        assert told["concurrency"] == told["streams"] == 0
        assert books.kept_for_ever() == []
        books.close()


def steady(tenants: Tenants) -> Call:
    """A request whose backend says that it has the tokens which were estimated, so that estimates stay as they are."""
    ask = Ask(TENANT, "slow", prompt=PROMPT, output=OUTPUT)
    body = body_of(ask, "messages", "messages-m", stream=True, most=MOST)
    assert ceil(len(body) / PROSE) == PROMPT
    return Call(ask, "messages", tenants.keys[TENANT], body)


async def clients_that_go_on(running: tuple[Replica, ...], call: Call, enough: asyncio.Event) -> None:
    async def client(turn: int) -> None:
        async with Caller() as caller:
            while not enough.is_set():
                turn += 1
                try:
                    await caller.send(running[turn % len(running)].port, call)
                except NobodyListens:
                    await asyncio.sleep(0.01)

    await asyncio.gather(*map(client, range(16)))


async def test_all_is_settled_before_a_replica_that_was_asked_to_end_is_gone() -> None:
    """What ends while it drains, what is cut at the end of that, and what has not even begun to be answered."""
    tenants = Tenants(LIMITS)
    clients: tuple[Client, ...] = ("chat", "responses", "messages")
    conducts: tuple[Conduct, ...] = ("slow", "stalls", "silent")
    calls = [
        Call(
            ask := Ask(TENANT, conduct),
            client,
            tenants.keys[TENANT],
            body_of(ask, client, model, stream=stream, most=9),
        )
        for conduct in conducts
        for client in clients
        for model in ("chat-m", "messages-m")
        for stream in (True, False)
    ]
    with RedisServer() as redis:
        books = Books(redis.url)
        async with (
            Backend() as backend,
            replicas(
                1,
                tenants,
                backend.url,
                redis.url,
                command=command(),
                timeouts=PATIENT,
                drain={"lame_duck": "0s", "max_stream": "0.8s"},
            ) as (replica,),
        ):
            answers = [asyncio.create_task(send_once(replica.port, call)) for call in calls]
            await until(lambda: len(backend.ledger) == len(calls))
            assert await replica.end(signal.SIGTERM) == 0
            assert books.leases() == []
            account = books.account(TENANT)
            got = await asyncio.gather(*answers)
            records = replica.records()
        books.close()
    assert contradictions(records, backend.ledger, got) == []
    sums = charged(records)[TENANT]
    assert (int(account["tpd"]), int(account["budget"]), int(account["rpd"])) == (sums.tokens, sums.cost, len(calls))
    for answer in got:
        assert answer.whole == (answer.call.ask.conduct == "slow"), answer
        if not answer.whole:
            assert "shutting down" in error_in(answer), answer
    cut = [record for record in records if record["outcome"] == "incomplete"]
    assert {record["usage_source"] for record in cut} == {"estimated"}
    stalled = [record for record in cut if len(backend.ledger[record["request_id"]].told) == 1]
    assert len(stalled) == len(clients)  # Messages has told of the prompt by then, and some text has come
    assert all((record["tokens"]["input"], record["tokens"]["output"] > 1) == (40, True) for record in stalled)


async def test_a_replica_that_ends_waits_for_a_slow_store() -> None:
    tenants = Tenants(LIMITS)
    ask = Ask(TENANT, "stalls")
    call = Call(ask, "chat", tenants.keys[TENANT], body_of(ask, "chat", "messages-m", stream=True, most=9))
    with RedisServer() as redis:
        books = Books(redis.url)
        async with (
            Backend() as backend,
            replicas(
                1,
                tenants,
                backend.url,
                redis.url,
                command=command(),
                timeouts=PATIENT,
                drain={"lame_duck": "0s", "max_stream": "0.1s"},
            ) as (replica,),
        ):
            going = [asyncio.create_task(send_once(replica.port, call)) for _ in range(4)]
            await until(lambda: len(backend.ledger) == 4)
            redis.freeze()
            ending = asyncio.create_task(replica.end(signal.SIGTERM))
            await asyncio.gather(*going)
            await asyncio.wait({ending}, timeout=SLOW_S)
            assert not ending.done()
            redis.thaw()
            assert await ending == 0
            sums = charged(replica.records())[TENANT]
        assert books.leases() == []
        assert int(books.account(TENANT)["tpd"]) == sums.tokens > 0
        books.close()


def error_in(answer: Got) -> str:
    """The message of the error that the client was told, in its own dialect."""
    lines = answer.body.decode().splitlines()
    texts = [line.removeprefix("data: ") for line in lines if "error" in line and "{" in line]
    return str(json.loads(texts[-1]) if texts else "")
