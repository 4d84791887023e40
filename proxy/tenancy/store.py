"""Tenants' accounts in Redis or Valkey: one script, one call for each question (operations.md 9.4).

What it raises is `StoreFailed` and says nothing of where the store is, since its address may hold a password.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from proxy.tenancy.limits import Demand
from proxy.tenancy.terms import Reading, Terms

CALL_TIMEOUT = 0.05  # seconds; somebody waits for it
BATCH_TIMEOUT = 1.0  # nobody does
READING = 0.005  # seconds that an answer takes from the socket to who waits for it
KEYS = 4  # of an account
MOST_CONNECTIONS = 8
MOST_ALONE = 4  # calls at once; what comes beyond goes together
MOST_TOGETHER = 200  # calls in one write: to put them together takes a while, in which nothing else is done
MOST_REFRESHED = 500  # leases in one call, so that it keeps nobody waiting for long

_SCRIPT = Path(__file__).with_name("account.lua").read_text("utf-8")
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

# Event loops raise RuntimeError for a connection that was closed meanwhile.
_FAILURES = (RedisError, OSError, TimeoutError, RuntimeError)

Argument = str | int
Call = tuple[Argument, ...]  # the keys, then what the script reads

Work = TypeVar("Work")

_READ = Demand(0, 0, stream=False, lasts=0.0)
_NO_ENDS = ("", "", "")


class StoreFailed(Exception):
    """There was no answer in time, or none that helps. The message is the kind of failure."""


class Answer(NamedTuple):
    """`reason`: why it was refused; empty: it was not. `at`: the store's Unix seconds. `wait`: seconds until there is
    room. `expired`: leases that were found to have ended unsettled. The rest is as the account stands afterwards."""

    reason: str
    at: float
    wait: float
    expired: int
    reading: Reading
    tpd_since: float
    budget_since: float


class Settlement(NamedTuple):
    """Differences are used less reserved; `rate`, `tpd_since`, `budget_since` as the script reads them."""

    tenant: str
    id: str
    tokens: int
    cost: int
    rate: str
    tpd_since: str
    budget_since: str


class Question:
    """What the script is told of a tenant: all but the calendars stays as long as its limits do. `asked`: when it was
    asked for last, by the clock of who asks."""

    __slots__ = ("_budget", "_calendars", "_limits", "_since", "_until", "asked", "keys", "terms")

    def __init__(self, tenant: str, terms: Terms) -> None:
        limits = terms.limits
        budget = limits.budget
        self.keys = _keys(tenant)
        self.terms = terms
        self.asked = 0.0
        self._limits = (
            *(map(repr, (terms.interval, terms.slack, terms.most_ahead)) if terms.interval else _NO_ENDS),
            *((terms.capacity, repr(terms.rate)) if terms.rate else ("", "")),
            *("" if limit is None else limit for limit in (limits.concurrency, limits.streams, limits.rpd, limits.tpd)),
        )
        self._budget = ("", "") if budget is None else (budget.limit, int(budget.hard))
        self._calendars: tuple[Argument, ...] = ()
        self._since = self._until = 0.0

    def arguments(self, now: float) -> tuple[Argument, ...]:
        """`now`: this process's wall clock, for when windows end. The store's own decides which of them it is."""
        if not self._since <= now < self._until:
            days, periods = self.terms.days.ends(now), None
            self._since, self._until, _ = days
            if self.terms.periods is not None:
                periods = self.terms.periods.ends(now)
                self._since, self._until = max(days[0], periods[0]), min(days[1], periods[1])
            ends = _NO_ENDS if periods is None else tuple(map(repr, periods))
            self._calendars = (*map(repr, days), *self._budget, *ends)
        return (*self._limits, *self._calendars)


class Store:
    """`timeout`: seconds for an answer that somebody waits for. `now`: Unix seconds in place of the store's own clock,
    which is for tests alone. Raises ValueError for an address that can't be."""

    def __init__(self, url: str, timeout: float = CALL_TIMEOUT, now: Callable[[], float] | None = None) -> None:
        self._client = Redis.from_pool(_pool(url, timeout))
        self._timeout = timeout
        self._now = now
        self._alone = 0
        self._waiting: list[tuple[Call, asyncio.Future[bytes]]] = []
        self._carrying = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def reserve(
        self, question: Question, lease_id: str, demand: Demand, life: float, calendar_now: float
    ) -> Answer:
        """Take what the demand asks for, or nothing. Without a refresh the lease ends after `life` seconds."""
        return _answer(
            await self._call(
                (
                    *question.keys,
                    "reserve",
                    self._time(),
                    lease_id,
                    demand.tokens,
                    demand.cost,
                    int(demand.stream),
                    repr(demand.lasts),
                    repr(life),
                    *question.arguments(calendar_now),
                )
            )
        )

    async def read(self, question: Question, calendar_now: float) -> Answer:
        """How the account stands."""
        return await self.reserve(question, "", _READ, 0.0, calendar_now)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """All of them. What was settled before is not settled again, so that a batch that failed may be sent again."""
        now = self._time()
        await self._batch([(*_keys(each.tenant), "settle", now, *each[1:]) for each in settlements])

    async def refresh(self, leases: dict[str, list[tuple[str, float]]], life: float) -> int:
        """Keep these alive, by tenant: their ids, and when they can't be open any more by the store's clock. Also ends
        those of these tenants that nobody keeps, and says how many."""
        now = self._time()
        calls: list[Call] = []
        for tenant, held in leases.items():
            for first in range(0, max(1, len(held)), MOST_REFRESHED):
                call: list[Argument] = [*_keys(tenant), "refresh", now, repr(life)]
                for lease_id, deadline in held[first : first + MOST_REFRESHED]:
                    call += (lease_id, repr(deadline))
                calls.append(tuple(call))
        expired = 0
        for first in range(0, len(calls), MOST_TOGETHER):
            expired += sum(await self._batch(calls[first : first + MOST_TOGETHER]))
        return expired

    async def close(self) -> None:
        """Let go of all connections, once what is under way is done."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=BATCH_TIMEOUT)
        await self._client.aclose()

    def _time(self) -> str:
        return "" if self._now is None else repr(self._now())

    async def _call(self, call: Call) -> bytes:
        """Of many at once most go together: each alone costs some times as much of this process's time."""
        if self._alone < MOST_ALONE:
            self._alone += 1
            answer = self._apart(self._call_alone(call))
        else:
            answer = self._call_together(call)
        try:
            return await self._in_time(answer)
        except _FAILURES as failure:
            raise StoreFailed(type(failure).__name__) from None
        finally:
            answer.cancel()  # if nobody waits for it any more

    async def _in_time(self, answer: asyncio.Future[bytes]) -> bytes:
        """Where it was this process that was busy for so long, the answer may be here and only has to be read."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        await asyncio.wait((answer,), timeout=self._timeout)
        if not answer.done():
            late = clock() - begun - self._timeout
            await asyncio.wait((answer,), timeout=min(late, self._timeout) + READING)
        if not answer.done():
            raise TimeoutError
        return answer.result()

    def _apart(self, work: Coroutine[Any, Any, Work]) -> asyncio.Future[Work]:
        """The client swallows a cancellation now and then, and with it a time-out or the end of a request. So it only
        works in tasks that nobody cancels, and who waits may leave."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        task.exception()  # perhaps nobody waits for it any more

    async def _call_alone(self, call: Call) -> bytes:
        reply: bytes
        try:
            reply = await self._client.evalsha(_SHA, KEYS, *call)
        except NoScriptError:
            reply = await self._client.eval(_SCRIPT, KEYS, *call)
        finally:
            self._alone -= 1
        return reply

    def _call_together(self, call: Call) -> asyncio.Future[bytes]:
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, reply))
        if not self._carrying:
            self._carrying = True
            self._apart(self._carry())
        return reply

    async def _carry(self) -> None:
        """Ask what waits, all at once, until nothing does."""
        while self._waiting:
            asked = self._waiting[:MOST_TOGETHER]
            del self._waiting[:MOST_TOGETHER]
            try:
                replies = await self._batch([call for call, _ in asked])
            except StoreFailed as failure:
                for _, reply in asked:
                    if not reply.done():  # who asked may have gone
                        reply.set_exception(failure)
            else:
                for (_, reply), answer in zip(asked, replies, strict=True):
                    if not reply.done():
                        reply.set_result(answer)
        self._carrying = False

    async def _batch(self, calls: Sequence[Call]) -> list[Any]:
        """Raises StoreFailed if any of them failed."""
        try:
            replies = await self._apart(self._pipeline_with_script(calls))
        except _FAILURES as failure:
            raise StoreFailed(type(failure).__name__) from None
        for reply in replies:
            if isinstance(reply, RedisError):
                raise StoreFailed(type(reply).__name__)
        return replies

    async def _pipeline_with_script(self, calls: Sequence[Call]) -> list[Any]:
        replies = await self._pipeline(calls)
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            await self._client.script_load(_SCRIPT)
            again = await self._pipeline([calls[index] for index in unknown])
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        return replies

    async def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.evalsha(_SHA, KEYS, *call)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies


def _pool(url: str, timeout: float) -> BlockingConnectionPool:
    """Raises ValueError, which does not quote the address."""
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MOST_CONNECTIONS,
            timeout=timeout,
            socket_timeout=BATCH_TIMEOUT,
            socket_connect_timeout=BATCH_TIMEOUT,
            protocol=2,
            retry=Retry(NoBackoff(), 0),  # what failed may have been done; who asks knows what to do about it
        )
        pool.connection_class(
            **pool.connection_kwargs
        )  # it does not connect, but finds options in the address that there are not
    except (ValueError, TypeError):
        raise ValueError("the address of the shared store has a port, a number or an option that can't be") from None
    return pool


def _keys(tenant: str) -> tuple[str, ...]:
    """In braces is what a cluster chooses a node by: all of a tenant's are on one."""
    base = f"dragoman:{{{tenant}}}:"
    return f"{base}account", f"{base}leases", f"{base}streams", f"{base}undone"


def _answer(reply: bytes) -> Answer:
    reason, *texts = reply.decode().split()
    at, wait, ahead, tokens, rpd_end, tpd_end, budget_end, tpd_since, budget_since = map(float, texts[:9])
    expired, rpd, tpd, budget, open_now, streams = map(int, texts[9:])
    reading = Reading(ahead, tokens, rpd, rpd_end - at, tpd, tpd_end - at, budget, budget_end - at, open_now, streams)
    return Answer("" if reason == "-" else reason, at, wait, expired, reading, tpd_since, budget_since)
